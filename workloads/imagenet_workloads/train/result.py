"""What remains of a training: the model, its labels, and result.json.

    model-symbol.json, model-NNNN.params    of MXNet: mx.model.load_checkpoint("model", NNNN)
    model/                                  of TensorFlow: tf.saved_model.load("model")
    model-NNNN.safetensors                  of PyTorch: safetensors.torch.load_file(…), a state_dict
    labels.json                             class names by label, when the dataset has names
    evaluation.json, thumbnails/            what the model says of each validation image
    model-card.md, model-card.json          what the model is, and how to verify it
    result.json                             written last: its presence says that all is there

With `--test-io` there is only result.json, with the speed in `reading`.

Written by rank 0 into its attempt's folder.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from imagenet_spec.events import Finished, Read
from imagenet_spec.metrics import TimePhase
from imagenet_spec.names import LABELS_FILE, RESULT_FILE
from imagenet_spec.program.train import Metric
from imagenet_workloads import files
from imagenet_workloads.checkpoint import sums_of_model
from imagenet_workloads.data.inputs import Inputs
from imagenet_workloads.train.counts import Counts
from imagenet_workloads.train.receipts import Receipt
from imagenet_workloads.train.reporter import finite
from imagenet_workloads.train.validation_history import (
    EarlyStop,
    EpochValidation,
    ValidationHistory,
)

MODEL = "model"


@dataclass(frozen=True)
class Result:
    """What result.json says.

    Attributes:
        attempt: the N of attempts/rN.
        validation: counts of the saved model; None without validation images.
        images: that this attempt has trained on, over all workers.
        images_per_second: its speed over all workers; None where it trained none.
        resumed_from: the checkpoint's folder; None from the beginning.
        seconds: returns the time of rank 0 by phase until now, since its process started.
        measured: returns what steps of rank 0 have waited for, as totals of its metrics by name.
        loop_cpu: returns the median CPU seconds of a step outside the framework's calls; None
            without steps.
        checkpoint_stall: seconds for which a checkpoint held training up, the mean; None without
            one.
        receipts: of the checkpoints that led to the model, in their order.
        model_epoch: the epoch of the model, from 1; by default the last one.
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
    planned_epochs: int | None = None
    model_epoch: int | None = None
    history: ValidationHistory = field(default_factory=ValidationHistory)

    @property
    def best(self) -> EpochValidation | None:
        """The validation of the best epoch, whose model this is; None if it was not asked for."""
        if self.history.best_metric is None:
            return None
        return next((one for one in self.history.entries if one.epoch == self.model_epoch), None)

    @property
    def early_stop(self) -> EarlyStop | None:
        is_early = self.planned_epochs is not None and self.epochs < self.planned_epochs
        return self.history.early_stop if is_early else None

    def document(self, model: Mapping[str, str], completed_at: datetime) -> dict[str, Any]:
        counts, metric = self.validation, self.history.best_metric
        best, stop = self.best, self.early_stop
        validation = (
            None
            if counts is None
            else {
                "images": counts.images,
                "top1Count": counts.top1,
                "top5Count": counts.top5,
                "top1": counts.accuracy(counts.top1),
                "top5": counts.accuracy(counts.top5),
                "loss": finite(counts.loss),
            }
        )
        phases = {phase.value: round(seconds, 3) for phase, seconds in self.seconds().items()}
        return {
            "job": self.job,
            "uid": self.uid,
            "attempt": self.attempt,
            "framework": self.framework,
            "strategy": self.strategy,
            "network": self.network,
            "epochs": self.epochs,
            "plannedEpochs": self.planned_epochs,
            "best": None if best is None or metric is None else _figure(metric, best),
            "earlyStop": None if stop is None else _figure(stop.metric, stop.improved),
            "workers": self.workers,
            "validation": validation,
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

    def finished(self, result_sha256: str | None = None) -> Finished:
        """Make the event, from which the status of a job is read too."""
        counts, stop = self.validation, self.early_stop
        improved = None if stop is None else stop.improved
        return Finished(
            self.epochs,
            None if counts is None else counts.accuracy(counts.top1),
            None if counts is None else counts.accuracy(counts.top5),
            self.images_per_second,
            {phase.value: round(spent, 3) for phase, spent in self.seconds().items()},
            self.loop_cpu(),
            self.checkpoint_stall,
            None if self.best is None else self.best.epoch,
            None if stop is None else self.planned_epochs,
            None if stop is None else stop.metric,
            None if stop is None or improved is None else improved.value(stop.metric),
            None if improved is None else improved.epoch,
            result_sha256,
        )


def _figure(metric: Metric, validation: EpochValidation | None) -> dict[str, Any]:
    return {
        "metric": metric,
        "epoch": None if validation is None else validation.epoch,
        "value": None if validation is None else validation.value(metric),
    }


def labels(classes: Sequence[str], class_words: Mapping[str, str]) -> list[str | Mapping[str, str]]:
    """Return the content of labels.json: classes by label, each with its words if there are any."""
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
    describe: Callable[[Mapping[str, Any]], None] = lambda document: None,
) -> str:
    """Write the model, then the labels, then result.json, each renamed into place when complete.

    Before result.json `describe` writes what else is beside the model; it gets the document of
    result.json. That lists the lengths and SHA-256 of the model's files, its labels and its card.
    Return the hex SHA-256 of result.json. StorageError: the folder cannot be written.
    """
    model = export(folder / MODEL, result.model_epoch or result.epochs)
    if labels:
        _write_json(folder / LABELS_FILE, list(labels))
    document = result.document(model, now)
    describe(document)
    found = sums_of_model(folder, model.values())
    sums = {name: asdict(file) for name, file in found.items()}
    return _write_json(folder / RESULT_FILE, {**document, "files": sums})


def write_reading(folder: Path, result: Result, read: Read, now: datetime) -> None:
    """Write the result.json of `--test-io`: without a model, with the speed of this process.

    StorageError: the folder cannot be written.
    """
    reading = {
        "images": read.images,
        "workers": read.workers,
        "imagesPerSecond": read.images_per_second,
    }
    _write_json(folder / RESULT_FILE, {**result.document({}, now), "reading": reading})


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _write_json(path: Path, document: object) -> str:
    """Write a file; return its hex SHA-256."""
    content = (json.dumps(document, indent=2) + "\n").encode()
    files.write_output(path, lambda temporary: temporary.write_bytes(content))
    return hashlib.sha256(content).hexdigest()
