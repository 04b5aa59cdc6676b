"""Trainings that stop early whatever they learn: from the second epoch on the rate is far too high.

The first epoch is the best one. Two epochs without an improvement follow, then training ends.
"""

import hashlib
import shutil
from collections.abc import Sequence
from pathlib import Path

from imagenet_spec.events import Finished, Validated, read_events
from imagenet_workloads.checkpoint import read_validations
from support.training_cluster import result

NETWORK = ("--network", "mlp", "--image-shape", "3,28,28", "--data-nthreads", "1")
DIVERGING = (
    *("--lr", "0.01", "--lr-step-epochs", "1", "--lr-factor", "100000000"),
    *("--warmup-epochs", "0"),
)
STOPPING = (
    *("--num-epochs", "9", "--early-stopping-metric", "loss", "--early-stopping-patience", "2"),
    *("--checkpoint-best", "loss", "--checkpoint-keep", "9"),
)
EPOCHS, BEST = 3, 1


def arguments(dataset: Path, output: Path) -> list[str]:
    """The options of such a training, which exports the model of each epoch too."""
    places = ("--dataset", str(dataset), "--output", str(output))
    return [*places, *NETWORK, *DIVERGING, *STOPPING, "--model-prefix", str(output / "model")]


def model(output: Path, attempt: int = 0) -> str:
    """Return the SHA-256 of the exported weights of an attempt."""
    files = result(output, attempt)["model"]
    name = files.get("params") or files["weights"]
    return hashlib.sha256((output / f"attempts/r{attempt}" / name).read_bytes()).hexdigest()


def assert_stopped(output: Path, attempt: int = 0, validated: Sequence[int] = (1, 2, 3)) -> None:
    """Assert that a training has stopped after the third epoch, with the model of the first.

    Args:
        output: the folder of `--output`.
        attempt: that ended.
        validated: the epochs that it has validated, from 1.
    """
    found, folder = result(output, attempt), output / f"attempts/r{attempt}"
    events = [event for _, event in read_events(folder / "metrics.jsonl")]
    validations = [event for event in events if isinstance(event, Validated)]
    assert [event.epoch + 1 for event in validations] == list(validated)
    # A checkpoint has the validations before it.
    (first, *_) = [
        event
        for _, event in read_events(output / "attempts/r0/metrics.jsonl")
        if isinstance(event, Validated)
    ]
    (finished,) = (event for event in events if isinstance(event, Finished))
    best = {"metric": "loss", "epoch": BEST, "value": first.loss}
    assert (found["epochs"], found["plannedEpochs"]) == (EPOCHS, 9)
    assert (found["best"], found["earlyStop"]) == (best, best)
    assert (finished.epochs, finished.model_epoch) == (EPOCHS, BEST)
    said = "early stopping after epoch 3 of 9: validation loss has not improved since epoch 1"
    assert (finished.early_stop or "").startswith(said)
    # The loaded model has the counts of the epoch's end.
    counts = found["validation"]
    assert (counts["top1"], counts["loss"]) == (first.top1, first.loss)
    assert found["checkpoints"][-1]["epoch"] == BEST
    name = found["model"].get("params") or found["model"]["weights"]
    assert name.partition(".")[0] == "model-0001"
    exported = (output / name).read_bytes()
    assert (folder / name).read_bytes() == exported, "not the model of the end of the first epoch"


def cut(whole: Path, output: Path, epoch: int) -> None:
    """Leave what a kill leaves between the checkpoint of an epoch and its validation."""
    for number in range(1, epoch + 1):
        place = f"attempts/r0/checkpoints/epoch-{number:04}-batch-00000000"
        shutil.copytree(whole / place, output / place)
    assert [one["epoch"] for one in read_validations(output / place)] == list(range(1, epoch))
    for name in ("attempts/r0/metrics.jsonl", *(path.name for path in whole.glob("model-*"))):
        if (whole / name).is_file():
            shutil.copy(whole / name, output / name)
