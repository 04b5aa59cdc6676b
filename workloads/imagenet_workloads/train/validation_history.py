"""The validations of a training so far, and what they decide: the best epoch, and early stopping.

Every checkpoint holds the history up to it (training.json), so that a resumed training decides as
one that was never interrupted. A checkpoint at the end of an epoch is written before the validation
of that epoch: a training that resumes there validates first (`loop`).

Decisions are functions of the counts alone, which are whole numbers. Without images a metric is not
a number, and neither is the loss if that of an image is none: such an epoch improves nothing.
"""

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from imagenet_spec.program.train import MODES, Metric, Options
from imagenet_workloads.checkpoint import read_validations
from imagenet_workloads.errors import InputError
from imagenet_workloads.train.counts import Counts
from imagenet_workloads.train.reporter import finite


@dataclass(frozen=True)
class EpochValidation:
    """The validation after one epoch, over all validation images.

    `epoch` counts from 1, as in the name of a checkpoint. `attempt` trained the epoch's last step,
    and has the checkpoint if there is one.
    """

    epoch: int
    attempt: int
    counts: Counts

    def value(self, metric: Metric) -> float | None:
        counts = self.counts
        if not counts.images:
            return None
        if metric == "loss":
            return finite(counts.loss)
        return counts.accuracy(counts.top1 if metric == "top1" else counts.top5)

    def gain(self, metric: Metric) -> float | None:
        """Return the metric with the sign with which more is better."""
        value = self.value(metric)
        return value if value is None or MODES[metric] == "max" else -value

    def document(self) -> dict[str, Any]:
        return {
            "epoch": self.epoch,
            "attempt": self.attempt,
            "counts": dataclasses.asdict(self.counts),
        }

    @classmethod
    def read(cls, document: Any) -> Self:
        """Read a `document`; KeyError, TypeError or ValueError if it is none."""
        counts = {str(name): int(number) for name, number in document["counts"].items()}
        return cls(int(document["epoch"]), int(document["attempt"]), Counts(**counts))


@dataclass(frozen=True)
class EarlyStopping:
    """When training ends before its last epoch: `--early-stopping-*`."""

    metric: Metric
    patience: int
    min_delta: float = 0.0


@dataclass(frozen=True)
class EarlyStop:
    """The end of a training before its last epoch, by a metric that no longer improved.

    `improved` is the last validation that improved it; None if it was never a number.
    """

    metric: Metric
    improved: EpochValidation | None


def by_merit(history: Iterable[EpochValidation], metric: Metric) -> list[EpochValidation]:
    """Return the validations whose metric is a number, the best first, of equal ones the first."""
    valued = [(one.gain(metric), one) for one in history]
    known = [(-gain, one.epoch, one) for gain, one in valued if gain is not None]
    return [one for *_, one in sorted(known, key=lambda item: item[:2])]


def early_stop(history: Iterable[EpochValidation], wanted: EarlyStopping) -> EarlyStop | None:
    """Return the end if the last `patience` validations have not improved the metric."""
    reference, improved, waited = None, None, 0
    for one in history:
        gain = one.gain(wanted.metric)
        if gain is not None and (reference is None or gain > reference + wanted.min_delta):
            reference, improved, waited = gain, one, 0
        else:
            waited += 1
    return EarlyStop(wanted.metric, improved) if waited >= wanted.patience else None


class ValidationHistory:
    """The validations of a training, each epoch once, and what its options make of them.

    `best_metric` is None without `--checkpoint-best`, `early_stopping` without
    `--early-stopping-metric`.
    """

    def __init__(
        self,
        best_metric: Metric | None = None,
        early_stopping: EarlyStopping | None = None,
        entries: Sequence[EpochValidation] = (),
    ) -> None:
        self.best_metric, self.early_stopping = best_metric, early_stopping
        self.entries = tuple(entries)

    @classmethod
    def of(cls, options: Options) -> Self:
        chosen = options.optimizer
        stopping = None
        if chosen.early_stopping_metric is not None and chosen.early_stopping_patience is not None:
            stopping = EarlyStopping(
                chosen.early_stopping_metric,
                chosen.early_stopping_patience,
                chosen.early_stopping_min_delta,
            )
        return cls(options.output.checkpoint_best, stopping)

    @property
    def decides(self) -> bool:
        return self.best_metric is not None or self.early_stopping is not None

    @property
    def best(self) -> EpochValidation | None:
        if self.best_metric is None:
            return None
        return next(iter(by_merit(self.entries, self.best_metric)), None)

    @property
    def early_stop(self) -> EarlyStop | None:
        if self.early_stopping is None:
            return None
        return early_stop(self.entries, self.early_stopping)

    def add(self, validation: EpochValidation) -> None:
        earlier = [one for one in self.entries if one.epoch < validation.epoch]
        self.entries = (*earlier, validation)

    def has(self, epoch: int) -> bool:
        """Whether an epoch, from 1, was validated."""
        return any(one.epoch == epoch for one in self.entries)

    def documents(self) -> list[dict[str, Any]]:
        return [one.document() for one in self.entries]

    def load(self, folder: Path) -> None:
        """Take the entries of a checkpoint, none of an earlier release's; InputError if damaged."""
        try:
            self.entries = tuple(map(EpochValidation.read, read_validations(folder)))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise InputError(f"{folder}: its validations are damaged: {error}") from error
