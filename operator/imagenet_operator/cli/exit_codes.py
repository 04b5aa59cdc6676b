"""The exit codes of `imagenetctl`."""

SUCCESS = 0
FAILED = 1
USAGE = 2
ENVIRONMENT = 3
TIME_PASSED = 4
NOT_FOUND = 5
INTERRUPTED = 130
UNREAD = 141

HELP = f"""exit codes:
  {SUCCESS:<5}success
  {FAILED:<5}the job failed, an image could not be classified, a ledger is wrong, a checkpoint does
       not follow from the one before it, or a model could not be exported
  {USAGE:<5}invalid usage or manifest
  {ENVIRONMENT:<5}this machine cannot run it: a program is missing, the working directory is in use
       or cannot be written, too few GPUs, a port is in use, the output cannot be written;
       doctor: no local run is possible
  {TIME_PASSED:<5}wait: the time has passed
  {NOT_FOUND:<5}wait and the other verbs of jobs: there is no such job, pod, claim,
       model or checkpoint
  {INTERRUPTED:<5}interrupted (Ctrl-C, SIGTERM or SIGHUP); run the same command again to resume
  {UNREAD:<5}broken pipe
"""
