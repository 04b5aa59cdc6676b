"""Rules for `spec` on new claims and the number of pods that use them.

With a ReadWriteOncePod claim, a second pod would never start, perhaps after hours of preparation.
The builders handle other access modes (`manifests.volumes`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from imagenet_operator.api.base import Rule
from imagenet_operator.api.volumes import VolumeClaim


def _rule(
    path: str,
    claim: Callable[[Any], VolumeClaim | None],
    one_pod_cel: str,
    one_pod: Callable[[Any], bool],
    pods: str,
) -> Rule:
    """Return the rule that a claim for one pod is used by one.

    Args:
        path: The claim's field in `spec`; two steps of it may be absent.
        claim: Returns the claim of a spec, or None.
        one_pod_cel: The CEL expression for one pod.
        one_pod: The same in Python.
        pods: The fields with the number of pods, for the message.
    """
    parent = path.rpartition(".")[0]
    modes = f"self.{path}.accessModes"
    given = [f"has(self.{name})" for name in (parent, path, f"{path}.accessModes")]

    def holds(spec: Any) -> bool:
        volume = claim(spec)
        allowed = () if volume is None else volume.access_modes or ()
        return "ReadWriteOncePod" not in allowed or one_pod(spec)

    return Rule(
        cel=f"!({' && '.join(given)}) || !('ReadWriteOncePod' in {modes}) || ({one_pod_cel})",
        message=f"ReadWriteOncePod is for one pod, and more use the claim by {pods}",
        field=f"{path}.accessModes",
        holds=holds,
        hint="write [ReadWriteMany], or [ReadWriteOnce] to have them share a node",
    )


RULES = (
    _rule(
        "dataset.volume",
        lambda spec: spec.dataset.volume,
        "self.dataset.preprocessing.parallelism == 1 && self.training.workers.replicas == 1",
        lambda spec: (
            spec.dataset.preprocessing.parallelism == 1 and spec.training.workers.replicas == 1
        ),
        "preprocessing.parallelism or workers.replicas",
    ),
    _rule(
        "training.output.volume",
        lambda spec: None if spec.training.output is None else spec.training.output.volume,
        "self.training.workers.replicas == 1",
        lambda spec: spec.training.workers.replicas == 1,
        "workers.replicas",
    ),
)
"""One rule for each claim that the operator may create."""
