"""`imagenet-track`: sends the events of a job to TensorBoard and MLflow, beside its rank 0.

`process.side_process` starts it with the pod's environment, and `imagenetctl tracking sync` with
`--once`. It ends some seconds after SIGTERM at the latest. The module imports little, because it
starts beside a training that loads its framework.
"""

import argparse
import os
import resource
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from imagenet_spec.names import IMAGENET_RESULTS
from imagenet_spec.program.option import collect, parser
from imagenet_spec.program.programs import TRACK, TrackOptions

DESCRIPTION = """\
Send the events of a job's attempts to TensorBoard's files and to an MLflow server. The job's folder
is $IMAGENET_RESULTS. The server's address and login are files of a Secret's keys, in the folder
$IMAGENET_TRACKING_CREDENTIALS. Without --once, it follows the logs until it gets SIGTERM.
"""

# In bytes of address space, so that a mistake here takes no memory from the training.
MEMORY = 1 << 30
ENDED_TOGETHER = Path("/sys/fs/cgroup/memory.oom.group")


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of `imagenet-track`."""
    return parser(TRACK, description=DESCRIPTION)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `imagenet-track`; return the exit code."""
    from imagenet_workloads.process.program import run_program

    options = collect(build_parser().parse_args(arguments), TrackOptions)
    # Its error is no result of the pod, whose message belongs to the training.
    return run_program(TRACK.name, lambda: _track(options, os.environ), {})


def _track(options: TrackOptions, variables: Mapping[str, str]) -> int:
    ending = threading.Event()
    if not options.once:
        signal.signal(signal.SIGTERM, lambda *_: ending.set())
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        # If memory is short, this process is to end, and not the training.
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        with suppress(OSError):
            # A kubelet with cgroup v2 has all processes of a container ended together: there, the
            # first choice of the kernel would be the training too.
            if not ENDED_TOGETHER.exists() or ENDED_TOGETHER.read_text().strip() == "0":
                Path("/proc/self/oom_score_adj").write_text("1000")

    from imagenet_workloads.environment import Environment
    from imagenet_workloads.errors import InputError, StorageError
    from imagenet_workloads.telemetry.event_log import log_readably
    from imagenet_workloads.tracking.follow import Follower
    from imagenet_workloads.tracking.mlflow import Job

    log_readably()
    results = variables.get(IMAGENET_RESULTS)
    if not results:
        raise InputError("IMAGENET_RESULTS is unset; it is the folder of the job's attempts")
    environment = Environment.from_mapping(variables)
    if options.mlflow_experiment is not None and not environment.job_uid:
        raise InputError("IMAGENET_JOB_UID is unset; the run of a job is found by its UID")
    job = Job(environment.job, environment.namespace, environment.job_uid)
    follower = Follower(Path(results), options, job, variables)
    if not options.once:
        follower.follow(ending)
        return 0
    try:
        follower.read()
        follower.write()
    except OSError as error:
        raise StorageError(f"{error.filename or results}: {error.strerror}") from error
    if follower.history.started is None:
        raise InputError(f"{results}: no attempt has written an event yet")
    sent = follower.send()
    if options.mlflow_experiment is not None:
        print(f"{sent} points sent to MLflow")
    return 0


if __name__ == "__main__":
    sys.exit(main())
