"""Changes results and checkpoints of a training, so that they no longer say what was trained."""

import json
from pathlib import Path
from typing import Any

from imagenet_spec.names import CHECKPOINT_FILE
from imagenet_workloads.checkpoint import CheckpointManifest


def chain_of(result: Path) -> list[dict[str, Any]]:
    """Return the receipts in a result.json."""
    found: list[dict[str, Any]] = json.loads(result.read_text())["checkpoints"]
    return found


def resealed(checkpoint: Path) -> None:
    """Give a checkpoint whose files were changed a manifest that fits them."""
    old = CheckpointManifest.read(checkpoint)
    (checkpoint / CHECKPOINT_FILE).unlink()
    made = CheckpointManifest.describe(checkpoint, old.identity, old.attempt, old.position)
    (checkpoint / CHECKPOINT_FILE).write_text(made.to_json())


def changed_later_receipt(result: Path, part: str) -> None:
    """Change one checksum in every receipt of later steps."""
    chain = chain_of(result)
    for one in chain:
        if "later" in one:
            one["later"]["state"][part] = "0" * 64
    _write(result, chain)


def without_later_receipts(result: Path) -> None:
    """Make a result.json one of a version without receipts of later steps."""
    _write(result, [{**one, "later": None} for one in chain_of(result)])


def _write(result: Path, chain: list[dict[str, Any]]) -> None:
    kept = [{name: value for name, value in one.items() if value is not None} for one in chain]
    result.write_text(json.dumps({**json.loads(result.read_text()), "checkpoints": kept}))
