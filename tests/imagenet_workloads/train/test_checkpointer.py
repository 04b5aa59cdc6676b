"""When a checkpoint is written, and by whom."""

from pathlib import Path

import pytest

from imagenet_workloads.checkpoint.manifest import read_batches_per_epoch, read_images
from imagenet_workloads.checkpoint.store import CheckpointStore, Identity, Position
from imagenet_workloads.environment import Environment
from imagenet_workloads.process.termination import Termination
from imagenet_workloads.telemetry.registry import Registry
from imagenet_workloads.telemetry.training import TrainingRecorder
from imagenet_workloads.train.checkpointer import Checkpointer
from imagenet_workloads.train.options import parse
from imagenet_workloads.train.receipts import Launch, Receipts, read_chain
from imagenet_workloads.train.reporter import Reporter
from support.framework_doubles import Alone, Images, Learner


class Averaging(Learner):
    """A learner that counts how often its statistics were averaged."""

    averaged = 0

    def average_statistics(self) -> None:
        self.averaged += 1


class Scene:
    """A checkpointer of a training of 5 epochs of 10 batches, and its clock."""

    def __init__(
        self, folder: Path, *arguments: str, rank: int = 0, ordered_batch: int | None = None
    ) -> None:
        self.now, self.folder = 1000.0, folder
        options = parse([*arguments, "--checkpoint-keep", "9"], {})
        self.registry, self.learner = Registry(Environment()), Averaging()
        self.checkpointer = Checkpointer(
            options.output,
            CheckpointStore(folder, 0, Identity("u", "h"), keep=9),
            self.learner,
            Alone(rank),
            Reporter(TrainingRecorder(self.registry), None, 20, 10),
            Termination(grace=1),
            Images(ordered_batch),
            last_epoch=5,
            clock=lambda: self.now,
            receipts=Receipts(0, 1, Launch([], 1), 0, 10),
        )

    def metric(self, name: str) -> float | None:
        labels = {"imagenet_job": "local", "namespace": "default", "role": "", "attempt": ""}
        return self.registry.exported.get_sample_value(f"imagenet_train_{name}", labels)

    def checkpoints(self) -> list[str]:
        folders = (self.folder / "attempts/r0/checkpoints").glob("*")
        return sorted(folder.name.removesuffix("-batch-00000000") for folder in folders)


@pytest.mark.parametrize(
    ("every", "written"),
    [
        ("1", ["epoch-0001", "epoch-0002", "epoch-0003", "epoch-0004", "epoch-0005"]),
        ("2", ["epoch-0002", "epoch-0004", "epoch-0005"]),
        ("0", ["epoch-0005"]),
    ],
)
def test_every_so_many_epochs_and_at_the_end(
    tmp_path: Path, every: str, written: list[str]
) -> None:
    scene = Scene(tmp_path, "--checkpoint-every-epochs", every)
    for epoch in range(1, 6):
        scene.checkpointer.after_epoch(epoch)
    assert scene.checkpoints() == written


def test_the_metrics_have_the_newest_checkpoint(tmp_path: Path) -> None:
    """The operator reads it, for the message of a job that fails later."""
    scene = Scene(tmp_path, "--checkpoint-every-epochs", "2")
    found = []
    for epoch in range(1, 5):
        scene.checkpointer.after_epoch(epoch)
        found.append(scene.metric("checkpoint_epoch"))
    assert found == [None, 2.0, 2.0, 4.0]


def test_seconds_count_from_the_last_checkpoint(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "--checkpoint-every-seconds", "60")
    scene.now += 59
    assert not scene.checkpointer.is_due()
    scene.now += 1
    assert scene.checkpointer.is_due()
    scene.checkpointer.within_epoch(Position(0, 3))
    assert not scene.checkpointer.is_due()
    scene.now += 59
    scene.checkpointer.after_epoch(1)
    scene.now += 59
    assert not scene.checkpointer.is_due()
    scene.now += 1
    assert scene.checkpointer.is_due()
    assert scene.checkpoints() == ["epoch-0000-batch-00000003", "epoch-0001"]


@pytest.mark.parametrize(("ordered_batch", "images"), [(None, None), (7, 21), (40, 95)])
def test_a_checkpoint_has_the_images_of_an_order(
    tmp_path: Path, ordered_batch: int | None, images: int | None
) -> None:
    scene = Scene(tmp_path, ordered_batch=ordered_batch)
    scene.checkpointer.within_epoch(Position(0, 3))
    (folder,) = (tmp_path / "attempts/r0/checkpoints").iterdir()
    assert (read_batches_per_epoch(folder), read_images(folder)) == (10, images)


@pytest.mark.parametrize("rank", [0, 1])
def test_the_receipt_of_ten_steps_later_needs_every_rank_and_rank_0_writes_it(
    tmp_path: Path, rank: int
) -> None:
    scene = Scene(tmp_path, rank=rank)
    scene.checkpointer.within_epoch(Position(0, 3))
    averaged = scene.learner.averaged
    positions = [*(Position(0, batch) for batch in range(4, 10)), Position(1, 0), Position(1, 1)]
    assert not any(scene.checkpointer.after_step(position) for position in positions)
    assert scene.checkpointer.after_step(Position(1, 3))
    assert scene.learner.averaged == averaged + 1
    if rank == 0:
        written = read_chain(tmp_path / "attempts/r0/receipts.json", "receipts")
        assert [one.later and one.later.position for one in written] == [Position(1, 3)]
        assert written == list(scene.checkpointer.receipts)
    else:
        assert list(tmp_path.iterdir()) == []


def test_without_seconds_none_is_due(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.now += 1e9
    assert not scene.checkpointer.is_due()


def test_only_rank_0_writes_and_only_its_clock_counts(tmp_path: Path) -> None:
    prefix = tmp_path / "given"
    scene = Scene(
        tmp_path, "--checkpoint-every-seconds", "1", "--model-prefix", str(prefix), rank=1
    )
    scene.now += 100
    assert not scene.checkpointer.is_due()
    scene.checkpointer.within_epoch(Position(0, 3))
    scene.checkpointer.after_epoch(5)
    assert list(tmp_path.iterdir()) == []


def test_the_model_is_exported_every_save_period(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "--model-prefix", str(tmp_path / "given"), "--save-period", "2")
    for epoch in range(1, 6):
        scene.checkpointer.after_epoch(epoch)
    assert sorted(path.name for path in tmp_path.glob("given*")) == [
        "given-0002.params",
        "given-0004.params",
    ]


def test_an_export_between_two_epochs_is_a_phase_of_its_own(tmp_path: Path) -> None:
    scene = Scene(
        tmp_path, "--model-prefix", str(tmp_path / "given"), "--checkpoint-every-epochs", "0"
    )
    scene.checkpointer.after_epoch(1)
    phases = {
        sample.labels["phase"]: sample.value
        for family in scene.registry.exported.collect()
        for sample in family.samples
        if sample.name == "imagenet_train_phase"
    }
    assert phases == {"exporting": 1}
