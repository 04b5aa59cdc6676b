"""The training loop: batch, gradients, update; after each epoch statistics, checkpoint, evaluation.

Every rank runs the same steps in the same order, which is what keeps a synchronous strategy from
hanging.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from imagenet_spec.metrics import Phase
from imagenet_workloads.checkpoint import Position
from imagenet_workloads.data.worker_data import Data, ValidationData
from imagenet_workloads.errors import WorkloadError
from imagenet_workloads.process.termination import Termination
from imagenet_workloads.train.checkpointer import Checkpointer
from imagenet_workloads.train.counts import Counts, OutputCounts
from imagenet_workloads.train.framework import Learner
from imagenet_workloads.train.group import Flags, Group
from imagenet_workloads.train.ledger import Ledger
from imagenet_workloads.train.predictions import Predictions
from imagenet_workloads.train.reporter import Reporter
from imagenet_workloads.train.schedule import Schedule
from imagenet_workloads.train.validation_history import EpochValidation, ValidationHistory

T = TypeVar("T")


@dataclass
class TrainingOutcome:
    """How a training went.

    Attributes:
        stopped: whether it ended early, after a signal to a worker.
        images: trained on, over all workers.
        seconds: that training them took, without evaluations and checkpoints.
        epochs: finished, by earlier attempts too.
        validated: the epoch, from 1, whose model was validated last; None if this attempt has
            validated none.
        validation: counts of that; None where there are none.
    """

    stopped: bool = False
    images: int = 0
    seconds: float = 0.0
    epochs: int = 0
    validated: int | None = None
    validation: Counts | None = None


@dataclass
class TrainingLoop:
    """One worker's training.

    Attributes:
        accumulation_steps: batches that make one update.
        top_k: a further k to count; 0 is none.
        attempt: the N of attempts/rN.
        ledger: of the records that were trained; None if they have no order.
        predictions: of this rank in the final validation; None before it.
    """

    epochs: int
    accumulation_steps: int
    top_k: int
    data: Data
    learner: Learner
    schedule: Schedule
    group: Group
    checkpointer: Checkpointer
    reporter: Reporter
    termination: Termination
    history: ValidationHistory = field(default_factory=ValidationHistory)
    attempt: int = 0
    ledger: Ledger | None = None
    predictions: Predictions | None = field(default=None, init=False)
    # Seconds of steps without an update.
    _accumulated: float = field(default=0.0, init=False)
    # CPU seconds of this thread in the framework's calls.
    _framework_cpu: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self._recorder = self.reporter.recorder

    def run(
        self, start: Position, first_image: int = 0, saved_by: int | None = None
    ) -> TrainingOutcome:
        """Train from a position to the end of the last epoch, or until a worker has to leave.

        If the images have an order, the first batch begins with `first_image` of its epoch. Early
        stopping ends it at the end of an epoch. `saved_by` is the attempt whose checkpoint at the
        end of an epoch this one resumes from; None without one, and within an epoch.
        """
        outcome = TrainingOutcome(epochs=start.epoch)
        self.termination.has_peers = self.group.workers > 1
        self._recorder.reading(self.data.times)
        try:
            is_over = False
            if saved_by is not None and self.history.decides:
                # The checkpoint was written before the validation, which may not have followed.
                if not self.history.has(outcome.epochs):
                    self._judge(outcome, saved_by)
                is_over = self._ends(outcome.epochs)
            while outcome.epochs < self.epochs and not is_over:
                epoch = outcome.epochs
                first = (start.batch, first_image) if epoch == start.epoch else (0, 0)
                outcome.stopped = self._epoch(epoch, *first, outcome)
                if outcome.stopped:
                    break
                outcome.epochs += 1
                self.checkpointer.after_epoch(outcome.epochs)
                self._judge(outcome, self.attempt)
                is_over = self._ends(outcome.epochs)
            self.checkpointer.finish()
        finally:
            if self.ledger is not None:
                self.ledger.close()
            self.checkpointer.close()
        return outcome

    def _judge(self, outcome: TrainingOutcome, attempt: int) -> None:
        """Validate the newest epoch, whose last step an attempt has trained."""
        may_end = outcome.epochs == self.epochs or self.history.early_stopping is not None
        outcome.validation = counts = self.validate(outcome.epochs - 1, is_final=may_end)
        outcome.validated = outcome.epochs
        if counts is not None:
            self.history.add(EpochValidation(outcome.epochs, attempt, counts))

    def _ends(self, finished: int) -> bool:
        """Return whether early stopping ends training after so many epochs.

        If it does, or if that epoch is the best, its end is saved. Rank 0 decides for all ranks,
        before any of them begins another step. Ranks that are not in step wait for that only if
        training may end.
        """
        if not self.history.decides:
            return False
        best = self.history.best
        is_best, is_over = best is not None and best.epoch == finished, self.history.early_stop
        decision = [int(is_best), int(is_over is not None)]
        if self.group.collective or self.history.early_stopping is not None:
            decision = self.group.broadcast_from_rank0(f"after epoch {finished}", decision)
        if any(decision):
            self.checkpointer.after_validation(finished)
        # Now it is saved: until here the former best is kept.
        self.checkpointer.keep(best)
        return bool(decision[1])

    def validate(
        self, epoch: int, *, reports: bool = True, is_final: bool = False
    ) -> Counts | None:
        """Evaluate after an epoch; None on ranks that do not, and without validation images.

        A model that was reported before is not reported again. The model of the final validation is
        the one that is exported: `predictions` has what it says of each image.
        """
        counts = None
        self._recorder.phase(Phase.EVALUATING)
        if self.data.validation is not None:

            def worked() -> None:
                self._recorder.work()
                self.checkpointer.look()

            self.predictions = Predictions() if is_final else None
            counts = evaluate(
                self.learner, self.data.validation, self.group, self.top_k, worked, self.predictions
            )
        if counts is not None and reports:
            self.reporter.validation(epoch, counts, self.top_k)
        self.reporter.pause()
        return counts

    def _epoch(
        self, epoch: int, first_batch: int, first_image: int, outcome: TrainingOutcome
    ) -> bool:
        """Train one epoch; return whether to leave before its end."""
        counts = OutputCounts(self.top_k)
        started = time.monotonic()
        saving = 0.0
        self._recorder.phase(Phase.TRAINING)
        batches = self.data.training.epoch(epoch, first_batch, self._recorder.work, first_image)
        self._recorder.begin_steps()
        first_step = epoch * self.data.training.batches_per_epoch
        for done in range(first_batch + 1, self.data.training.batches_per_epoch + 1):
            step_started, own_cpu = time.monotonic(), time.thread_time() - self._framework_cpu
            was_busy = self.checkpointer.is_busy
            self.termination.begin_step()
            self._of_framework(self.learner.settle)
            asked = time.monotonic()
            batch = next(batches)
            waited = time.monotonic() - asked
            self._framework_cpu += batch.cpu_seconds
            images = batch.images
            updates = done % self.accumulation_steps == 0
            own = Flags(
                self.checkpointer.is_due(), self.termination.requested, self.checkpointer.is_synced
            )
            flags, outputs = self._of_framework(partial(self.learner.train, batch, updates, own))
            if self.ledger is not None:
                self.ledger.record(batch.read)
            # Its arrays are freed with the next batch, which may get their memory.
            del batch
            # A GPU's driver spends CPU time while this thread waits for it.
            self._of_framework(counts.wait)
            counts.add(outputs)
            step_ended = time.monotonic()
            self.termination.end_step()
            ready = self._of_framework(self.learner.gradients_ready)
            if ready is None:
                self._accumulated += step_ended - asked
            else:
                # The time before the exchange.
                self._recorder.exchange(self._accumulated + ready - asked)
                self._accumulated = 0.0
            self.reporter.step(
                Position(epoch, done),
                images,
                step_ended - step_started,
                waited,
                partial(self.schedule, (first_step + done - 1) // self.accumulation_steps),
                counts.so_far,
            )
            self._recorder.launched(outputs.starved)
            self._recorder.compiled(self.learner.compiled)
            own_cpu = time.thread_time() - self._framework_cpu - own_cpu
            is_last = done == self.data.training.batches_per_epoch
            after = Position(epoch + 1, 0) if is_last else Position(epoch, done)
            is_asked = flags.save or flags.stop
            # The receipt first, so that a checkpoint at the same position holds it.
            has_saved = self.checkpointer.after_step(after, synced=flags.synced) or is_asked
            if is_asked:
                self.checkpointer.within_epoch(after)
            if has_saved:
                self._recorder.phase(Phase.TRAINING)
                self._recorder.begin_steps()
                saving += time.monotonic() - step_ended
            else:
                self._recorder.loop_cpu(own_cpu)
            self.checkpointer.time(
                time.monotonic() - step_started - waited,
                touched=was_busy or has_saved or self.checkpointer.is_busy,
            )
            if flags.stop:
                return True
        counted, workers = counts.finish(), self.group.workers
        seconds = time.monotonic() - started - saving
        if self.group.collective:
            counted, workers = Counts(*self.group.add(counted.numbers())), 1
        self.reporter.epoch(epoch, seconds, counted, workers)
        outcome.images += counted.images * workers
        outcome.seconds += seconds
        return False

    def _of_framework(self, call: Callable[[], T]) -> T:
        """Call the learner, and count the CPU time of this thread as the framework's."""
        begin = time.thread_time()
        try:
            return call()
        finally:
            self._framework_cpu += time.thread_time() - begin


def evaluate(
    learner: Learner,
    data: ValidationData,
    group: Group,
    top_k: int,
    worked: Callable[[], None] = lambda: None,
    predictions: Predictions | None = None,
) -> Counts | None:
    """Count every validation image exactly once; None on the ranks that have no part in it.

    If the group is collective, each rank takes a share; otherwise rank 0 takes all. Workers sum
    counts as whole numbers, outside of the optimizer. The sums equal the counts of one process that
    loads the saved model. BatchNorm's statistics are those that all ranks agree on. `predictions`
    gets what the network says of each image of this rank. WorkloadError: not every image came by.
    """
    if group.collective:
        rank, ranks = group.rank, group.workers
    elif group.rank == 0:
        rank, ranks = 0, 1
    else:
        return None
    classified = OutputCounts(top_k, None if predictions is None else predictions.add)
    for batch in data.batches(rank, ranks):
        classified.add(learner.predict(batch))
        worked()
    counts = classified.finish()
    if group.collective:
        counts = Counts(*group.add(counts.numbers()))
    if counts.images != data.images:
        raise WorkloadError(
            f"validation saw {counts.images} images of {data.images}: the records changed under it"
        )
    return counts
