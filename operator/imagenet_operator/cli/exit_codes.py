"""The exit codes of `imagenetctl`, in one place: for the commands, their help and scripts."""

SUCCESS = 0
FAILED = 1
USAGE = 2
ENVIRONMENT = 3
INTERRUPTED = 130
UNREAD = 141

HELP = f"""exit codes:
  {SUCCESS:<5}success
  {FAILED:<5}the job failed, or an image could not be classified
  {USAGE:<5}wrong usage, or a manifest that is not valid
  {ENVIRONMENT:<5}this machine cannot do it: a program is missing, the working directory is in use
       or cannot be written, too few GPUs, a port is taken, the output cannot be written
  {INTERRUPTED:<5}interrupted (Ctrl-C, SIGTERM or SIGHUP); the same command goes on from there
  {UNREAD:<5}whoever read the output went away
"""
