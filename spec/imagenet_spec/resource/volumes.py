"""The volumes of a job: an existing claim, or one that the operator creates."""

from __future__ import annotations

from typing import Annotated, Literal

from annotated_types import MaxLen, MinLen
from pydantic import Field

from imagenet_spec.resource.base import Model, Unit
from imagenet_spec.resource.fields import ObjectName, StorageClassName
from imagenet_spec.resource.quantities import POSITIVE_BYTES
from imagenet_spec.rules import Rule

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
            explain=lambda volume: (
                ("claimName and size are given together", "keep one")
                if volume.size
                else ("neither claimName nor size is given", "write claimName, or size: 200Gi")
            ),
        ),
        Rule(
            cel="!has(self.claimName) || (!has(self.storageClassName) && !has(self.accessModes))",
            message="storageClassName and accessModes describe a new claim; claimName names one",
            hint="remove them, or write size instead of claimName",
        ),
        Rule(
            cel="!has(self.accessModes) || self.accessModes.exists(mode, mode != 'ReadOnlyMany')",
            message="must allow writing: a new claim is empty",
            field="accessModes",
            hint="write [ReadWriteMany], or [ReadWriteOnce] to have all pods share a node",
        ),
        Rule(
            cel=(
                "!has(self.accessModes) || self.accessModes.size() == 1"
                " || !('ReadWriteOncePod' in self.accessModes)"
            ),
            message="ReadWriteOncePod cannot be combined with another access mode",
            field="accessModes",
            hint="keep one of them",
        ),
    )


def _one_pod_rule(path: str, one_pod_cel: str, pods: str) -> Rule:
    """Return the rule that a claim for one pod is used by one.

    A second pod would never start, perhaps after hours of preparation. The builders handle other
    access modes (`manifests.volumes`). Two steps of the claim's `path` in `spec` may be absent.
    """
    parent = path.rpartition(".")[0]
    modes = f"self.{path}.accessModes"
    given = [f"has(self.{name})" for name in (parent, path, f"{path}.accessModes")]
    return Rule(
        cel=f"!({' && '.join(given)}) || !('ReadWriteOncePod' in {modes}) || ({one_pod_cel})",
        message=f"ReadWriteOncePod is for one pod, and more use the claim by {pods}",
        field=f"{path}.accessModes",
        hint="write [ReadWriteMany], or [ReadWriteOnce] to have them share a node",
    )


SHARING_RULES = (
    _one_pod_rule(
        "dataset.volume",
        "self.dataset.preprocessing.parallelism == 1 && self.training.workers.replicas == 1",
        "preprocessing.parallelism or workers.replicas",
    ),
    _one_pod_rule(
        "training.output.volume",
        "self.training.workers.replicas == 1",
        "workers.replicas",
    ),
)
"""Rules for `spec`: one for each claim that the operator may create."""
