"""Storage: an eviction for the pod's own use of local storage, which is no disruption.

The kubelet evicts a pod that exceeds its limit of ephemeral-storage, or the sizeLimit of an
emptyDir. The reason is Evicted, as for a node that lacks memory or disk, but the condition
DisruptionTarget is missing. Another attempt would write as much.
"""

from __future__ import annotations

from typing import Final

from imagenet_operator.api.base import Manifest
from imagenet_operator.reconcile.policies import memory

EXCEEDED: Final = "StorageLimitExceeded"
"""The reason of a pod that was evicted for its own use of storage, and of the attempt's end."""

_EVICTED: Final = "Evicted"
_OF_THE_NODE: Final = ("The node ", "Pod was rejected")
_WORD: Final = "exceed"


def is_exceeded(status: Manifest) -> bool:
    """Whether the kubelet evicted a pod for its own use of storage.

    Clusters before Kubernetes 1.31 may not set DisruptionTarget, so the kubelet's words count too.

    Args:
        status: The pod's.
    """
    conditions = status.get("conditions") or ()
    words = str(status.get("message") or "")
    return (
        status.get("reason") == _EVICTED
        and not any(item["type"] == "DisruptionTarget" for item in conditions)
        and not words.startswith(_OF_THE_NODE)
        and _WORD in words
    )


def remedy(status: Manifest, role: str) -> str:
    """Return the kubelet's words about such a pod, and what to change.

    Args:
        status: The pod's.
        role: The pod's role.
    """
    words = " ".join(str(status["message"]).split()).rstrip(".")
    return (
        f"{words}; write less outside the volumes of the dataset and the output, or raise the "
        f"limit of ephemeral-storage or the sizeLimit of the emptyDir in {memory.template_of(role)}"
    )
