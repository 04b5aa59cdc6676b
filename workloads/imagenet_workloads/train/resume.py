"""Where a training resumes: at the newest checkpoint, at given weights, or at random ones.

Rank 0 decides and broadcasts, since another rank might see the volume differently. A framework
loads what is found there.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from imagenet_spec.program.kinds import Value
from imagenet_spec.program.train import Options
from imagenet_workloads.checkpoint import (
    CheckpointStore,
    Identity,
    Position,
    named_checkpoint,
    read_batches_per_epoch,
    read_images,
)
from imagenet_workloads.environment import Environment
from imagenet_workloads.errors import WorkloadError
from imagenet_workloads.train import start
from imagenet_workloads.train.group import Group

# What rank 0 can have found.
_NOTHING, _OWN, _FOREIGN = range(3)


@dataclass(frozen=True)
class ResumePoint:
    """Where to go on, in this training's epochs.

    Attributes:
        folder: the checkpoint's; None without one.
        continues: the checkpoint is this training's own, so its optimizer goes on too.
        first_image: of the position's epoch, if the images have an order.
        attempt_at_end: the attempt that saved this training's checkpoint at the end of an epoch;
            None without one, and within an epoch.
    """

    position: Position
    folder: Path | None = None
    continues: bool = False
    first_image: int = 0
    attempt_at_end: int | None = None

    @property
    def resumed_from(self) -> str | None:
        return None if self.folder is None else str(self.folder)


def find_resume_point(
    options: Options,
    store: CheckpointStore,
    identity: Identity,
    group: Group,
    batches_per_epoch: int,
    accumulation_steps: int,
    worked: Callable[[], None] = lambda: None,
    ordered_batch: int | None = None,
) -> ResumePoint:
    """Find the place; every rank gets the same.

    A checkpoint of this training is continued. One that only --init-from(-url) names, of another
    training, gives its weights, and the training begins at epoch 0. `worked` is called after each
    file of a checkpoint that was read. `ordered_batch` are the images of a batch over all workers,
    now, if they have an order.

    InputError: --init-from(-url) names no checkpoint. WorkloadError: this rank does not see the
    checkpoint that rank 0 has found.
    """
    found = store.newest(options.output.init_from, worked)
    if found is None and (fetched := start.checkpoint(options, worked)) is not None:
        found = named_checkpoint(fetched, worked)
    own = found is not None and found.manifest.identity == identity
    place = found.position if found is not None else Position(0, 0)
    kind = _NOTHING if found is None else _OWN if own else _FOREIGN
    # Two attempts may have one of the same place, with other validations.
    attempt = 0 if found is None else found.manifest.attempt
    seen = [kind, place.epoch, place.batch, attempt]
    of_rank_0 = group.broadcast_from_rank0("start", seen)
    if of_rank_0 != seen:
        url = options.output.init_from_url
        bucket = "" if url is None else f" And does an upload to {url} go on?"
        raise WorkloadError(
            f"rank {group.rank} sees another newest checkpoint than rank 0 (kind, epoch, batch, "
            f"attempt: {seen}, not {of_rank_0}); is the output volume one for all workers?{bucket}"
        )
    if found is None:
        return ResumePoint(Position(options.output.load_epoch or 0, 0))
    if not own:
        return ResumePoint(Position(0, 0), found.folder)
    at_end = found.manifest.attempt if place.batch == 0 else None
    images = read_images(found.folder)
    if ordered_batch is not None and images is not None:
        # The missing images are the same for any number of workers and size of batches.
        position = Position(place.epoch, images // ordered_batch)
        return ResumePoint(position, found.folder, True, images, at_end)
    was = read_batches_per_epoch(found.folder)
    position = translate(place, was, batches_per_epoch, accumulation_steps)
    return ResumePoint(position, found.folder, continues=True, attempt_at_end=at_end)


def translate(position: Position, was: int, now: int, accumulation_steps: int) -> Position:
    """Find a position again in epochs of another length, between two updates, not later.

    An epoch `was` so many batches when the position was recorded, and is so many `now`.
    """
    batch = position.batch * now // was // accumulation_steps * accumulation_steps
    return Position(position.epoch, batch)


def identify(options: Options, environment: Environment) -> Identity:
    """Return the identity of this training's checkpoints.

    The operator passes a hash of the training's fields. Without it, the hash is that of the
    options. So the same command resumes, also with more epochs, and another one starts from the
    beginning.
    """
    if environment.spec_hash:
        return Identity(environment.job_uid, environment.spec_hash)
    shaping: dict[str, Any] = {
        title: {
            name: vars(value) if isinstance(value, Value) else value
            for name, value in vars(group).items()
        }
        for title, group in options._asdict().items()
    }
    shaping["output"] = None
    speed = (("data", "data_nthreads"), ("data", "decoding"))
    for group, name in (("optimizer", "num_epochs"), *speed):
        del shaping[group][name]
    # As the number of epochs, they say where training ends.
    for name in ("early_stopping_metric", "early_stopping_patience", "early_stopping_min_delta"):
        del shaping["optimizer"][name]
    # As in former releases: without a value it was false, and there was no cache.
    shaping["model"]["compile"] = bool(options.model.compile)
    del shaping["model"]["compile_cache"]
    # Without values, as in former releases, which did not have them.
    for name in ("image_sizes", "validation_size", "pretrained_url"):
        if not shaping["model"][name]:
            del shaping["model"][name]
    names = ("framework", "distribution_strategy", "kv_store", "seed")
    shaping["cluster"] = {name: shaping["cluster"][name] for name in names}
    text = json.dumps(shaping, sort_keys=True, default=str)
    return Identity(environment.job_uid, hashlib.sha256(text.encode()).hexdigest())
