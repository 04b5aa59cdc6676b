"""Where a training resumes: at the newest checkpoint, at given weights, or at random ones.

Rank 0 decides and broadcasts, since another rank might see the volume differently. A framework
loads what is found there.
"""

import dataclasses
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from imagenet_spec.program.train import Options
from imagenet_workloads.checkpoint.manifest import read_batches_per_epoch, read_images
from imagenet_workloads.checkpoint.store import CheckpointStore, Identity, Position
from imagenet_workloads.environment import Environment
from imagenet_workloads.errors import WorkloadError
from imagenet_workloads.train.group import Group

# What rank 0 can have found.
_NOTHING, _OWN, _FOREIGN = range(3)


@dataclass(frozen=True)
class ResumePoint:
    """Where to go on.

    Attributes:
        position: in this training's epochs.
        folder: the checkpoint's; None without one.
        continues: the checkpoint is this training's own, so its optimizer goes on too.
        first_image: of the position's epoch, if the images have an order.
    """

    position: Position
    folder: Path | None = None
    continues: bool = False
    first_image: int = 0

    @property
    def resumed_from(self) -> str | None:
        """The checkpoint's folder, for reports."""
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

    A checkpoint of this training is continued. One that only --init-from names, of another
    training, gives its weights, and the training begins at epoch 0.

    Args:
        options: the command line.
        store: of checkpoints.
        identity: of this training.
        group: that broadcasts what rank 0 has found.
        batches_per_epoch: of this worker, now.
        accumulation_steps: batches that make one update.
        worked: called after each file of a checkpoint that was read.
        ordered_batch: images of a batch over all workers, now, if they have an order.

    Raises:
        InputError: --init-from names no checkpoint.
        WorkloadError: this rank does not see the checkpoint that rank 0 has found.
    """
    found = store.newest(options.output.init_from, worked)
    own = found is not None and found.manifest.identity == identity
    place = found.position if found is not None else Position(0, 0)
    seen = [_NOTHING if found is None else _OWN if own else _FOREIGN, place.epoch, place.batch]
    of_rank_0 = group.broadcast_from_rank0("start", seen)
    if of_rank_0 != seen:
        raise WorkloadError(
            f"rank {group.rank} sees another newest checkpoint on the output volume than rank 0 "
            f"(kind, epoch, batch: {seen}, not {of_rank_0}); is it one volume for all workers?"
        )
    if found is None:
        return ResumePoint(Position(options.output.load_epoch or 0, 0))
    if not own:
        return ResumePoint(Position(0, 0), found.folder)
    images = read_images(found.folder)
    if ordered_batch is not None and images is not None:
        # The missing images are the same for any number of workers and size of batches.
        position = Position(place.epoch, images // ordered_batch)
        return ResumePoint(position, found.folder, continues=True, first_image=images)
    was = read_batches_per_epoch(found.folder)
    position = translate(place, was, batches_per_epoch, accumulation_steps)
    return ResumePoint(position, found.folder, continues=True)


def translate(position: Position, was: int, now: int, accumulation_steps: int) -> Position:
    """Find a position again in epochs of another length, not later than it was.

    Args:
        position: in epochs of `was` batches.
        was: batches an epoch when it was recorded.
        now: batches an epoch now.
        accumulation_steps: batches that make one update; the result is between two updates.
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
    shaping = dataclasses.asdict(options) | {"output": None}
    speed = (("data", "data_nthreads"), ("data", "decoding"))
    for group, name in (("optimizer", "num_epochs"), *speed):
        del shaping[group][name]
    # As in former releases: without a value it was false, and there was no cache.
    shaping["model"]["compile"] = bool(options.model.compile)
    del shaping["model"]["compile_cache"]
    # Without values, as in former releases, which did not have them.
    for name in ("image_sizes", "validation_size"):
        if not shaping["model"][name]:
            del shaping["model"][name]
    names = ("framework", "distribution_strategy", "kv_store", "seed")
    shaping["cluster"] = {name: shaping["cluster"][name] for name in names}
    text = json.dumps(shaping, sort_keys=True, default=str)
    return Identity(environment.job_uid, hashlib.sha256(text.encode()).hexdigest())
