"""Memory: what to change if the kernel killed a program for using more memory than its limit."""

from __future__ import annotations

from typing import Final

OOM_KILLED: Final = "OOMKilled"
"""The kubelet's reason."""

_PREPARATION = "spec.dataset.preprocessing.template"
_LIMIT: Final = {
    "index": _PREPARATION,
    "pack": _PREPARATION,
    "seal": _PREPARATION,
    "server": "spec.training.strategy.parameterServer.servers.template",
    "worker": "spec.training.workers.template",
}
_OTHERWISE: Final = {
    "server": ", or spec.training.strategy.parameterServer.servers.replicas",
    "worker": ", or lower spec.training.batchSize or dataThreads",
}


def remedy(role: str) -> str:
    """Return a sentence about a pod of a role that was killed for its memory."""
    place = _LIMIT.get(role, "the template of its role")
    return (
        f"used more memory than its limit ({OOM_KILLED}); raise resources.limits.memory in {place}"
        f"{_OTHERWISE.get(role, '')}"
    )
