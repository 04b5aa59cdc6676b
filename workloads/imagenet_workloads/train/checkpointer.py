"""Decides when a checkpoint is due; rank 0 alone writes it."""

import time
from collections.abc import Callable, Sequence
from glob import escape
from pathlib import Path

from imagenet_workloads.checkpoint.atomic_folders import make_folder
from imagenet_workloads.checkpoint.manifest import write_batches_per_epoch
from imagenet_workloads.checkpoint.store import CheckpointStore, Position
from imagenet_workloads.process.termination import Termination
from imagenet_workloads.telemetry.file_growth import growth_reported
from imagenet_workloads.telemetry.names import Phase
from imagenet_workloads.train.data import TrainingData
from imagenet_workloads.train.framework import Learner
from imagenet_workloads.train.group import Group
from imagenet_workloads.train.ledger import Ledger
from imagenet_workloads.train.options.groups import OutputOptions
from imagenet_workloads.train.receipts import FILE_NAME, Receipt, Receipts
from imagenet_workloads.train.reporter import Reporter
from imagenet_workloads.train.result import put


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
        training: TrainingData,
        last_epoch: int,
        clock: Callable[[], float] = time.monotonic,
        ledger: Ledger | None = None,
        receipts: Receipts | None = None,
    ) -> None:
        """Take what is saved and where to; rank 0 makes the folder of --model-prefix.

        Raises:
            StorageError: it cannot be made.
        """
        self._options, self._store, self._reporter = options, store, reporter
        self._termination = termination
        self._learner, self._group, self._clock = learner, group, clock
        self._training, self._last_epoch = training, last_epoch
        self._ledger, self._receipts = ledger, receipts
        self._last_saved = clock()
        if options.model_prefix and group.rank == 0:
            make_folder(Path(options.model_prefix).parent)

    @property
    def receipts(self) -> Sequence[Receipt]:
        """Those of the checkpoints so far, of earlier attempts too."""
        return () if self._receipts is None else self._receipts.chain

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

    def after_step(self, position: Position) -> bool:
        """Write the receipt of the state, if it is due for an earlier checkpoint.

        All ranks of a collective strategy come here together.

        Returns:
            whether it was due.
        """
        checkpoints = [] if self._receipts is None else self._receipts.due_at(position)
        if self._receipts is None or not checkpoints:
            return False
        self._learner.average_statistics()
        if self._group.rank == 0:
            self._reporter.phase(Phase.SAVING)
            self._receipts.add_later(checkpoints, position, self._learner.state())
            text = self._receipts.to_json()
            put(self._store.attempt_folder / FILE_NAME, lambda path: path.write_text(text))
        self._reporter.pause()
        return True

    def after_epoch(self, finished: int) -> None:
        """Do what is due after an epoch, counted from 1; all ranks come here."""
        self._learner.average_statistics()
        every = self._options.checkpoint_every_epochs
        if finished == self._last_epoch or (every and finished % every == 0):
            self._save(Position(finished, 0))
        prefix = self._options.model_prefix
        if prefix and self._group.rank == 0 and finished % self._options.save_period == 0:
            self._export(Path(prefix), finished)

    def _export(self, prefix: Path, finished: int) -> None:
        self._reporter.phase(Phase.EXPORTING)
        own = f"{escape(prefix.name)}-*"
        with growth_reported(prefix.parent, self._reporter.work, pattern=own):
            self._learner.export(prefix, finished)
        self._reporter.pause()

    def _save(self, position: Position) -> None:
        if self._ledger is not None:
            self._ledger.sync()
            if self._group.collective:
                # A checkpoint counts on the ledgers of all workers up to its position.
                self._group.wait_for_all()
        if self._group.rank == 0:
            started = self._clock()
            self._reporter.phase(Phase.SAVING)
            with (
                self._termination.writing(),
                self._store.begin(position, self._reporter.work) as folder,
                growth_reported(folder, self._reporter.work),
            ):
                self._learner.save(folder)
                self._write_progress(folder, position)
            if self._receipts is not None:
                self._receipts.add(self._store.folder_of(position))
            self._last_saved = self._clock()
            self._reporter.checkpoint(position, self._last_saved - started)
        if self._receipts is not None:
            self._receipts.expect_later(position, position)
        self._reporter.pause()

    def _write_progress(self, folder: Path, position: Position) -> None:
        batch, images = self._training.ordered_batch, None
        if batch is not None:
            images = min(position.batch * batch, self._training.images)
        write_batches_per_epoch(folder, self._training.batches_per_epoch, images)
        if self._receipts is not None:
            self._receipts.write(folder, position)
