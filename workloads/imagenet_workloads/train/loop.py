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
from imagenet_workloads.checkpoint.store import Position
from imagenet_workloads.data.worker_data import Batch, Data, ValidationData
from imagenet_workloads.errors import WorkloadError
from imagenet_workloads.process.termination import Termination
from imagenet_workloads.train.checkpointer import Checkpointer
from imagenet_workloads.train.counts import Counts, OutputCounts
from imagenet_workloads.train.framework import Learner, Outputs
from imagenet_workloads.train.group import Flags, Group
from imagenet_workloads.train.ledger import Ledger
from imagenet_workloads.train.reporter import Reporter
from imagenet_workloads.train.schedule import Schedule

T = TypeVar("T")


@dataclass
class TrainingOutcome:
    """How a training went.

    Attributes:
        stopped: Whether it ended early, after a signal to a worker.
        images: trained on, over all workers.
        seconds: that training them took, without evaluations and checkpoints.
        validation: counts after the last epoch; None where there are none.
    """

    stopped: bool = False
    images: int = 0
    seconds: float = 0.0
    validation: Counts | None = None


@dataclass
class TrainingLoop:
    """One worker's training.

    Attributes:
        epochs: planned.
        accumulation_steps: batches that make one update.
        top_k: a further k to count; 0 is none.
        data: what is learned.
        learner: what learns.
        schedule: of the learning rate, for the reports.
        group: the others.
        checkpointer: of checkpoints.
        reporter: to the world.
        termination: whether to end early.
        ledger: of the records that were trained; None if they have no order.
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
    ledger: Ledger | None = None
    # Seconds of steps without an update.
    _accumulated: float = field(default=0.0, init=False)
    # CPU seconds of this thread in the framework's calls.
    _framework_cpu: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        """Take the metrics that need no interval."""
        self._recorder = self.reporter.recorder

    def run(self, start: Position, first_image: int = 0) -> TrainingOutcome:
        """Train from a position to the end of the last epoch, or until a worker has to leave.

        Args:
            start: the first batch.
            first_image: of its epoch, if the images have an order.
        """
        outcome = TrainingOutcome()
        self.termination.has_peers = self.group.workers > 1
        self._recorder.reading(self.data.times)
        try:
            for epoch in range(start.epoch, self.epochs):
                first = (start.batch, first_image) if epoch == start.epoch else (0, 0)
                outcome.stopped = self._epoch(epoch, *first, outcome)
                if outcome.stopped:
                    break
                self.checkpointer.after_epoch(epoch + 1)
                outcome.validation = self.validate(epoch)
            self.checkpointer.finish()
        finally:
            if self.ledger is not None:
                self.ledger.close()
            self.checkpointer.close()
        return outcome

    def validate(self, epoch: int) -> Counts | None:
        """Evaluate after an epoch; None on ranks that do not, and without validation images."""
        counts = None
        self._recorder.phase(Phase.EVALUATING)
        if self.data.validation is not None:
            counts = evaluate(
                self.learner, self.data.validation, self.group, self.top_k, self._validated_batch
            )
        if counts is not None:
            self.reporter.validation(epoch, counts, self.top_k)
        self.reporter.pause()
        return counts

    def _validated_batch(self) -> None:
        self._recorder.work()
        self.checkpointer.look()

    def _epoch(
        self, epoch: int, first_batch: int, first_image: int, outcome: TrainingOutcome
    ) -> bool:
        """Train one epoch; whether to leave before its end."""
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
            flags, outputs = self._step(batch, updates=done % self.accumulation_steps == 0)
            # Its arrays are freed with the next batch, which may get their memory.
            del batch
            # A GPU's driver spends CPU time while this thread waits for it.
            self._of_framework(counts.wait)
            counts.add(outputs)
            step_ended = time.monotonic()
            self.termination.end_step()
            self._report_exchange(asked, step_ended)
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
            has_saved = self._save(flags, after)
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
        counted = counts.finish()
        self._finish_epoch(epoch, counted, time.monotonic() - started - saving, outcome)
        return False

    def _step(self, batch: Batch, updates: bool) -> tuple[Flags, Outputs]:
        own = Flags(
            self.checkpointer.is_due(), self.termination.requested, self.checkpointer.is_synced
        )
        trained = self._of_framework(lambda: self.learner.train(batch, updates, own))
        if self.ledger is not None:
            self.ledger.record(batch.read)
        return trained

    def _of_framework(self, call: Callable[[], T]) -> T:
        """Call the learner, and count the CPU time of this thread as the framework's."""
        begin = time.thread_time()
        try:
            return call()
        finally:
            self._framework_cpu += time.thread_time() - begin

    def _save(self, flags: Flags, position: Position) -> bool:
        """Save the checkpoint or the receipt that is due after a step; whether one was."""
        is_asked = flags.save or flags.stop
        # The receipt first, so that a checkpoint at the same position holds it.
        was_due = self.checkpointer.after_step(position, synced=flags.synced)
        if is_asked:
            self.checkpointer.within_epoch(position)
        return was_due or is_asked

    def _report_exchange(self, asked: float, ended: float) -> None:
        """Report the time before the exchange of a step that asked for its batch and has ended."""
        ready = self._of_framework(self.learner.gradients_ready)
        if ready is None:
            self._accumulated += ended - asked
            return
        self._recorder.exchange(self._accumulated + ready - asked)
        self._accumulated = 0.0

    def _finish_epoch(
        self, epoch: int, counts: Counts, seconds: float, outcome: TrainingOutcome
    ) -> None:
        workers = self.group.workers
        if self.group.collective:
            counts, workers = Counts(*self.group.add(counts.numbers())), 1
        self.reporter.epoch(epoch, seconds, counts, workers)
        outcome.images += counts.images * workers
        outcome.seconds += seconds


def evaluate(
    learner: Learner,
    data: ValidationData,
    group: Group,
    top_k: int,
    worked: Callable[[], None] = lambda: None,
) -> Counts | None:
    """Count every validation image exactly once; None on the ranks that have no part in it.

    Workers sum counts as whole numbers, outside of the optimizer. The sums equal the counts of one
    process that loads the saved model.

    Args:
        learner: the network, with BatchNorm statistics that all ranks agree on.
        data: the images.
        group: if it is collective, each rank takes a share; otherwise rank 0 takes all.
        top_k: a further k to count; 0 is none.
        worked: called after each batch.

    Raises:
        WorkloadError: not every image came by.
    """
    if group.collective:
        rank, ranks = group.rank, group.workers
    elif group.rank == 0:
        rank, ranks = 0, 1
    else:
        return None
    classified = OutputCounts(top_k)
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
