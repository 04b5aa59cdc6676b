"""Checks ledgers: every record of each epoch once over all attempts, at its place in the order.

Images after the resume point of a later attempt were lost with their steps: that attempt has
trained them again. They are counted, and not compared. Pure, but for reading the files.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from imagenet_spec.names import EVERY_ATTEMPT
from imagenet_workloads.data.order import Integers, Order
from imagenet_workloads.errors import InputError
from imagenet_workloads.train.ledger import FOLDER, Identities, LedgerFile, Start

# Of each kind in an epoch; a wrong reader may have as many as there are images.
MOST_MISTAKES = 5
_END = Start(1 << 31, 0)


@dataclass(frozen=True)
class Run:
    """One process of each worker, from one resume point on.

    Attributes:
        attempt: the N of attempts/rN.
        start: where it has gone on.
        end: where the next one has gone on: what it has trained from there on was lost.
        files: one for each worker that has trained.
    """

    attempt: int
    start: Start
    end: Start
    files: tuple[LedgerFile, ...]

    @property
    def workers(self) -> int:
        """How many workers there were."""
        return self.files[0].head.workers


@dataclass(frozen=True)
class EpochReport:
    """What the ledgers say of one epoch.

    Attributes:
        epoch: from 0.
        trained: images whose training was kept.
        redone: images whose training was lost, and was done again.
        mistakes: what is wrong, a sentence each; an epoch in progress lacks its last images.
    """

    epoch: int
    trained: int
    redone: int
    mistakes: tuple[str, ...]


def find_runs(output: Path) -> list[Run]:
    """Find the ledgers of a job's output folder, in the order of the attempts.

    Of several trainings in the folder, only those of the last one are returned.

    Raises:
        InputError: there are none, or one is damaged.
    """
    files = []
    for path in sorted(output.glob(f"{EVERY_ATTEMPT}/{FOLDER}/epoch-*")):
        number = path.parent.parent.name[1:]
        if number.isdecimal() and (file := LedgerFile.open(path, int(number))) is not None:
            files.append(file)
    if not files:
        raise InputError(
            f"{output}: has no ledger (attempts/rN/{FOLDER}); name a job's folder on its output "
            "volume. reader: ImageRecordIter writes none"
        )
    by_run: dict[tuple[int, Start], list[LedgerFile]] = defaultdict(list)
    for file in files:
        by_run[file.attempt, file.head.start].append(file)
    places = sorted(by_run)
    training = by_run[places[-1]][0].head.training
    places = [place for place in places if by_run[place][0].head.training == training]
    ends = [start for _, start in places[1:]]
    return [
        # A run ends where any later one has gone on: an attempt may resume from an older place.
        Run(attempt, start, min([*ends[number:], _END]), tuple(by_run[attempt, start]))
        for number, (attempt, start) in enumerate(places)
    ]


def check(
    runs: Sequence[Run], is_finished: bool, dataset: Identities | None = None
) -> Iterator[EpochReport]:
    """Check the epochs one after the other.

    Args:
        runs: all of a training.
        is_finished: whether its last epoch has ended; otherwise it may lack its last images.
        dataset: (records,), the identities of the records in packed order. Without it, a record at
            another one's place is found only if it is not there in every epoch.

    Raises:
        InputError: a file is damaged, or the dataset has another number of records.
    """
    head = runs[0].files[0].head
    if dataset is not None and len(dataset) != head.images:
        raise InputError(f"the dataset has {len(dataset)} records, and the ledger {head.images}")
    order, expected = Order(head.images, head.seed), dataset
    cursors = [_Cursor(run, file) for run in runs for file in run.files]
    number = 0
    while not all(cursor.at_end for cursor in cursors):
        epoch = _Epoch(number, head.images)
        for cursor in cursors:
            cursor.add_to(epoch)
        due = head.images if is_finished else _due(epoch, runs[-1], cursors)
        mistakes = epoch.wrong_times(due)
        positions = np.flatnonzero(epoch.times)
        records, found = order.at(number, positions), epoch.identities[positions]
        if expected is not None:
            mistakes += _wrong_places(positions, found, expected[records])
        if dataset is None:
            mistakes += _twice(found)
        if expected is None and len(positions) == head.images:
            # Later epochs are compared with the first one.
            expected = np.zeros(head.images, np.uint64)
            expected[records] = found
        yield EpochReport(number, len(positions), epoch.redone, tuple(mistakes))
        number += 1


class _Epoch:
    """What an epoch's positions have trained.

    Attributes:
        number: from 0.
        identities: (images,), of the records.
        times: (images,), how often the training of a position was kept.
        redone: images whose training was lost.
    """

    def __init__(self, number: int, images: int) -> None:
        self.number = number
        self.identities: Identities = np.zeros(images, np.uint64)
        self.times = np.zeros(images, np.int64)
        self.redone = 0

    def wrong_times(self, due: int) -> list[str]:
        """List positions before `due` that were not trained, and all that were trained twice."""
        missing = np.flatnonzero(self.times[:due] == 0)
        often = np.flatnonzero(self.times > 1)
        return [
            *_first(missing.tolist(), lambda place: f"position {place} was not trained"),
            *_first(
                often.tolist(),
                lambda place: f"position {place} was trained {self.times[place]} times",
            ),
        ]


class _Cursor:
    """Reads a file's blocks, epoch by epoch."""

    def __init__(self, run: Run, file: LedgerFile) -> None:
        self._end, self.worker = run.end, file.head.worker
        self.run = run
        self._blocks = file.blocks()
        self._next = next(self._blocks, None)
        # The position after the last one that it has trained in an epoch.
        self.position = 0

    @property
    def at_end(self) -> bool:
        """Whether all blocks were read."""
        return self._next is None

    def add_to(self, epoch: _Epoch) -> None:
        """Add the blocks of an epoch."""
        start = self.run.start
        self.position = start.image if start.epoch == epoch.number else 0
        while (block := self._next) is not None and block.epoch <= epoch.number:
            if block.epoch < epoch.number:
                raise InputError(f"a ledger of attempt {self.run.attempt} goes back an epoch")
            places, identities = block.positions, block.identities
            if len(places) and (places[0] < 0 or places[-1] >= len(epoch.times)):
                raise InputError(f"a ledger of attempt {self.run.attempt} has no such position")
            if epoch.number == self._end.epoch:
                kept = places < self._end.image
            else:
                kept = np.full(len(places), epoch.number < self._end.epoch)
            epoch.redone += len(places) - int(kept.sum())
            np.add.at(epoch.times, places[kept], 1)
            epoch.identities[places[kept]] = identities[kept]
            self.position = int(places[-1]) + 1
            self._next = next(self._blocks, None)


def _due(epoch: _Epoch, last: Run, cursors: Sequence[_Cursor]) -> int:
    """Return the position up to which an epoch must have been trained in an unfinished training.

    The ledger of a worker that runs or was killed lacks its newest batches, also if those of others
    are in the next epoch.
    """
    if last.start.epoch > epoch.number:
        return len(epoch.times)
    own = [cursor for cursor in cursors if cursor.run is last]
    if len(own) < last.workers:
        return last.start.image if last.start.epoch == epoch.number else 0
    ended = [cursor.position for cursor in own if cursor.at_end]
    return min(ended, default=len(epoch.times))


def _wrong_places(positions: Integers, found: Identities, expected: Identities) -> list[str]:
    wrong = np.flatnonzero(found != expected)
    return _first(
        wrong.tolist(),
        lambda place: (
            f"position {positions[place]} trained record {found[place]:#x}, "
            f"not {expected[place]:#x}"
        ),
    )


def _twice(found: Identities) -> list[str]:
    values, times = np.unique(found, return_counts=True)
    often = np.flatnonzero(times > 1)
    return _first(
        often.tolist(), lambda place: f"record {values[place]:#x} was trained {times[place]} times"
    )


def _first(places: Sequence[int], sentence: Callable[[int], str]) -> list[str]:
    said = [sentence(place) for place in places[:MOST_MISTAKES]]
    more = len(places) - len(said)
    return said if more <= 0 else [*said, f"and {more} more like the last one"]
