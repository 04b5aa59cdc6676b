"""Where a training begins: at the newest checkpoint, at given weights, or at random ones.

Rank 0 decides and tells the others, for which the volume might look different. What is loaded from
there is the framework's affair.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from imagenet_workloads.checkpoint.length import read_length
from imagenet_workloads.checkpoint.store import Checkpoint, CheckpointStore, Identity, Position
from imagenet_workloads.errors import WorkloadError
from imagenet_workloads.train.options import Options

if TYPE_CHECKING:
    from imagenet_workloads.train.learner import Group

# What rank 0 can have found.
_NOTHING, _OWN, _FOREIGN = range(3)


@dataclass(frozen=True)
class Start:
    """Where to go on.

    Attributes:
        position: in this training's epochs.
        folder: the checkpoint's; None without one.
        continues: the checkpoint is this training's own, so its optimizer goes on too.
    """

    position: Position
    folder: Path | None = None
    continues: bool = False

    @property
    def resumed_from(self) -> str | None:
        """The checkpoint's folder, for reports."""
        return None if self.folder is None else str(self.folder)


def find(
    options: Options,
    store: CheckpointStore,
    identity: Identity,
    group: "Group",
    batches_per_epoch: int,
    together: int,
) -> Start:
    """Find the place; every rank gets the same.

    A checkpoint of this training is continued. One that only --init-from names, of another
    training, gives its weights, and the training begins at epoch 0.

    Args:
        options: the command line.
        store: of checkpoints.
        identity: of this training.
        group: how ranks agree.
        batches_per_epoch: of this worker, now.
        together: batches that make one update.

    Raises:
        InputError: --init-from names no checkpoint.
        WorkloadError: this rank does not see the checkpoint that rank 0 has found.
    """
    found = store.newest(options.output.init_from)
    own = found is not None and found.manifest.identity == identity
    _agree(group, _NOTHING if found is None else _OWN if own else _FOREIGN, found)
    if found is None:
        return Start(Position(options.output.load_epoch or 0, 0))
    if not own:
        return Start(Position(0, 0), found.folder)
    was = read_length(found.folder)
    position = translate(found.position, was, batches_per_epoch, together)
    return Start(position, found.folder, continues=True)


def _agree(group: "Group", kind: int, found: Checkpoint | None) -> None:
    """Make sure that this rank has found what rank 0 has."""
    place = found.position if found is not None else Position(0, 0)
    seen = [kind, place.epoch, place.batch]
    agreed = group.agree("start", seen)
    if agreed != seen:
        raise WorkloadError(
            f"rank {group.rank} sees another newest checkpoint on the output volume than rank 0 "
            f"(kind, epoch, batch: {seen}, not {agreed}); is it one volume for all workers?"
        )


def translate(position: Position, was: int, now: int, together: int) -> Position:
    """Find a position again in epochs of another length, not later than it was.

    Args:
        position: in epochs of `was` batches.
        was: batches an epoch when it was recorded.
        now: batches an epoch now.
        together: batches that make one update; the result is between two updates.
    """
    batch = position.batch * now // was // together * together
    return Position(position.epoch, batch)
