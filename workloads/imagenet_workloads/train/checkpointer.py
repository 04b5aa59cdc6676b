"""Decides when a checkpoint is due; rank 0 alone writes it."""

import time
from collections.abc import Callable
from pathlib import Path

from imagenet_workloads.checkpoint.manifest import write_batches_per_epoch
from imagenet_workloads.checkpoint.store import CheckpointStore, Position
from imagenet_workloads.process.termination import Termination
from imagenet_workloads.telemetry import events
from imagenet_workloads.telemetry.file_growth import growth_reported
from imagenet_workloads.telemetry.names import Phase
from imagenet_workloads.train.framework import Learner
from imagenet_workloads.train.group import Group
from imagenet_workloads.train.options.groups import OutputOptions
from imagenet_workloads.train.reporter import Reporter


class Checkpointer:
    """Keeps the training's checkpoints."""

    def __init__(
        self,
        options: OutputOptions,
        store: CheckpointStore,
        learner: Learner,
        group: Group,
        reporter: Reporter,
        termination: Termination,
        batches_per_epoch: int,
        last_epoch: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take what is saved and where to."""
        self._options, self._store, self._reporter = options, store, reporter
        self._termination = termination
        self._learner, self._group, self._clock = learner, group, clock
        self._batches_per_epoch, self._last_epoch = batches_per_epoch, last_epoch
        self._last_saved = clock()

    def is_due(self) -> bool:
        """Whether the seconds are over; only rank 0's clock counts."""
        interval = self._options.checkpoint_every_seconds
        return (
            interval is not None
            and self._group.rank == 0
            and self._clock() - self._last_saved >= interval
        )

    def within_epoch(self, position: Position) -> None:
        """Save between two updates; all ranks of a collective strategy come here together."""
        self._learner.average_statistics()
        self._save(position)

    def after_epoch(self, finished: int) -> None:
        """Do what is due after an epoch, counted from 1; all ranks come here."""
        self._learner.average_statistics()
        every = self._options.checkpoint_every_epochs
        if finished == self._last_epoch or (every and finished % every == 0):
            self._save(Position(finished, 0))
        prefix = self._options.model_prefix
        if prefix and self._group.rank == 0 and finished % self._options.save_period == 0:
            self._learner.export(Path(prefix), finished)

    def _save(self, position: Position) -> None:
        if self._group.rank == 0:
            started = self._clock()
            self._reporter.phase(Phase.SAVING)
            with (
                self._termination.writing(),
                self._store.begin(position, self._reporter.work) as folder,
                growth_reported(folder, self._reporter.work),
            ):
                self._learner.save(folder)
                write_batches_per_epoch(folder, self._batches_per_epoch)
            self._last_saved = self._clock()
            self._reporter.write(
                events.CheckpointWritten(
                    position.epoch, position.batch, position.name, self._last_saved - started
                )
            )
        self._reporter.pause()
