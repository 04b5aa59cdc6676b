"""Result: success needs one, if the workers run a program of ours.

`imagenet-train` leaves its result in its termination message at its real end: the accuracy and
speed of rank 0, or the speed of `--test-io`. Workers that all exit with 0 without a result have
not trained. The label `labels.RESULT` marks the pods that must leave one. Pods of an older operator
lack it, and so do pods with a program of the user's own.
"""

from __future__ import annotations

from imagenet_operator.api.status import TrainingStatus
from imagenet_operator.reconcile.policies import job_status
from imagenet_operator.reconcile.types import Charge, End


def verdict(training: TrainingStatus) -> End | None:
    """Return why an attempt whose workers all succeeded has failed, if it has.

    Args:
        training: The attempt, with the record of its members.
    """
    workers = [member for member in training.members if member.role == "worker"]
    # Without an exit code, there was no termination message to read.
    is_known = all(worker.exit_code is not None for worker in workers)
    if not training.expects_result or not is_known or any(map(job_status.result_of, workers)):
        return None
    message = (
        "all workers exited with 0, but none left a result; the image must run imagenet-train to"
        " its end, or spec.training.workers.template must set the command of your own program"
    )
    return End("NoResult", message, Charge.PERMANENT)
