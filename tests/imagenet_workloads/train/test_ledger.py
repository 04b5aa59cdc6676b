"""The ledger over random kills and changes of the number of workers, and with wrong readers."""

import errno
import io
import itertools
import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from imagenet_workloads.data.order import Integers, Order, worker_positions
from imagenet_workloads.data.worker_data import RecordsRead
from imagenet_workloads.errors import InputError, VolumeFullError
from imagenet_workloads.train.ledger import (
    FOLDER,
    EpochReport,
    Identities,
    Ledger,
    LedgerHead,
    Start,
    check,
    find_runs,
)

SEED = 3
# Made from the identities that should be read at some positions of an epoch.
Reader = Callable[[int, Integers, Identities], Identities]


def identities(images: int) -> Identities:
    """Those of a split's records, in packed order."""
    return np.random.default_rng(images).permutation(10 * images)[:images].astype(np.uint64)


def honest(epoch: int, positions: Integers, wanted: Identities) -> Identities:
    return wanted


@dataclass
class Training:
    """A training without a network: its order, checkpoints, attempts and ledgers."""

    output: Path
    images: int
    epochs: int
    read: Reader = honest

    def attempt(
        self,
        number: int,
        start: Start,
        workers: int,
        batch: int,
        steps: int,
        checkpoint_every: int,
        loses: random.Random | None = None,
    ) -> Start:
        """Train until killed after some steps; return the newest checkpoint's place.

        If it `loses` what no checkpoint counts, each ledger is cut off somewhere behind that.
        """
        order, expected = Order(self.images, SEED), identities(self.images)
        folder = self.output / f"attempts/r{number}"
        heads = [
            LedgerHead("hash", start, worker, workers, self.images, SEED)
            for worker in range(workers)
        ]
        ledgers = [Ledger(folder, head) for head in heads]
        paths = [folder / FOLDER / head.file_name for head in heads]
        synced = [path.stat().st_size for path in paths]
        saved = start
        for step, (epoch, begin, end) in enumerate(self._batches(start, batch * workers), start=1):
            for worker, ledger in enumerate(ledgers):
                own = worker_positions(begin, end, worker, workers)
                read = self.read(epoch, own, expected[order.at(epoch, own)])
                ledger.record(RecordsRead(epoch, begin, read))
            place = Start(epoch + 1, 0) if end == self.images else Start(epoch, end)
            if step % checkpoint_every == 0 or place.epoch == self.epochs:
                saved = place
                for ledger in ledgers if loses else ():
                    ledger.sync()
                synced = [path.stat().st_size for path in paths]
            if step == steps:
                break
        for ledger, path, size in zip(ledgers, paths, synced, strict=True):
            ledger.close()
            if loses:
                os.truncate(path, loses.randint(size, path.stat().st_size))
        return saved

    def _batches(self, start: Start, size: int) -> Iterator[tuple[int, int, int]]:
        """Yield epoch, first position and end of the batches, as a resumed training has them."""
        for epoch in range(start.epoch, self.epochs):
            first = start.image if epoch == start.epoch else 0
            for batch in range(first // size, -(-self.images // size)):
                yield epoch, max(batch * size, first), min((batch + 1) * size, self.images)

    def check(self, is_finished: bool = True, with_dataset: bool = True) -> list[EpochReport]:
        dataset = identities(self.images) if with_dataset else None
        return list(check(find_runs(self.output), is_finished, dataset))


@pytest.mark.parametrize("first_seed", range(0, 1000, 250))
def test_random_kills_and_numbers_of_workers(
    tmp_path: Path, first_seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # A kill loses no cache.
    redone = 0
    for seed in range(first_seed, first_seed + 250):
        drawn = random.Random(seed)
        training = Training(tmp_path / str(seed), drawn.randint(8, 90), drawn.randint(1, 3))
        place, number = Start(0, 0), 0
        while place.epoch < training.epochs:
            place = training.attempt(
                number,
                place,
                workers=drawn.choice((1, 2, 3, 4, 7)),
                batch=drawn.randint(1, 6),
                # In the end one is not killed.
                steps=drawn.randint(0, 25) if number < 5 else 1_000_000,
                checkpoint_every=drawn.randint(1, 9),
                loses=drawn,
            )
            number += 1
        reports = training.check(with_dataset=bool(seed % 2))
        assert [report.epoch for report in reports] == list(range(training.epochs)), seed
        for report in reports:
            assert (report.trained, report.mistakes) == (training.images, ()), seed
            redone += report.redone
    assert redone > 0


def skips_one(epoch: int, positions: Integers, wanted: Identities) -> Identities:
    """Take the next record wherever it should have been 7, as if that one were not there."""
    expected = identities(40)
    return np.where(wanted == expected[7], expected[8], wanted)


def doubles_one(epoch: int, positions: Integers, wanted: Identities) -> Identities:
    read = wanted.copy()
    if epoch == 1 and len(read) > 1:
        read[1] = read[0]
    return read


def swaps(epoch: int, positions: Integers, wanted: Identities) -> Identities:
    return wanted[::-1] if epoch == 1 else wanted


@pytest.mark.parametrize("with_dataset", [True, False])
@pytest.mark.parametrize("reader", [skips_one, doubles_one, swaps])
def test_a_wrong_reader_is_found(tmp_path: Path, reader: Reader, with_dataset: bool) -> None:
    training = Training(tmp_path, 40, 2, reader)
    training.attempt(0, Start(0, 0), workers=2, batch=4, steps=1000, checkpoint_every=1)
    mistakes = [
        mistake for report in training.check(True, with_dataset) for mistake in report.mistakes
    ]
    assert mistakes
    assert all("record 0x" in mistake for mistake in mistakes if "more" not in mistake)


def test_what_lost_steps_have_trained_is_redone(tmp_path: Path) -> None:
    training = Training(tmp_path, 40, 1)
    place = training.attempt(0, Start(0, 0), workers=2, batch=4, steps=4, checkpoint_every=3)
    assert place == Start(0, 24)
    training.attempt(1, place, workers=3, batch=2, steps=1000, checkpoint_every=1)
    (report,) = training.check()
    assert (report.trained, report.redone, report.mistakes) == (40, 8, ())


def test_an_attempt_that_starts_too_late_leaves_a_gap(tmp_path: Path) -> None:
    training = Training(tmp_path, 40, 1)
    training.attempt(0, Start(0, 0), workers=2, batch=4, steps=2, checkpoint_every=1)
    training.attempt(1, Start(0, 18), workers=2, batch=4, steps=1000, checkpoint_every=1)
    (report,) = training.check()
    assert report.mistakes == ("position 16 was not trained", "position 17 was not trained")


def test_an_epoch_in_progress_may_lack_its_end(tmp_path: Path) -> None:
    training = Training(tmp_path, 40, 1)
    training.attempt(0, Start(0, 0), workers=2, batch=4, steps=2, checkpoint_every=1)
    (report,) = training.check(is_finished=False)
    assert (report.trained, report.mistakes) == (16, ())
    assert len(training.check(is_finished=True)[0].mistakes) == 6


def test_a_worker_may_lack_the_end_of_an_epoch_of_which_others_have_trained_the_next(
    tmp_path: Path,
) -> None:
    training = Training(tmp_path, 40, 2)
    training.attempt(0, Start(0, 0), workers=2, batch=4, steps=4, checkpoint_every=99)
    lagging = tmp_path / "attempts/r0" / FOLDER / "epoch-0000-image-00000000-worker-00001-of-00002"
    written = lagging.read_bytes()
    training.attempt(0, Start(0, 0), workers=2, batch=4, steps=6, checkpoint_every=99)
    lagging.write_bytes(written)
    reports = training.check(is_finished=False)
    assert [(one.trained, one.mistakes) for one in reports] == [(36, ()), (4, ())]
    first, second = training.check(is_finished=True)
    assert len(first.mistakes) == 4
    assert second.mistakes


def test_a_batch_that_a_kill_has_cut_off_is_ignored(tmp_path: Path) -> None:
    training = Training(tmp_path, 40, 1)
    training.attempt(0, Start(0, 0), workers=1, batch=4, steps=2, checkpoint_every=1)
    (path,) = (tmp_path / "attempts/r0" / FOLDER).iterdir()
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    assert training.check(is_finished=False)[0].trained == 4
    damaged = bytearray(whole)
    damaged[-1] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(InputError, match="damaged at byte"):
        training.check(is_finished=False)


def test_a_full_volume_ends_training_at_a_later_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Filling(io.FileIO):
        room = 300

        def write(self, content: Any) -> int:
            if not Filling.room:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            written = super().write(content[: Filling.room])
            Filling.room -= written
            return written

    def open_filling(path: Path, mode: str) -> io.BufferedWriter:
        return io.BufferedWriter(Filling(path, mode))

    monkeypatch.setattr(Path, "open", open_filling)
    ledger = Ledger(tmp_path, LedgerHead("hash", Start(0, 0), 0, 1, 40, SEED))
    with pytest.raises(VolumeFullError, match="cannot write the ledger"):
        for first in itertools.count(0, 4):
            ledger.record(RecordsRead(0, first, identities(4)))
    Filling.room = 1 << 20
    # A batch is missing: no checkpoint may count it, though there is room again.
    with pytest.raises(VolumeFullError, match="cannot write the ledger"):
        ledger.sync()
    ledger.close()


def test_a_worker_for_which_checkpoints_do_not_wait_has_each_batch_at_once(tmp_path: Path) -> None:
    head = LedgerHead("hash", Start(0, 0), 1, 2, 40, SEED)
    ledger = Ledger(tmp_path, head, at_once=True)
    path = tmp_path / FOLDER / head.file_name
    for first in (0, 8):
        before = path.stat().st_size
        ledger.record(RecordsRead(0, first, identities(4)))
        assert path.stat().st_size > before
    ledger.close()


def test_a_folder_without_a_ledger_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"has no ledger \(attempts/rN/ledger\)"):
        find_runs(tmp_path)


def test_an_image_takes_few_bytes(tmp_path: Path) -> None:
    images = 100_000
    training = Training(tmp_path, images, 1)
    training.attempt(0, Start(0, 0), workers=1, batch=256, steps=10**6, checkpoint_every=1)
    (path,) = (tmp_path / "attempts/r0" / FOLDER).iterdir()
    assert path.stat().st_size / images < 4
