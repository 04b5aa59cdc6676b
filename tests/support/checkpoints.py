"""Checkpoint stores and small checkpoints, for tests of what is stored."""

from pathlib import Path

from imagenet_workloads.checkpoint import CheckpointStore, Identity, Position

OURS = Identity(job_uid="6d1f", spec_hash="ab12")


def store(
    output: Path, attempt: int = 0, identity: Identity = OURS, keep: int = 3
) -> CheckpointStore:
    """Return the store of an attempt of our training."""
    return CheckpointStore(output, attempt, identity, keep)


def write(checkpoints: CheckpointStore, epoch: int, batch: int = 0, content: str = "w") -> Path:
    """Write a checkpoint with a file and a folder; return its folder."""
    with checkpoints.begin(Position(epoch, batch)) as folder:
        (folder / "params").write_text(f"{content} {epoch} {batch}")
        (folder / "states").mkdir()
        (folder / "states" / "rank-0").write_bytes(bytes(range(256)))
    return checkpoints.attempt_folder / "checkpoints" / Position(epoch, batch).name


def names(checkpoints: CheckpointStore) -> list[str]:
    """Return the names in the attempt's folder of checkpoints."""
    return sorted(path.name for path in (checkpoints.attempt_folder / "checkpoints").iterdir())
