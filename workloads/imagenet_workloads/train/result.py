"""What remains of a training: the model, its labels, and result.json.

    model-symbol.json, model-NNNN.params    of MXNet: mx.model.load_checkpoint("model", NNNN)
    model/                                  of TensorFlow: tf.saved_model.load("model")
    model-NNNN.safetensors                  of PyTorch: safetensors.torch.load_file(…), a state_dict
    labels.json                             class names by label, when the dataset has names
    result.json                             written last: its presence says that all is there

With `--test-io` there is only result.json, with the speed in `reading`.

Written by rank 0 into its attempt's folder.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from imagenet_spec.metrics import TimePhase
from imagenet_spec.names import RESULT_FILE
from imagenet_workloads import files
from imagenet_workloads.data.inputs import Inputs
from imagenet_workloads.telemetry.events import Finished, Read
from imagenet_workloads.train.counts import Counts
from imagenet_workloads.train.receipts import Receipt
from imagenet_workloads.train.reporter import finite

MODEL = "model"


@dataclass(frozen=True)
class Result:
    """What result.json says.

    Attributes:
        job: the ImageNetJob's name.
        uid: its UID.
        attempt: the N of attempts/rN.
        framework: that trained, and that the model is for.
        strategy: as on the command line.
        network: likewise.
        epochs: likewise.
        workers: of this attempt.
        validation: counts of the saved model; None without validation images.
        images: that this attempt has trained on, over all workers.
        images_per_second: its speed over all workers; None where it trained none.
        inputs: how images become inputs.
        dataset_key: None without a dataset.
        resumed_from: the checkpoint's folder; None from the beginning.
        started_at: of this attempt.
        seconds: returns the time of rank 0 by phase until now, since its process started.
        measured: returns what steps of rank 0 have waited for, as totals of its metrics by name.
        loop_cpu: returns the median CPU seconds of a step outside the framework's calls; None
            without steps.
        checkpoint_stall: seconds for which a checkpoint held training up, the mean; None without
            one.
        receipts: of the checkpoints that led to the model, in their order.
    """

    job: str
    uid: str
    attempt: int
    framework: str
    strategy: str
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
    seconds: Callable[[], Mapping[TimePhase, float]]
    measured: Callable[[], Mapping[str, float]]
    loop_cpu: Callable[[], float | None]
    checkpoint_stall: float | None = None
    receipts: Sequence[Receipt] = ()

    def document(self, model: Mapping[str, str], completed_at: datetime) -> dict[str, Any]:
        """Return the JSON object; `model` names the exported model's files."""
        phases = {phase.value: round(seconds, 3) for phase, seconds in self.seconds().items()}
        return {
            "job": self.job,
            "uid": self.uid,
            "attempt": self.attempt,
            "framework": self.framework,
            "strategy": self.strategy,
            "network": self.network,
            "epochs": self.epochs,
            "workers": self.workers,
            "validation": None if self.validation is None else _validation(self.validation),
            "train": {
                "images": self.images,
                "imagesPerSecond": self.images_per_second,
                "loopCpuSeconds": self.loop_cpu(),
                "checkpointStallSeconds": self.checkpoint_stall,
                "measured": {name: round(total, 6) for name, total in self.measured().items()},
            },
            "model": dict(model),
            "inputs": self.inputs.document(),
            "resumedFrom": self.resumed_from,
            "checkpoints": [receipt.document() for receipt in self.receipts],
            "dataset": {"key": self.dataset_key},
            "startedAt": _time(self.started_at),
            "completedAt": _time(completed_at),
            "time": {"seconds": round(sum(phases.values()), 3), "phases": phases},
        }

    def finished(self) -> Finished:
        """Return the event, which the status of a job is read from too."""
        counts = self.validation
        return Finished(
            self.epochs,
            None if counts is None else counts.accuracy(counts.top1),
            None if counts is None else counts.accuracy(counts.top5),
            self.images_per_second,
            {phase.value: round(spent, 3) for phase, spent in self.seconds().items()},
            self.loop_cpu(),
            self.checkpoint_stall,
        )


def labels(classes: Sequence[str], class_words: Mapping[str, str]) -> list[str | Mapping[str, str]]:
    """The content of labels.json: classes by label, each with its words if there are any."""
    return [
        {"class": name, "words": class_words[name]} if name in class_words else name
        for name in classes
    ]


def write_result(
    folder: Path,
    result: Result,
    export: Callable[[Path, int], Mapping[str, str]],
    labels: Sequence[str | Mapping[str, str]],
    now: datetime,
) -> None:
    """Write the model, then the labels, then result.json, each renamed into place when complete.

    Raises:
        StorageError: the folder cannot be written.
    """
    model = export(folder / MODEL, result.epochs)
    if labels:
        _write_json(folder / "labels.json", list(labels))
    _write_json(folder / RESULT_FILE, result.document(model, now))


def write_reading(folder: Path, result: Result, read: Read, now: datetime) -> None:
    """Write the result.json of `--test-io`: without a model, with the speed of this process.

    Raises:
        StorageError: the folder cannot be written.
    """
    reading = {
        "images": read.images,
        "workers": read.workers,
        "imagesPerSecond": read.images_per_second,
    }
    _write_json(folder / RESULT_FILE, {**result.document({}, now), "reading": reading})


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
    text = json.dumps(document, indent=2) + "\n"
    files.write_output(path, lambda temporary: temporary.write_text(text))
