"""How far earlier attempts of a training came: their later steps are lost, and trained again.

Rank 0 reads it from their metrics.jsonl on the output volume. A log names a position after each
display interval, so the steps of the last interval are not known.
"""

from pathlib import Path

from imagenet_workloads.checkpoint.manifest import Position
from imagenet_workloads.errors import InputError
from imagenet_workloads.telemetry.history import Run, attempt_folders, read_runs


def epochs_of(position: Position, batches_per_epoch: int) -> float:
    """Return a position in epochs, with their fraction."""
    return position.epoch + position.batch / batches_per_epoch


def trained_before(output: Path, training: str) -> float:
    """Return how many epochs the earlier runs of a training came to, with their fraction.

    Args:
        output: the folder with the attempts.
        training: the identity of the training, as its runs have recorded it.
    """
    try:
        runs = read_runs(attempt_folders([output]))
    except InputError:
        return 0.0  # no run has started
    return max((_furthest(run) for run in runs if run.start[1].training == training), default=0.0)


def _furthest(run: Run) -> float:
    batches = run.start[1].batches_per_epoch
    if not batches:
        return 0.0
    reached = [Position(found.epoch, found.batch) for _, found in run.progress]
    return max((epochs_of(position, batches) for position in reached), default=0.0)
