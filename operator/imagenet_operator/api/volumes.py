"""The volumes of a job: an existing claim, or one that the operator creates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

from annotated_types import MaxLen, MinLen
from pydantic import Field

from imagenet_operator.api.base import Model, Rule, Unit
from imagenet_operator.api.fields import ObjectName, StorageClassName
from imagenet_operator.api.quantities import POSITIVE_BYTES

AccessMode = Literal["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"]


class VolumeClaim(Model):
    """A volume: `claimName` of a PersistentVolumeClaim, or `size` of a new one."""

    claim_name: ObjectName | None = None
    """An existing PersistentVolumeClaim in the job's namespace."""

    size: (
        Annotated[str, MaxLen(32), Field(pattern=POSITIVE_BYTES), Unit("bytes, as 200Gi")] | None
    ) = None
    """The size of a new claim, which is named after the job."""

    storage_class_name: StorageClassName | None = None
    """The new claim's storage class; "" for an existing volume without a class. Absent: the
    cluster's default class."""

    access_modes: Annotated[tuple[AccessMode, ...], MinLen(1), MaxLen(4)] | None = None
    """The new claim's access modes. Absent: ReadWriteMany, which pods on several nodes need. With
    ReadWriteOnce, all pods of the job must fit on one node."""

    rules = (
        Rule(
            cel="has(self.claimName) != has(self.size)",
            message="exactly one of claimName, size must be given",
            holds=lambda volume: (volume.claim_name is None) != (volume.size is None),
            explain=lambda volume: (
                ("claimName and size are given together", "keep one")
                if volume.size
                else ("neither claimName nor size is given", "write claimName, or size: 200Gi")
            ),
        ),
        Rule(
            cel="!has(self.claimName) || (!has(self.storageClassName) && !has(self.accessModes))",
            message="storageClassName and accessModes describe a new claim; claimName names one",
            holds=lambda volume: (
                volume.claim_name is None
                or (volume.storage_class_name is None and volume.access_modes is None)
            ),
            hint="remove them, or write size instead of claimName",
        ),
        Rule(
            cel="!has(self.accessModes) || self.accessModes.exists(mode, mode != 'ReadOnlyMany')",
            message="must allow writing: a new claim is empty",
            field="accessModes",
            holds=lambda volume: (
                volume.access_modes is None or set(volume.access_modes) != {"ReadOnlyMany"}
            ),
            hint="write [ReadWriteMany], or [ReadWriteOnce] to have all pods share a node",
        ),
        Rule(
            cel=(
                "!has(self.accessModes) || self.accessModes.size() == 1"
                " || !('ReadWriteOncePod' in self.accessModes)"
            ),
            message="ReadWriteOncePod cannot be combined with another access mode",
            field="accessModes",
            holds=lambda volume: (
                volume.access_modes is None
                or len(volume.access_modes) == 1
                or "ReadWriteOncePod" not in volume.access_modes
            ),
            hint="keep one of them",
        ),
    )


def _one_pod_rule(
    path: str,
    claim: Callable[[Any], VolumeClaim | None],
    one_pod_cel: str,
    one_pod: Callable[[Any], bool],
    pods: str,
) -> Rule:
    """Return the rule that a claim for one pod is used by one.

    A second pod would never start, perhaps after hours of preparation. The builders handle other
    access modes (`manifests.volumes`).

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


SHARING_RULES = (
    _one_pod_rule(
        "dataset.volume",
        lambda spec: spec.dataset.volume,
        "self.dataset.preprocessing.parallelism == 1 && self.training.workers.replicas == 1",
        lambda spec: (
            spec.dataset.preprocessing.parallelism == 1 and spec.training.workers.replicas == 1
        ),
        "preprocessing.parallelism or workers.replicas",
    ),
    _one_pod_rule(
        "training.output.volume",
        lambda spec: None if spec.training.output is None else spec.training.output.volume,
        "self.training.workers.replicas == 1",
        lambda spec: spec.training.workers.replicas == 1,
        "workers.replicas",
    ),
)
"""Rules for `spec`: one for each claim that the operator may create."""
