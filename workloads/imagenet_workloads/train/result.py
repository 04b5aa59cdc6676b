"""What remains of a training: the model that plain MXNet loads, its labels, and result.json.

    model-symbol.json, model-NNNN.params    mx.model.load_checkpoint("model", NNNN)
    labels.json                             class names by label, when the dataset has names
    result.json                             written last: its presence says that all is there

Written by rank 0 into its attempt's folder. Imports MXNet.
"""

import json
import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from imagenet_workloads.errors import PlaceError
from imagenet_workloads.train.counts import Counts
from imagenet_workloads.train.data.choose import Inputs
from imagenet_workloads.train.replicas import Replicas
from imagenet_workloads.train.reporter import finite
from imagenet_workloads.train.saved import save_parameters

FILE_NAME = "result.json"
MODEL = "model"


@dataclass(frozen=True)
class Result:
    """What result.json says.

    Attributes:
        job: the ImageNetJob's name.
        uid: its UID.
        attempt: the N of attempts/rN.
        network: as on the command line.
        epochs: likewise.
        workers: of this attempt.
        validation: counts of the saved model; None without validation images.
        images: that this attempt has trained on, over all workers.
        images_per_second: its speed over all workers; None where it trained none.
        inputs: how images become inputs.
        dataset_key: None without a dataset.
        resumed_from: the checkpoint's folder; None from the beginning.
        started_at: of this attempt.
    """

    job: str
    uid: str
    attempt: int
    network: str
    epochs: int
    workers: int
    validation: Counts | None
    images: int
    images_per_second: float | None
    inputs: Inputs
    dataset_key: str | None
    resumed_from: str | None
    started_at: datetime

    def document(self, completed_at: datetime) -> dict[str, Any]:
        """Give the JSON object."""
        return {
            "job": self.job,
            "uid": self.uid,
            "attempt": self.attempt,
            "network": self.network,
            "epochs": self.epochs,
            "workers": self.workers,
            "validation": None if self.validation is None else _validation(self.validation),
            "train": {"images": self.images, "imagesPerSecond": self.images_per_second},
            "model": {"symbol": f"{MODEL}-symbol.json", "params": _params(MODEL, self.epochs)},
            "inputs": {
                "imageShape": list(self.inputs.image_shape),
                "mean": list(self.inputs.mean),
                "std": list(self.inputs.std),
                "resize": self.inputs.resize,
            },
            "resumedFrom": self.resumed_from,
            "dataset": {"key": self.dataset_key},
            "startedAt": _time(self.started_at),
            "completedAt": _time(completed_at),
        }


def write_result(
    folder: Path, result: Result, replicas: Replicas, classes: tuple[str, ...], now: datetime
) -> None:
    """Write the model, then the labels, then result.json, each renamed into place when complete.

    Raises:
        PlaceError: the folder cannot be written.
    """
    export_model(folder / MODEL, replicas, result.epochs)
    if classes:
        _write_json(folder / "labels.json", list(classes))
    _write_json(folder / FILE_NAME, result.document(now))


def export_model(prefix: Path, replicas: Replicas, epoch: int) -> None:
    """Write PREFIX-symbol.json and PREFIX-NNNN.params, as MXNet's own checkpoints are called.

    Raises:
        PlaceError: the folder cannot be written.
    """
    symbol = prefix.with_name(f"{prefix.name}-symbol.json")
    _put(symbol, lambda path: path.write_text(replicas.symbol.tojson()))
    params = prefix.with_name(_params(prefix.name, epoch))
    _put(params, lambda path: save_parameters(path, replicas.parameters()))


def _params(name: str, epoch: int) -> str:
    return f"{name}-{epoch:04}.params"


def _validation(counts: Counts) -> dict[str, Any]:
    return {
        "images": counts.images,
        "top1Count": counts.top1,
        "top5Count": counts.top5,
        "top1": counts.accuracy(counts.top1),
        "top5": counts.accuracy(counts.top5),
        "loss": finite(counts.loss),
    }


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _write_json(path: Path, document: object) -> None:
    _put(path, lambda temporary: temporary.write_text(json.dumps(document, indent=2) + "\n"))


def _put(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` make a file under another name, then give it its own."""
    temporary = path.with_name(f".{path.name}.tmp-{secrets.token_hex(4)}")
    try:
        write(temporary)
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise PlaceError(f"cannot write {path}: {error.strerror}") from error
    finally:
        temporary.unlink(missing_ok=True)
