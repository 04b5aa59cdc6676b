"""Where a training begins."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagenet_spec.program.train import Options
from imagenet_workloads.checkpoint import (
    CheckpointStore,
    Identity,
    Position,
    write_batches_per_epoch,
)
from imagenet_workloads.environment import Environment
from imagenet_workloads.errors import InputError, WorkloadError
from imagenet_workloads.train import resume
from imagenet_workloads.train.command_line import parse
from imagenet_workloads.train.resume import identify
from support.framework_doubles import Alone

OURS, THEIRS = Identity("u", "ours"), Identity("v", "theirs")
LENGTH = st.integers(1, 5000)


@given(batch=st.integers(0, 5000), was=LENGTH, now=LENGTH, accumulation_steps=st.integers(1, 7))
def test_a_translated_position_is_never_later(
    batch: int, was: int, now: int, accumulation_steps: int
) -> None:
    batch = min(batch, was - 1)
    found = resume.translate(Position(3, batch), was, now, accumulation_steps)
    assert found.epoch == 3
    assert found.batch % accumulation_steps == 0
    assert found.batch / now <= batch / was
    assert found.batch < now


@given(batch=LENGTH, length=LENGTH)
def test_without_a_change_the_batch_stays(batch: int, length: int) -> None:
    position = Position(1, min(batch, length - 1))
    assert resume.translate(position, length, length, 1) == position


class Overruled(Alone):
    """A rank whose numbers differ from those of rank 0."""

    def broadcast_from_rank0(self, name: str, numbers: Sequence[int]) -> list[int]:
        return [number + 1 for number in numbers]


def store(folder: Path, identity: Identity, attempt: int = 0) -> CheckpointStore:
    return CheckpointStore(folder, attempt, identity, keep=3)


def write(folder: Path, identity: Identity, position: Position, images: int | None = None) -> Path:
    with store(folder, identity).begin(position) as place:
        write_batches_per_epoch(place, batches_per_epoch=20, images=images)
    return folder / "attempts/r0/checkpoints" / position.name


def find(folder: Path, options: Options, batches: int = 20) -> resume.ResumePoint:
    return resume.find_resume_point(options, store(folder, OURS, 1), OURS, Alone(), batches, 1)


def test_without_anything_it_begins_at_the_beginning(tmp_path: Path) -> None:
    begin = find(tmp_path, parse([], {}))
    assert begin == resume.ResumePoint(Position(0, 0))
    assert begin.resumed_from is None


def test_its_own_checkpoint_goes_on_where_it_was(tmp_path: Path) -> None:
    folder = write(tmp_path, OURS, Position(2, 7))
    begin = find(tmp_path, parse([], {}))
    assert begin == resume.ResumePoint(Position(2, 7), folder, continues=True)
    assert begin.resumed_from == str(folder)
    # With batches twice as large, epochs are half as long.
    assert find(tmp_path, parse([], {}), batches=10).position == Position(2, 3)


@pytest.mark.parametrize(("batch", "first"), [(32, 7), (64, 3), (100, 2), (224, 1), (225, 0)])
def test_with_an_order_it_goes_on_at_the_first_missing_image(
    tmp_path: Path, batch: int, first: int
) -> None:
    folder = write(tmp_path, OURS, Position(2, 7), images=224)
    begin = resume.find_resume_point(
        parse([], {}), store(tmp_path, OURS, 1), OURS, Alone(), 20, 1, ordered_batch=batch
    )
    assert begin == resume.ResumePoint(Position(2, first), folder, True, first_image=224)
    # A reader without an order begins with a whole batch.
    assert find(tmp_path, parse([], {})) == resume.ResumePoint(Position(2, 7), folder, True)


def test_a_checkpoint_without_an_order_is_resumed_with_one(tmp_path: Path) -> None:
    folder = write(tmp_path, OURS, Position(2, 7))
    begin = resume.find_resume_point(
        parse([], {}), store(tmp_path, OURS, 1), OURS, Alone(), 10, 1, ordered_batch=64
    )
    assert begin == resume.ResumePoint(Position(2, 3), folder, True)


def test_one_of_another_training_is_only_a_place_for_weights(tmp_path: Path) -> None:
    folder = write(tmp_path / "other", THEIRS, Position(2, 7))
    begin = find(tmp_path, parse(["--init-from", str(tmp_path / "other")], {}))
    assert begin == resume.ResumePoint(Position(0, 0), folder, continues=False)


def test_load_epoch_begins_there(tmp_path: Path) -> None:
    options = parse(["--model-prefix", str(tmp_path / "p"), "--load-epoch", "4"], {})
    assert find(tmp_path, options) == resume.ResumePoint(Position(4, 0))


def test_ranks_that_see_different_checkpoints_stop(tmp_path: Path) -> None:
    group = Overruled(rank=1)
    with pytest.raises(WorkloadError, match="rank 1 sees another newest checkpoint"):
        resume.find_resume_point(parse([], {}), store(tmp_path, OURS), OURS, group, 20, 1)


def test_a_checkpoint_without_its_length_is_named(tmp_path: Path) -> None:
    with store(tmp_path, OURS).begin(Position(1, 0)) as place:
        (place / "params").touch()
    with pytest.raises(InputError, match=r"training\.json"):
        find(tmp_path, parse([], {}))


@pytest.mark.parametrize(
    ("arguments", "same"),
    [
        (["--num-epochs", "7"], True),
        (["--data-nthreads", "9"], True),
        (["--decoding", "processes"], True),
        (["--checkpoint-keep", "9"], True),
        (["--dataset-license", "CC0"], True),
        (["--checkpoint-best", "loss"], True),
        (["--early-stopping-metric", "top1", "--early-stopping-patience", "2"], True),
        (["--lr", "0.2"], False),
        (["--network", "lenet"], False),
        (["--seed", "1"], False),
        (["--kv-store", "local"], False),
        (["--framework", "TensorFlow"], False),
        (["--distribution-strategy", "horovod"], False),
    ],
)
def test_by_hand_the_options_that_shape_it_are_its_identity(
    arguments: list[str], same: bool
) -> None:
    by_hand = Environment()
    assert (identify(parse(arguments, {}), by_hand) == identify(parse([], {}), by_hand)) is same


def test_in_a_job_the_operator_says_who_it_is() -> None:
    environment = Environment(job_uid="u", spec_hash="h")
    assert identify(parse(["--lr", "3"], {}), environment) == Identity("u", "h")
