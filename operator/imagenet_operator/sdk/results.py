"""What `download` brings: the model of a job, or one of its checkpoints, and the sums of its files.

The files lie below the job's folder of its output volume (`train.result` and `checkpoint` of the
workloads write them). `Storage` reaches them: through a door to the claim, or on this machine.
result.json and a checkpoint's manifest.json list the files with their lengths and SHA-256. The
job's status has the SHA-256 of result.json, so what arrives is what the training has written.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final, Protocol

from imagenet_operator.clusters.interface import ClusterError
from imagenet_operator.manifests import names
from imagenet_operator.sdk.errors import NotFound
from imagenet_spec.errors import ImageNetJobError
from imagenet_spec.names import (
    ATTEMPTS_FOLDER,
    CHECKPOINT_FILE,
    CHECKPOINTS_FOLDER,
    RESULT_FILE,
    THUMBNAILS_FOLDER,
    TRAINING_FILE,
)
from imagenet_spec.program.train import MODES, Metric
from imagenet_spec.resource import ImageNetJob
from imagenet_spec.tree import FileError, parts_of

BEST: Final = "best"
LAST: Final = "last"

_CHECKPOINT: Final = re.compile(
    rf"r(\d+)/{CHECKPOINTS_FOLDER}/(epoch-(\d+)-batch-(\d+))/{re.escape(CHECKPOINT_FILE)}"
)
_COUNTS: Final[Mapping[Metric, str]] = {"top1": "top1", "top5": "top5", "loss": "loss_units"}


class Storage(Protocol):
    """The volume of a job's results; paths are relative to its root."""

    async def names(self, folder: str) -> Sequence[str]:
        """Return the names of all files below a folder, relative to it; none without one."""

    async def read(self, path: str) -> bytes:
        """Return the content of a small file."""

    async def fetch(
        self, folder: str, sums: Mapping[str, str], wanted: Callable[[str], bool]
    ) -> None:
        """Bring the wanted files of a folder, compared with their hex SHA-256."""


async def fetch(job: ImageNetJob, storage: Storage, checkpoint: str | int | None) -> None:
    """Bring the model of a job or, if one is named, a checkpoint: `best`, `last` or an epoch.

    Raises:
        NotFound: The job has no model, or no such checkpoint.
        ClusterError: result.json is not the one that the job's status names.
    """
    require(job, checkpoint)
    if checkpoint is None:
        await _fetch_model(job, storage)
        return
    folder = f"{names.output_folder(job.metadata.name, job.metadata.uid)}/{ATTEMPTS_FOLDER}"
    found = f"{folder}/{await _checkpoint(job, storage, folder, checkpoint)}"
    manifest = await storage.read(f"{found}/{CHECKPOINT_FILE}")
    sums = {CHECKPOINT_FILE: hashlib.sha256(manifest).hexdigest(), **_sums(manifest)}
    await storage.fetch(found, sums, lambda name: True)


def require(job: ImageNetJob, checkpoint: str | int | None) -> None:
    """See that a job has what is to be fetched, as far as the job itself says it.

    Raises:
        NotFound: It has not.
        ImageNetJobError: A text names no checkpoint.
    """
    name = job.metadata.name
    if isinstance(checkpoint, str):
        read_checkpoint(checkpoint)
    if checkpoint is None and job.status.model is None:
        raise NotFound(
            f"{name} has no model; a job has one once it has succeeded. Its checkpoints come "
            f"before: choose the checkpoint {LAST!r}"
        )
    if checkpoint == BEST and job.spec.training.checkpoint.best is None:
        raise NotFound(
            f"{name} keeps no best checkpoint, because it has no spec.training.checkpoint.best; "
            f"choose {LAST!r} or an epoch"
        )


async def _fetch_model(job: ImageNetJob, storage: Storage) -> None:
    model = job.status.model
    assert model is not None
    folder = _model_folder(job)
    path = f"{folder}/{RESULT_FILE}"
    result = await storage.read(path)
    digest = hashlib.sha256(result).hexdigest()
    if model.sha256 is not None and digest != model.sha256:
        raise ClusterError(
            f"{path}: its SHA-256 is {digest}, and the job's status has {model.sha256}: it was "
            "changed after the training"
        )
    sums = {RESULT_FILE: digest, **_sums(result)}
    # A SavedModel is a folder.
    folders = {THUMBNAILS_FOLDER, *(_object(result).get("model") or {}).values()}

    def wanted(name: str) -> bool:
        """Whether it is of the model, the curves or the log; not of a checkpoint or the ledger."""
        first, *rest = PurePosixPath(name).parts
        return name in sums or first in folders or (not rest and not first.startswith("."))

    await storage.fetch(folder, sums, wanted)


def _model_folder(job: ImageNetJob) -> str:
    """Return the folder of a job's model on its volume, which has it also after an upload."""
    model, training, metadata = job.status.model, job.status.training, job.metadata
    assert model is not None
    if model.claim_name is not None or training is None:
        return model.path
    return names.attempt_folder(metadata.name, metadata.uid, training.attempt)


def read_checkpoint(text: str) -> str | int:
    """Read the choice of a checkpoint: best, last or a number of finished epochs.

    Raises:
        ImageNetJobError: It is none of them.
    """
    if text in (BEST, LAST):
        return text
    if not text.isascii() or not text.isdigit():
        raise ImageNetJobError(
            f"{text!r} names no checkpoint; write {BEST}, {LAST}, or how many epochs it has trained"
        )
    return int(text)


@dataclass(frozen=True, order=True)
class _Checkpoint:
    """A complete checkpoint; of two of one epoch, that of the later attempt is further."""

    epoch: int
    attempt: int
    batch: int
    path: str


async def _checkpoint(job: ImageNetJob, storage: Storage, folder: str, wanted: str | int) -> str:
    name = job.metadata.name
    # The manifest is written last, so that it shows that a checkpoint is complete.
    found = sorted(
        _Checkpoint(int(match[3]), int(match[1]), int(match[4]), str(PurePosixPath(file).parent))
        for file in await storage.names(folder)
        if (match := _CHECKPOINT.fullmatch(file))
    )
    if not found:
        raise NotFound(f"{name} has no checkpoint yet")
    if wanted == LAST:
        return found[-1].path
    epoch = await _best_epoch(job, storage, folder, found[-1]) if wanted == BEST else int(wanted)
    of_epoch = [item for item in found if item.epoch == epoch and item.batch == 0]
    if not of_epoch:
        there = sorted({item.epoch for item in found if item.batch == 0})
        raise NotFound(
            f"{name} has no checkpoint after {epoch} epochs; it has those after "
            f"{', '.join(map(str, there)) or 'no whole epoch'}, and {LAST!r}"
        )
    return of_epoch[-1].path


async def _best_epoch(job: ImageNetJob, storage: Storage, folder: str, last: _Checkpoint) -> int:
    """Return the epoch with the best validation, by the last checkpoint or by result.json."""
    name, best = job.metadata.name, job.spec.training.checkpoint.best
    assert best is not None
    if job.status.model is not None:
        result = _object(await storage.read(f"{_model_folder(job)}/{RESULT_FILE}"))
        if isinstance(found := (result.get("best") or {}).get("epoch"), int):
            return found
    state = _object(await storage.read(f"{folder}/{last.path}/{TRAINING_FILE}"))
    sign = 1 if MODES[best.metric] == "max" else -1
    ranked = [
        (sign * counts[_COUNTS[best.metric]] / counts["images"], -int(item["epoch"]))
        for item in state.get("validations") or ()
        if (counts := item["counts"])["images"]
        and not (best.metric == "loss" and counts["not_finite"])
    ]
    if not ranked:
        raise NotFound(f"{name} has no validated checkpoint yet; choose {LAST!r}")
    return -max(ranked)[1]


def _sums(document: bytes) -> dict[str, str]:
    """Return the SHA-256 of the files that a result.json or a manifest lists."""
    # A release before 0.2.0 lists none in result.json.
    listed = _object(document).get("files") or {}
    try:
        for name in listed:
            parts_of(name)
        return {name: str(item["sha256"]) for name, item in listed.items()}
    except FileError as error:
        raise ClusterError(f"a file of the job's results lists a wrong name: {error}") from error
    except (AttributeError, KeyError, TypeError) as error:
        raise ClusterError("a file of the job's results lists its files without sums") from error


def _object(document: bytes) -> dict[str, Any]:
    try:
        found = json.loads(document)
    except ValueError as error:
        raise ClusterError(f"a file of the job's results is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise ClusterError("a file of the job's results is no JSON object")
    return found
