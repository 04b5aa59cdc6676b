"""An ImageNetJob as the API server stores it, read into the model by `reconciler`.

The CRD refuses invalid jobs. But a job may be older than the installed CRD, or have been stored
while validation was off. Such a job fails with a reason, once.
"""

import contextlib
from collections.abc import Iterable
from typing import Any, Final

from pydantic import ValidationError

from imagenet_operator.api import ImageNetJob, validation
from imagenet_operator.api.base import Manifest
from imagenet_operator.api.dataset import DatasetSpec
from imagenet_operator.api.job import ImageNetJobSpec, ObjectMeta
from imagenet_operator.api.run_policy import MANAGER, RunPolicy
from imagenet_operator.api.status import Status
from imagenet_operator.api.training import TrainingSpec
from imagenet_operator.clusters.kubernetes.cache import Stored
from imagenet_operator.errors import ImageNetJobError, Problem
from imagenet_operator.manifests.names import SCHEDULING_GATE
from imagenet_operator.reconcile import rejection

_NO_VOLUME: Final[dict[str, Any]] = {"volume": None}
_NO_OUTPUT: Final[dict[str, Any]] = {"output": None}


class Unreadable(ImageNetJobError):  # noqa: N818 - says what a stored object is
    """A stored ImageNetJob that the model cannot read.

    Attributes:
        reason: Of its failure.
        generation: The object's.
        status: Its status; None if that cannot be read either.
    """

    def __init__(self, reason: str, message: str, generation: int, status: Status | None) -> None:
        super().__init__(message)
        self.reason = reason
        self.generation = generation
        self.status = status


def read(stored: Stored) -> ImageNetJob:
    """Return a stored job, with its resource version.

    Raises:
        Unreadable: It is invalid.
    """
    try:
        job = ImageNetJob.model_validate_json(stored.text)
    except ValidationError as error:
        manifest = stored.manifest()
        problems = validation.validate(manifest) or [Problem("", str(error))]
        generation = int(manifest["metadata"].get("generation", 1))
        reason, message = rejection.reason_of(problems), in_words(problems)
        raise Unreadable(reason, message, generation, _status(manifest)) from None
    metadata = job.metadata.model_copy(update={"resource_version": str(stored.version)})
    return job.model_copy(update={"metadata": metadata})


def stub(stored: Stored, status: Status) -> ImageNetJob:
    """Return the readable parts of an unreadable job: enough to clean up behind it.

    Args:
        stored: The job.
        status: Its status.
    """
    manifest = stored.manifest()
    names = ("name", "namespace", "uid", "generation", "resourceVersion")
    metadata = {name: value for name, value in manifest["metadata"].items() if name in names}
    fields: dict[str, Any] = {
        "run_policy": _readable_policy(manifest),
        # The claims that it names are unknown, so it adopts none.
        "dataset": DatasetSpec.model_construct(**_NO_VOLUME),
        "training": TrainingSpec.model_construct(**_NO_OUTPUT),
    }
    return ImageNetJob.model_construct(
        metadata=ObjectMeta.model_validate(metadata),
        spec=ImageNetJobSpec.model_construct(**fields),
        status=status,
    )


def _readable_policy(manifest: Manifest) -> RunPolicy:
    """Return a job's runPolicy, with the defaults for fields that cannot be read."""
    spec = manifest.get("spec")
    policy = spec.get("runPolicy") if isinstance(spec, dict) else None
    readable = {}
    for name, value in policy.items() if isinstance(policy, dict) else ():
        with contextlib.suppress(ValidationError):
            RunPolicy.model_validate({name: value})
            readable[name] = value
    return RunPolicy.model_validate(readable)


def in_words(problems: Iterable[Problem]) -> str:
    """Return the problems of a job as one line."""
    return "; ".join(str(problem) for problem in problems)


def is_ours_to_run(manifest: Manifest) -> bool:
    """Whether this operator works on a stored object.

    It leaves jobs alone that are being deleted or that have another manager.
    """
    if "deletionTimestamp" in manifest["metadata"]:
        return False
    spec = manifest.get("spec")
    policy = spec.get("runPolicy") if isinstance(spec, dict) else None
    manager = policy.get("managedBy") if isinstance(policy, dict) else None
    return manager in (None, MANAGER)


def waits_for_room(job: ImageNetJob, children: list[Manifest]) -> bool:
    """Whether pods of the job are held back until all of them fit."""
    return job.spec.run_policy.scheduling_policy.gang == "Wait" and any(
        gate["name"] == SCHEDULING_GATE
        for item in children
        if item["kind"] == "Pod"
        for gate in item["spec"].get("schedulingGates") or ()
    )


def _status(manifest: Manifest) -> Status | None:
    try:
        return Status.model_validate(manifest.get("status") or {})
    except ValidationError:
        return None
