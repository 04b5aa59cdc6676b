"""Memory: what to change if the kernel killed a program for using more memory than its limit."""

from __future__ import annotations

from typing import Final

from pydantic.alias_generators import to_camel

from imagenet_operator.api import ImageNetJob
from imagenet_operator.api.training import TrainingSpec
from imagenet_spec.frameworks import FRAMEWORKS

OOM_KILLED: Final = "OOMKilled"
"""The kubelet's reason."""

_PREPARATION = "spec.dataset.preprocessing.template"
_LIMIT: Final = {
    "fetch": _PREPARATION,
    "index": _PREPARATION,
    "pack": _PREPARATION,
    "seal": _PREPARATION,
    "server": "spec.training.strategy.parameterServer.servers.template",
    "worker": "spec.training.workers.template",
}
_OTHERWISE: Final = {
    "server": ", or spec.training.strategy.parameterServer.servers.replicas",
    "worker": ", or lower spec.training.batchSize, of which the reader holds several, or "
    "dataThreads, each a decoder with memory of its own",
}
_ACCUMULATION: Final = "extraArgs: [--macrobatch-size, …] adds up the gradients of smaller batches"


def remedy(role: str, job: ImageNetJob | None = None) -> str:
    """Return a sentence about a pod that was killed for its memory.

    Args:
        role: The pod's role.
        job: Its job, if it is a member of an attempt.
    """
    place = template_of(role)
    instead = _OTHERWISE.get(role, "")
    if role == "worker" and job is not None:
        instead += f" ({_ACCUMULATION})"
        instead += _of_framework(job.spec.training)
    return (
        f"used more memory than its limit ({OOM_KILLED}); raise resources.limits.memory in {place}"
        f"{instead}"
    )


def template_of(role: str) -> str:
    """Return the path of the template with the resources of a role."""
    return _LIMIT.get(role, "the template of its role")


def _of_framework(training: TrainingSpec) -> str:
    framework = FRAMEWORKS[training.framework]
    option = framework.memory_option
    if framework.memory_variable is not None:
        switch = f"{framework.memory_variable} in its env"
    elif option is not None and not getattr(training, option):
        switch = f"spec.training.{to_camel(option)}: true"
    else:
        return ""
    return f"; {switch} may save some more, but is slower"
