"""The order in which an epoch trains the records of a split, whatever the number of workers. Pure.

Position p of an epoch has one record, which depends on the split's number of records, the seed, the
epoch and p. Worker w of n takes the positions with p mod n = w. `batches` reads in this order, and
docs/order.md describes it with test vectors:

    order = Order(records=1_281_167, seed=0)
    order.at(epoch=0, positions=worker_positions(0, 4096, worker=3, workers=8))  # its records
    uniform_draws(0, 0, positions, count=7)  # random numbers for their augmentation

The records, in packed order, are cut into lanes of equal length (the first ones have one more).
Position p takes the next record of lane p mod lanes. A lane is read as a ring: from a random start
to its end, then from its beginning, in windows of WINDOW records that are shuffled. So memory holds
windows, reads are contiguous, and if n divides the number of lanes, a worker reads the same
lanes in every epoch.

Random numbers are those of SplitMix64 (Steele, Lea, Flood 2014) by their index: `stream(state, i)`
is the number i, from 0, of the generator that starts with that state.
"""

import hashlib
import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from imagenet_spec.order import WINDOW, count_lanes

Integers = NDArray[np.int64]
Hashes = NDArray[np.uint64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_ORDER, _DRAWS = 0, 1


def stream(state: Hashes | np.uint64, index: Hashes | np.uint64) -> Hashes:
    """Return number `index`, from 0, of the SplitMix64 generators that start with `state`.

    Both are uint64 and broadcast.

    >>> hex(stream(np.uint64(0), np.uint64(0))[0])
    '0xe220a8397b1dcdaf'
    """
    # Arrays wrap around; NumPy warns if scalars do.
    mixed = (np.atleast_1d(index) + np.uint64(1)) * _GOLDEN + state
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return mixed


def worker_positions(first: int, end: int, worker: int, workers: int) -> Integers:
    """Return a worker's positions from `first` to `end` - 1.

    >>> worker_positions(5, 12, worker=0, workers=3).tolist()
    [6, 9]
    """
    return np.arange(first + (worker - first) % workers, end, workers, dtype=np.int64)


def uniform_draws(seed: int, epoch: int, positions: Integers, count: int) -> NDArray[np.float64]:
    """Return (images, count) numbers in [0, 1) for the image at each position, (images,).

    A larger `count` leaves the first numbers as they are.
    """
    images = stream(_epoch_state(seed, epoch, _DRAWS), positions.astype(np.uint64))
    numbers = stream(images[:, None], np.arange(count, dtype=np.uint64))
    return (numbers >> np.uint64(11)).astype(np.float64) * 2.0**-53


class Windows(NamedTuple):
    """The windows of some positions, each array with one entry a position.

    Attributes:
        first: the window's first record.
        end: the record after its last one.
        next: the position at which its lane goes on after it; the number of records or more if
            the lane has ended.
    """

    first: Integers
    end: Integers
    next: Integers


class _Slots(NamedTuple):
    """Where some positions are in their lanes, each array with one entry a position.

    Attributes:
        lane: the hash state of its lane in this epoch.
        begin: the lane's first record.
        slot: the place in the lane whose turn it is.
        low: the window's first slot.
        high: the first slot after the window.
    """

    lane: Hashes
    begin: Integers
    slot: Integers
    low: Integers
    high: Integers


@dataclass(frozen=True)
class Order:
    """The order of a split.

    Attributes:
        records: of the split; a record is known by its number in packed order, from 0.
        seed: of the training.
    """

    records: int
    seed: int
    lanes: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "lanes", count_lanes(self.records))

    def lane(self, number: int) -> range:
        shortest, longer = divmod(self.records, self.lanes)
        begin = number * shortest + min(number, longer)
        return range(begin, begin + shortest + (number < longer))

    def lanes_of(self, worker: int, workers: int) -> list[range]:
        """Return the lanes in which a worker has records, in any epoch."""
        shared = math.gcd(workers, self.lanes)
        return [self.lane(number) for number in range(worker % shared, self.lanes, shared)]

    def at(self, epoch: int, positions: Integers) -> Integers:
        """Return the record at each position, all from 0 to `records` - 1."""
        at = self._slots(epoch, positions)
        edge = at.slot // WINDOW * WINDOW
        slots = edge[:, None] + np.arange(WINDOW)
        keys = stream(at.lane[:, None], slots.astype(np.uint64) + np.uint64(1)) >> np.uint64(1)
        outside = (slots < at.low[:, None]) | (slots >= at.high[:, None])
        keys[outside] = np.iinfo(np.uint64).max
        ranks = np.argsort(keys, axis=1, kind="stable")
        chosen = np.take_along_axis(ranks, (at.slot - at.low)[:, None], axis=1)[:, 0]
        records: Integers = at.begin + edge + chosen
        return records

    def windows(self, epoch: int, positions: Integers) -> Windows:
        at = self._slots(epoch, positions)
        turns = (at.high - at.slot) * self.lanes
        return Windows(at.begin + at.low, at.begin + at.high, positions + turns)

    def _slots(self, epoch: int, positions: Integers) -> _Slots:
        number, turn = positions % self.lanes, positions // self.lanes
        shortest, longer = divmod(self.records, self.lanes)
        length = shortest + (number < longer)
        begin = number * shortest + np.minimum(number, longer)
        lane = stream(_epoch_state(self.seed, epoch, _ORDER), number.astype(np.uint64))
        start = (stream(lane, np.uint64(0)) % length.astype(np.uint64)).astype(np.int64)
        slot = (start + turn) % length
        # The ring starts and ends within one window: first its rest, and at last its beginning.
        begun = slot >= start
        edge = slot // WINDOW * WINDOW
        low = np.where(begun, np.maximum(edge, start), edge)
        high = np.minimum(edge + WINDOW, np.where(begun, length, start))
        return _Slots(lane, begin, slot, low, high)


def _epoch_state(seed: int, epoch: int, purpose: int) -> Hashes:
    return stream(np.uint64(seed % 2**64), np.uint64(2 * epoch + purpose))


def share(images: int, rank: int, ranks: int) -> int:
    """Count the images of one rank, as MXNet's ImageRecordIter shares them.

    As in dmlc-core's IndexedRecordIOSplitter, every rank gets ceil(images / ranks), the last ones
    the rest, which may be nothing.

    >>> [share(50, rank, 3) for rank in range(3)]
    [17, 17, 16]
    """
    step = -(-images // ranks)
    return min(step * (rank + 1), images) - min(step * rank, images)


def batches_per_epoch(
    images: int, ranks: int, batch_size_per_process: int, accumulation_steps: int
) -> int:
    """Return the steps of an epoch, the same for every rank: ranks wait for each other's steps.

    Enough for the largest share; ranks with less begin theirs again. A whole number of macrobatches
    of `accumulation_steps` batches.
    """
    batches = -(-share(images, 0, ranks) // batch_size_per_process)
    return -(-batches // accumulation_steps) * accumulation_steps


def seed_of(seed: int, epoch: int, lap: int) -> int:
    """Mix into one of 2^31 seeds; neighbours give unrelated ones."""
    digest = hashlib.sha256(f"{seed} {epoch} {lap}".encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1
