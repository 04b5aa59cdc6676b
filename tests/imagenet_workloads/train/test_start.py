"""Where a training begins."""

from collections.abc import Sequence
from pathlib import Path

import mxnet as mx
import numpy as np
import pytest

from imagenet_workloads.checkpoint.store import CheckpointStore, Identity, Position
from imagenet_workloads.environment import Environment
from imagenet_workloads.errors import InputError, WorkloadError
from imagenet_workloads.train import optimizer, start
from imagenet_workloads.train.identity import identify
from imagenet_workloads.train.networks import build
from imagenet_workloads.train.networks.request import Request
from imagenet_workloads.train.options import Options, parse
from imagenet_workloads.train.replicas import Replicas
from imagenet_workloads.train.saved import save
from imagenet_workloads.train.schedule import ByUpdate, Schedule
from imagenet_workloads.train.strategies.interface import Votes
from imagenet_workloads.train.strategies.single import Single

OURS, THEIRS = Identity("u", "ours"), Identity("v", "theirs")
SHAPE = (1, 4, 4)


class Overruled(Single):
    """A rank that hears other numbers from rank 0 than its own."""

    rank = 1

    def agree(self, name: str, numbers: Sequence[int]) -> list[int]:
        return [number + 1 for number in numbers]


def replicas(classes: int = 3) -> Replicas:
    made = Replicas(build(Request("mlp", None, classes, SHAPE)), [mx.cpu()], 2, SHAPE)
    made.initialize(mx.init.Xavier())
    return made


def strategy_for(made: Replicas, options: Options) -> Single:
    strategy = Single("local", None)
    rate = ByUpdate(Schedule(0.1, 1, 1))
    strategy.start(made, optimizer.create(options.optimizer, made, rate, 2, 0))
    return strategy


def store(folder: Path, identity: Identity, attempt: int = 0) -> CheckpointStore:
    return CheckpointStore(folder, attempt, identity, keep=3)


def write(folder: Path, identity: Identity, position: Position, made: Replicas) -> None:
    with store(folder, identity).begin(position) as place:
        save(place, made, strategy_for(made, parse([])), batches_per_epoch=20)


def find(folder: Path, options: Options, batches: int = 20) -> start.Start:
    return start.find(options, store(folder, OURS, 1), OURS, Single("local", None), batches, 1)


def test_without_anything_it_begins_at_the_beginning(tmp_path: Path) -> None:
    assert find(tmp_path, parse([])) == start.Start(Position(0, 0))


def test_its_own_checkpoint_goes_on_where_it_was(tmp_path: Path) -> None:
    made = replicas()
    write(tmp_path, OURS, Position(2, 7), made)
    found = find(tmp_path, parse([]))
    assert (found.position, found.continues) == (Position(2, 7), True)
    target = replicas()
    start.prepare(parse([]), target, found)
    for name, expected in made.parameters().arguments.items():
        assert np.array_equal(target.weights(name)[0].asnumpy(), expected.asnumpy())
    # With batches twice as large, epochs are half as long.
    assert find(tmp_path, parse([]), batches=10).position == Position(2, 3)


def test_one_of_another_training_gives_its_weights_only(tmp_path: Path) -> None:
    made = replicas()
    write(tmp_path / "other", THEIRS, Position(2, 7), made)
    options = parse(["--init-from", str(tmp_path / "other")])
    found = find(tmp_path, options)
    assert (found.position, found.continues) == (Position(0, 0), False)
    target = replicas()
    start.prepare(options, target, found)
    weight = target.weights("fc1_weight")[0].asnumpy()
    assert np.array_equal(weight, made.weights("fc1_weight")[0].asnumpy())


def trained(folder: Path, identity: Identity, made: Replicas) -> None:
    """Write a checkpoint after one step of SGD with momentum."""
    strategy = strategy_for(made, parse([]))
    made.forward_backward(mx.nd.ones((2, *SHAPE)), mx.nd.zeros(2))
    strategy.update(Votes())
    with store(folder, identity).begin(Position(1, 0)) as place:
        save(place, made, strategy, batches_per_epoch=20)


def test_the_momentum_is_taken_from_its_own_checkpoint_only(tmp_path: Path) -> None:
    made = replicas()
    trained(tmp_path / "other", THEIRS, made)
    options = parse(["--init-from", str(tmp_path / "other")])
    fresh = strategy_for(made, options)
    start.restore_optimizer(fresh, find(tmp_path, options))
    assert fresh.states() == {}

    trained(tmp_path, OURS, made)
    start.restore_optimizer(fresh, find(tmp_path, options))
    momentum = fresh.states() or {}
    assert momentum["fc3_bias"].asnumpy().any()


def test_weights_of_another_shape_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "other", THEIRS, Position(2, 7), replicas(classes=5))
    options = parse(["--init-from", str(tmp_path / "other")])
    with pytest.raises(InputError, match="does not fit resnet: fc3_weight"):
        start.prepare(options, replicas(), find(tmp_path, options))


def test_ranks_that_see_different_checkpoints_stop(tmp_path: Path) -> None:
    strategy = Overruled("local", None)
    with pytest.raises(WorkloadError, match="rank 1 sees another newest checkpoint"):
        start.find(parse([]), store(tmp_path, OURS), OURS, strategy, 20, 1)


def test_load_epoch_begins_there_with_mxnets_files(tmp_path: Path) -> None:
    made = replicas()
    arrays = {f"arg:{name}": array for name, array in made.parameters().arguments.items()}
    mx.nd.save(str(tmp_path / "p-0004.params"), arrays)
    options = parse(["--model-prefix", str(tmp_path / "p"), "--load-epoch", "4"])
    found = find(tmp_path, options)
    assert found.position == Position(4, 0)
    target = replicas()
    start.prepare(options, target, found)
    weight = target.weights("fc1_weight")[0].asnumpy()
    assert np.array_equal(weight, made.weights("fc1_weight")[0].asnumpy())


def test_the_state_of_another_optimizer_is_refused(tmp_path: Path) -> None:
    made, options = replicas(), parse(["--optimizer", "adam"])
    trained(tmp_path, OURS, made)
    with pytest.raises(InputError, match="holds no optimizer state for 'fc1_weight/0'"):
        start.restore_optimizer(strategy_for(made, options), find(tmp_path, options))


@pytest.mark.parametrize(
    "initializer", ["default", "xavier", "msra", "orthogonal", "normal", "uniform", "one", "zero"]
)
def test_every_initializer_is_one(initializer: str) -> None:
    made = replicas()
    start.prepare(parse(["--initializer", initializer]), made, start.Start(Position(0, 0)))
    assert np.isfinite(made.weights("fc1_weight")[0].asnumpy()).all()


@pytest.mark.parametrize(
    ("arguments", "same"),
    [
        (["--num-epochs", "7"], True),
        (["--data-nthreads", "9"], True),
        (["--checkpoint-keep", "9"], True),
        (["--lr", "0.2"], False),
        (["--network", "lenet"], False),
        (["--seed", "1"], False),
        (["--kv-store", "local"], False),
    ],
)
def test_by_hand_the_options_that_shape_it_are_its_identity(
    arguments: list[str], same: bool
) -> None:
    by_hand = Environment()
    assert (identify(parse(arguments), by_hand) == identify(parse([]), by_hand)) is same


def test_in_a_job_the_operator_says_who_it_is() -> None:
    environment = Environment(job_uid="u", spec_hash="h")
    assert identify(parse(["--lr", "3"]), environment) == Identity("u", "h")
