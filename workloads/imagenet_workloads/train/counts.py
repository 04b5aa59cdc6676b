"""What is counted over images, and how counts travel exactly through float32 sums.

The training loop fills `Counts`, by way of `OutputCounts`. `to_limbs` and
`from_limbs` let a kvstore, whose servers add float32 numbers, add whole numbers of any size that
matters without rounding. No MXNet.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from imagenet_workloads.errors import InputError
from imagenet_workloads.train.framework import Outputs

# 12 bits a limb: the sum of a limb over 4096 workers stays below 2^24, where float32 is exact.
LIMB_BITS = 12
LIMBS = 5
MOST_WORKERS = 4096

# The loss is summed in units of 2^-20 nat, so that its sum is exact too, in any order.
LOSS_UNIT = 2.0**-20
SMALLEST_PROBABILITY = 1e-12


@dataclass(frozen=True)
class Counts:
    """Sums over images; two can be added.

    Attributes:
        top1: images classified right.
        top5: of them with the right class among the 5 most likely (or all, if there are fewer).
        top_k: likewise for the k that `--top-k` asks for.
        loss_units: sum of cross-entropies in LOSS_UNIT.
        not_finite: images whose loss is no number; their loss is not in the sum.
    """

    images: int = 0
    top1: int = 0
    top5: int = 0
    top_k: int = 0
    loss_units: int = 0
    not_finite: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(*(a + b for a, b in zip(self.numbers(), other.numbers(), strict=True)))

    def numbers(self) -> tuple[int, ...]:
        return (self.images, self.top1, self.top5, self.top_k, self.loss_units, self.not_finite)

    def accuracy(self, right: int) -> float:
        return right / self.images if self.images else 0.0

    @property
    def loss(self) -> float:
        """Mean cross-entropy in nats; not a number when any image's was none."""
        if self.not_finite or not self.images:
            return math.nan
        return self.loss_units * LOSS_UNIT / self.images


# Of probabilities that are kept for what numbers do not decide.
HELD_BYTES, HELD_BATCHES = 1 << 24, 64


class OutputCounts:
    """The counts of one batch after another.

    A device may still compute a batch when the program goes on. Such outputs are taken with the
    next ones, so that the device has the next batch to compute meanwhile. Batches are counted
    several at a time: to call NumPy for each would take a tenth of a millisecond.
    """

    def __init__(self, top_k: int, taken: Callable[[Outputs], None] | None = None) -> None:
        """Count the `top_k` too; `taken` gets each batch's outputs once their values are there."""
        self._counts = Counts()
        self._top_k, self._taken = top_k, taken
        self._late: Outputs | None = None
        self._held: list[Outputs] = []
        self._room = HELD_BYTES

    def add(self, outputs: Outputs) -> None:
        """Take a batch; InputError if a label of it, or of the one before it, is no class."""
        self._take_late()
        self._late = outputs
        if outputs.wait is None:
            self._take_late()

    def wait(self) -> None:
        """Return when a device has written the last outputs."""
        late = self._late
        if late is not None and late.wait is not None:
            late.wait()
            self._late = replace(late, wait=None)

    def so_far(self) -> Counts:
        if self._held:
            self._counts += count(joined(self._held), self._top_k)
            self._held, self._room = [], HELD_BYTES
        return self._counts

    def finish(self) -> Counts:
        """Wait for the last outputs; return the counts of all. InputError: a label is no class."""
        self._take_late()
        return self.so_far()

    def _take_late(self) -> None:
        self.wait()
        late, self._late = self._late, None
        if late is None:
            return
        check_labels(late.labels, late.classes)
        if self._taken is not None:
            self._taken(late)
        self._held.append(late)
        self._room -= 4 * len(late.labels) * late.classes
        if self._room <= 0 or len(self._held) == HELD_BATCHES:
            self.so_far()


def joined(batches: Sequence[Outputs]) -> Outputs:
    """Join the outputs of some batches, whose values are there."""
    ends = np.cumsum([len(one.labels) for one in batches])[:-1]

    def some(chosen: NDArray[np.bool_]) -> NDArray[np.float32]:
        parts = zip(batches, np.split(chosen, ends), strict=True)
        return np.concatenate([one.some(own) for one, own in parts if own.any()])

    return Outputs(
        batches[0].classes,
        np.concatenate([one.labels for one in batches]),
        np.concatenate([one.right for one in batches]),
        np.concatenate([one.ahead for one in batches]),
        np.concatenate([one.alike for one in batches]),
        some,
    )


def count(outputs: Outputs, top_k: int) -> Counts:
    """Count a batch whose values are there and whose labels are classes.

    Ties are broken as mx.metric's Accuracy (the first) and TopKAccuracy (argpartition) break them,
    so that plain MXNet counts the same.
    """
    likely = np.maximum(outputs.right.astype(np.float64), SMALLEST_PROBABILITY)
    # Whole numbers, so that a sum below 2^53 is exact.
    units = np.rint(np.log(likely) / -LOSS_UNIT)
    not_finite = 0
    if not np.isfinite(units.sum()):
        finite = np.isfinite(units)
        not_finite = len(units) - int(np.count_nonzero(finite))
        units = units[finite]
    is_clear = not not_finite and not outputs.alike.any()
    return Counts(
        images=len(outputs.labels),
        top1=_within(outputs, 1, is_clear),
        top5=_within(outputs, 5, is_clear),
        top_k=_within(outputs, top_k, is_clear) if top_k else 0,
        loss_units=int(units.sum()),
        not_finite=not_finite,
    )


def check_labels(labels: NDArray[np.integer[Any] | np.floating[Any]], classes: int) -> None:
    """Raise InputError if a label, (images,), is no class of the network."""
    # A NaN is neither.
    if len(labels) and not (labels.min() >= 0 and labels.max() < classes):
        wrong = labels[~((labels >= 0) & (labels < classes))]
        raise InputError(
            f"a record has the label {wrong[0]:.9g}, but the network has {classes} classes (labels "
            "0 and up); write the right --num-classes (spec.dataset: prepare it again)"
        )


def _within(outputs: Outputs, k: int, is_clear: bool) -> int:
    """Count the images whose right class is among the k most likely ones, k from 1.

    It `is_clear` if all probabilities are numbers, and no class is as likely as a right one.
    """
    if k > 1 and k >= outputs.classes:
        return len(outputs.labels)
    if is_clear:
        return int(np.count_nonzero(outputs.ahead < k))
    sure = outputs.ahead + outputs.alike < k
    found = int(np.count_nonzero(sure))
    # Of classes that are as likely, all cannot be among them: these images are rare.
    unclear = ((outputs.ahead < k) | np.isnan(outputs.right)) & ~sure
    if np.count_nonzero(unclear):
        probabilities = outputs.some(unclear)
        wanted = outputs.labels[unclear].astype(np.int64)
        if k == 1:
            found += int((probabilities.argmax(axis=1) == wanted).sum())
        else:
            best = np.argpartition(probabilities, -k)[:, -k:]
            found += int((best == wanted[:, None]).sum())
    return found


def to_limbs(numbers: Sequence[int]) -> NDArray[np.float32]:
    """Split whole numbers into float32 limbs, (numbers * LIMBS,).

    ValueError: a number is not from 0 to 2^60 - 1.
    """
    if any(number < 0 or number >> (LIMB_BITS * LIMBS) for number in numbers):
        raise ValueError(f"numbers must be from 0 to 2^{LIMB_BITS * LIMBS} - 1: {list(numbers)}")
    mask = (1 << LIMB_BITS) - 1
    limbs = [number >> (LIMB_BITS * place) & mask for number in numbers for place in range(LIMBS)]
    return np.array(limbs, dtype=np.float32)


def from_limbs(limbs: Iterable[float]) -> list[int]:
    """Put the numbers together again, from limbs or from sums of them."""
    whole = [round(limb) for limb in limbs]
    return [
        sum(limb << (LIMB_BITS * place) for place, limb in enumerate(whole[start : start + LIMBS]))
        for start in range(0, len(whole), LIMBS)
    ]
