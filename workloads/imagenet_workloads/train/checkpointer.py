"""Decides when a checkpoint is due; rank 0 alone writes it, beside training.

What is learned is copied between two steps. A thread then writes files and their checksums, syncs
them and gives the folder its name; it does the same with the receipt some steps later. So training
waits for the copy alone. One checkpoint is in flight at a time: the next one waits for it.

A checkpoint counts on the ledgers of all workers up to its position. Each worker syncs its own
beside training and says with the flags of a step when that is done. Rank 0 renames after that.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from glob import escape
from pathlib import Path
from statistics import median
from typing import Any

from imagenet_spec.metrics import Phase
from imagenet_spec.program.train import EVERY_SECONDS, STALLS_PER_INTERVAL, OutputOptions
from imagenet_workloads import files
from imagenet_workloads.checkpoint import CheckpointStore, Position, write_batches_per_epoch
from imagenet_workloads.data.worker_data import TrainingData
from imagenet_workloads.errors import WorkloadError
from imagenet_workloads.process.termination import Termination
from imagenet_workloads.train.framework import Learner, Snapshot
from imagenet_workloads.train.group import Group
from imagenet_workloads.train.ledger import Ledger
from imagenet_workloads.train.receipts import FILE_NAME, Receipt, Receipts
from imagenet_workloads.train.reporter import Reporter, growth_reported
from imagenet_workloads.train.validation_history import EpochValidation, ValidationHistory

_log = logging.getLogger(__name__)

# Seconds for which training waits for a checkpoint in flight before it says so.
PATIENCE = 1.0
# Steps without a checkpoint whose median is a usual step.
USUAL_STEPS = 100

Then = Callable[[], None]
"""What the training thread does when it sees that the background has done something."""


class DroppedError(WorkloadError):
    """A checkpoint is given up, because training has failed before all ledgers were synced."""


class Stalls:
    """How long checkpoints hold training up, in seconds.

    That is the time above the median step of the steps that they touch.
    """

    def __init__(self) -> None:
        self._usual = deque[float](maxlen=USUAL_STEPS)
        self._total, self._of_newest, self._checkpoints = 0.0, 0.0, 0

    def step(self, seconds: float, *, touched: bool) -> None:
        """Count a step without its wait for data, `touched` if something was saved meanwhile."""
        if not touched:
            self._usual.append(seconds)
        elif self._usual:
            # Some steps are shorter than the median, too.
            self._of_newest += seconds - median(self._usual)

    def held(self, seconds: float) -> None:
        """Count time between two epochs in which training only saved."""
        self._of_newest += seconds

    def checkpoint(self) -> None:
        """Begin a checkpoint, to which the touched steps belong that follow."""
        self._total += max(0.0, self._of_newest)
        self._of_newest = 0.0
        self._checkpoints += 1

    @property
    def mean(self) -> float | None:
        """The seconds for each checkpoint; None before the first one."""
        if not self._checkpoints:
            return None
        return (self._total + max(0.0, self._of_newest)) / self._checkpoints


class Checkpointer:
    """Keeps the training's checkpoints; `stalls` says how long they hold training up."""

    def __init__(
        self,
        options: OutputOptions,
        store: CheckpointStore,
        learner: Learner,
        group: Group,
        reporter: Reporter,
        termination: Termination,
        training: TrainingData,
        last_epoch: int,
        receipts: Receipts,
        ledger: Ledger | None,
        history: ValidationHistory,
        newest: Position | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Make the folder of --model-prefix on rank 0; StorageError if that fails.

        Each checkpoint holds the `history` so far. `newest` is the position of the checkpoint that
        training resumes from; None without one.
        """
        self._options, self._store = options, store
        self._reporter, self._recorder = reporter, reporter.recorder
        self._learner, self._group, self._clock = learner, group, clock
        self._training, self._last_epoch = training, last_epoch
        self._ledger, self._receipts = ledger, receipts
        self._history, self._newest = history, newest
        self._last_saved = clock()
        self.stalls = Stalls()
        self._background = ThreadPoolExecutor(1, "checkpoints")
        self._in_flight = deque[Future[Then]]()
        # Has a result once the newest checkpoint may count on the ledgers of all workers, and an
        # error if it is given up.
        self._all_synced: Future[None] | None = None
        self._is_waited_for = self._is_ending = False
        termination.is_writing = self._writes_alone
        self._report_stall()
        if options.model_prefix and group.rank == 0:
            files.make_output_folder(Path(options.model_prefix).parent)

    @property
    def interval(self) -> float:
        """Seconds from one checkpoint to the next within an epoch."""
        if self._options.checkpoint_every_seconds is not None:
            return self._options.checkpoint_every_seconds
        return max(EVERY_SECONDS, STALLS_PER_INTERVAL * (self.stalls.mean or 0.0))

    @property
    def receipts(self) -> Sequence[Receipt]:
        """Those of the checkpoints so far, of earlier attempts too; complete after `finish`."""
        return self._receipts.chain

    def is_due(self) -> bool:
        """Whether the seconds are over; only rank 0's clock counts."""
        return self._group.rank == 0 and self._clock() - self._last_saved >= self.interval

    @property
    def is_busy(self) -> bool:
        """Whether something is being written or hashed beside training."""
        return bool(self._in_flight)

    @property
    def is_synced(self) -> bool:
        """Whether rank 0 need not wait for this worker's ledger; it syncs its own as it writes."""
        return self._group.rank == 0 or all(
            call.done() and call.exception() is None for call in self._in_flight
        )

    def within_epoch(self, position: Position) -> None:
        """Save between two updates; all ranks of a collective strategy come here together."""
        self._learner.average_statistics()
        self._save(position)

    def after_step(self, position: Position, *, synced: bool) -> bool:
        """Copy the state for a receipt of an earlier checkpoint; return whether one was due.

        All ranks of a collective strategy come here together, with the flag of the step.
        WorkloadError: what was to be written beside training cannot be.
        """
        if synced and self._all_synced is not None and not self._all_synced.done():
            self._all_synced.set_result(None)
        self.look()
        checkpoints = self._receipts.due_at(position)
        if not checkpoints:
            return False
        self._count_on_ledgers()
        self._learner.average_statistics()
        if self._group.rank == 0:
            self._recorder.phase(Phase.SAVING)
            # Behind a checkpoint, so that no more than two copies are in memory.
            self._wait(leaving=1)
            snapshot = self._learner.snapshot()
            self._begin(lambda: self._write_receipt(checkpoints, position, snapshot))
        self._reporter.pause()
        return True

    def after_epoch(self, finished: int) -> None:
        """Do what is due after an epoch, counted from 1; all ranks come here."""
        self._learner.average_statistics()
        begun = self._clock()
        every = self._options.checkpoint_every_epochs
        if finished == self._last_epoch or (every and finished % every == 0):
            self._save(Position(finished, 0))
        # Validation has no flags, and can take as long as an epoch.
        self._count_on_ledgers()
        self.stalls.held(self._clock() - begun)
        self._report_stall()
        prefix = self._options.model_prefix
        if prefix and self._group.rank == 0 and finished % self._options.save_period == 0:
            self._recorder.phase(Phase.EXPORTING)
            path = Path(prefix)
            own = f"{escape(path.name)}-*"
            with growth_reported(path.parent, self._recorder.work, pattern=own):
                self._learner.export(path, finished)
            self._reporter.pause()
            self.look()

    def keep(self, best: EpochValidation | None) -> None:
        """Keep the checkpoint of the best epoch from now on, and none of an earlier best."""
        self._store.best = (
            None if best is None else self._store.folder_of(Position(best.epoch, 0), best.attempt)
        )

    def after_validation(self, finished: int) -> None:
        """Save the end of an epoch, counted from 1, if it is not saved yet; all ranks come here."""
        if self._newest != Position(finished, 0):
            self._save(Position(finished, 0))
            self._count_on_ledgers()

    def look(self) -> None:
        """Report what has been written beside training; WorkloadError if something cannot be."""
        while self._in_flight and self._in_flight[0].done():
            self._in_flight.popleft().result()()

    def time(self, step: float, *, touched: bool) -> None:
        """Count a step, without its wait for data but with what was saved after it."""
        self.stalls.step(step, touched=touched)
        if touched:
            self._report_stall()

    def finish(self) -> None:
        """Return when all is written; all ranks of a collective strategy come here together.

        WorkloadError: it cannot be.
        """
        self._count_on_ledgers()
        if self._group.rank == 0 and self._in_flight:
            self._recorder.phase(Phase.SAVING)
        self._is_ending = True
        self._wait()

    def close(self) -> None:
        """End, also after an error: what counts on no other worker is still written."""
        if self._all_synced is not None and not self._all_synced.done():
            self._all_synced.set_exception(DroppedError("training has failed"))
        self._is_waited_for = True
        self._background.shutdown()
        for call in self._in_flight:
            error = call.exception()
            if error is None:
                call.result()()
            elif not isinstance(error, DroppedError):
                _log.error("beside that, a checkpoint was not written: %s", error)
        self._in_flight.clear()

    def _report_stall(self) -> None:
        if self._group.rank == 0:
            self._recorder.checkpoint_stall(self.stalls.mean, self.interval)

    def _save(self, position: Position) -> None:
        if self._group.rank == 0:
            self._recorder.phase(Phase.SAVING)
        self._count_on_ledgers()
        self._wait()
        synced = self._all_synced = Future[None]()
        if self._group.workers == 1 or not self._group.collective:
            synced.set_result(None)
        if self._group.rank == 0:
            self._last_saved = self._clock()
            snapshot = self._learner.snapshot()
            self._recorder.copied()
            self.stalls.checkpoint()
            begun = self._last_saved
            validations = self._history.documents()
            self._begin(lambda: self._write(position, snapshot, validations, synced, begun))
        elif self._ledger is not None:
            self._begin(self._sync_ledger)
        self._newest = position
        self._receipts.expect_later(position, position)
        self._reporter.pause()

    def _count_on_ledgers(self) -> None:
        """Let the checkpoint in flight get its name; all ranks come here together."""
        if self._all_synced is not None and not self._all_synced.done():
            if self._group.rank != 0:
                self._wait()
            self._group.wait_for_all()
            self._all_synced.set_result(None)

    def _begin(self, work: Callable[[], Then]) -> None:
        self._in_flight.append(self._background.submit(work))

    def _wait(self, leaving: int = 0) -> None:
        """Return when the background has at most so many things to do. Needs no peer."""
        awaited = list(self._in_flight)[: len(self._in_flight) - leaving]
        self._is_waited_for = True
        try:
            if wait(awaited, PATIENCE).not_done:
                _log.info("training waits until its last checkpoint is on the disk")
            for _ in awaited:
                self._in_flight.popleft().result()()
        finally:
            self._is_waited_for = False

    def _writes_alone(self) -> bool:
        """Whether a checkpoint is being written that needs no other worker any more."""
        counts_on_all = self._all_synced is not None and self._all_synced.done()
        is_writing = any(not call.done() for call in tuple(self._in_flight))
        return self._is_ending or (counts_on_all and is_writing)

    def _work(self) -> None:
        """Count what the background does as progress while training waits for it."""
        if self._is_waited_for:
            self._recorder.work()

    def _sync_ledger(self) -> Then:
        if self._ledger is not None:
            self._ledger.sync()
        return lambda: None

    def _write(
        self,
        position: Position,
        snapshot: Snapshot,
        validations: Sequence[Mapping[str, Any]],
        synced: Future[None],
        begun: float,
    ) -> Then:
        self._sync_ledger()
        with (
            self._store.begin(position, self._work, synced.result) as folder,
            growth_reported(folder, self._work),
        ):
            snapshot.save(folder)
            batch, images = self._training.ordered_batch, None
            if batch is not None:
                images = min(position.batch * batch, self._training.images)
            length = self._training.batches_per_epoch
            write_batches_per_epoch(folder, length, images, validations)
            self._receipts.write(folder, position)
        self._receipts.add(self._store.folder_of(position))
        seconds = self._clock() - begun
        return lambda: self._reporter.checkpoint(position, seconds)

    def _write_receipt(
        self, checkpoints: Sequence[Position], position: Position, snapshot: Snapshot
    ) -> Then:
        self._receipts.add_later(checkpoints, position, snapshot.state())
        text = self._receipts.to_json()
        files.write_output(
            self._store.attempt_folder / FILE_NAME, lambda path: path.write_text(text)
        )
        return lambda: None
