"""What has to be looked at at once, and what may wait for more of its kind.

Each pod on its way to run changes several times, and those of a gang within moments of each other.
A pass for every change would write a status for every change, which is dear: the API server
validates all of the job each time. Whatever a decision hangs on is told at once.
"""

from imagenet_operator.api.base import Manifest

TOGETHER_SECONDS = 0.5
"""How long a pod's news waits for more. Kubernetes' own controller of Jobs waits a second."""


def can_wait(pod: Manifest) -> bool:
    """Return whether a pod only is on its way, or arrived: nobody ends it, holds it, or lost it."""
    return (
        pod.get("status", {}).get("phase") in ("Pending", "Running")
        and "deletionTimestamp" not in pod["metadata"]
        and not pod["spec"].get("schedulingGates")
    )
