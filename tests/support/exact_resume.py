"""Trains some batches in this process, and says which bytes a checkpoint after them would hold."""

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from imagenet_workloads.checkpoint import Identity, Position
from imagenet_workloads.commands.train import parse
from imagenet_workloads.frameworks import FRAMEWORKS
from imagenet_workloads.rendezvous.none import NoRendezvous
from imagenet_workloads.train.framework import Learner, UpdatePlan
from imagenet_workloads.train.group import Flags
from imagenet_workloads.train.loop import evaluate
from imagenet_workloads.train.receipts import Launch, Receipt, Receipts
from imagenet_workloads.train.resume import ResumePoint
from imagenet_workloads.train.schedule import Schedule

# Beside random crops: each draws random numbers for each image.
AUGMENTATION = (
    *("--random-mirror", "1", "--random-erasing", "0.5"),
    *("--rand-augment-operations", "2", "--brightness", "0.4"),
)

Digests = dict[str, str]


@dataclass(frozen=True)
class Training:
    """A training of one process, whose every update takes one batch.

    Attributes:
        arguments: of `imagenet-train`.
        folder: of the checkpoints.
        exports: whether the model is written after the first save.
    """

    arguments: Sequence[str]
    folder: Path
    exports: bool = False

    def run(self, updates: range, save_after: Collection[int] = ()) -> Digests:
        """Train updates of epoch 0, from the checkpoint before them if there is one.

        Args:
            updates: by number, from 0.
            save_after: saves and evaluates all validation images after so many updates.

        Returns:
            the SHA-256 of each file of the checkpoint after them, and of each part of a receipt.
        """
        options = parse(self.arguments)
        description = FRAMEWORKS[options.cluster.framework]
        framework = description.load("framework").create(
            options, NoRendezvous(), self.folder, Identity("", "")
        )
        framework.check()
        group = framework.join()
        data = framework.open_data(1, self.folder)
        # The rate changes with every update.
        schedule = Schedule(options.optimizer.lr, 100, 10, warmup_epochs=5)
        size = options.optimizer.batch_size * group.images_divisor
        learner = framework.learner(
            data, self._start(updates.start), UpdatePlan(1, size, schedule, updates.start)
        )
        batches = data.training.epoch(0, updates.start)
        for done in range(updates.start + 1, updates.stop + 1):
            batch = next(batches)
            learner.train(batch, True, Flags())
            if done in save_after:
                self._save(learner, done)
                assert data.validation is not None
                assert evaluate(learner, data.validation, group, 0) is not None
                if self.exports and done == min(save_after):
                    learner.export(self.folder / "model", done)
        return self._save(learner, updates.stop)

    def _start(self, updates: int) -> ResumePoint:
        if not updates:
            return ResumePoint(Position(0, 0))
        return ResumePoint(Position(0, updates), self.folder / str(updates), continues=True)

    def _save(self, learner: Learner, done: int) -> Digests:
        folder = self.folder / str(done)
        folder.mkdir(exist_ok=True)
        learner.average_statistics()
        learner.snapshot().save(folder)
        files = {
            path.name: hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(folder.iterdir())
            # MXNet numbers nameless layers on from those of earlier networks in the process.
            if path.name != "symbol.json"
        }
        return files | digests(learner)


def digests(learner: Learner) -> Digests:
    """Return the SHA-256 of each part of the state, as a receipt of later steps has it."""
    receipts, position = Receipts(0, 1, Launch([], 1), 0, 1), Position(0, 0)
    receipts.chain = [Receipt(position, 0, {}, "")]
    receipts.add_later([position], position, learner.snapshot().state())
    (receipt,) = receipts.chain
    return {} if receipt.later is None else dict(receipt.later.state)


def check_exact_resume(
    arguments: Sequence[str], folder: Path, updates: int = 4, *, exports: bool = False
) -> None:
    """Assert that a training has the same bytes however it is saved, and wherever it resumes."""
    made = [Training(arguments, folder / name, exports) for name in ("whole", "saved")]
    for training in made:
        training.folder.mkdir()
    expected = made[0].run(range(updates))
    found = made[1].run(range(updates), save_after=range(1, updates))
    assert found == expected, "saving or evaluating changed it"
    for killed in range(1, updates):
        found = made[1].run(range(killed, updates))
        assert found == expected, f"resumed after update {killed}"
