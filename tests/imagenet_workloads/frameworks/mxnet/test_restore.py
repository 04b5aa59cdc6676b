"""What MXNet goes on with: its own values, another training's weights, or first ones."""

from pathlib import Path

import mxnet as mx
import numpy as np
import pytest

from imagenet_spec.program.train import Options
from imagenet_workloads.checkpoint import Position
from imagenet_workloads.commands.train import parse
from imagenet_workloads.errors import InputError
from imagenet_workloads.frameworks.mxnet import checkpoint_files, optimizers
from imagenet_workloads.frameworks.mxnet.checkpoint_files import Snapshot
from imagenet_workloads.frameworks.mxnet.networks import build
from imagenet_workloads.frameworks.mxnet.optimizers import ByUpdate
from imagenet_workloads.frameworks.mxnet.replicas import Replicas
from imagenet_workloads.frameworks.mxnet.strategies import Flags
from imagenet_workloads.frameworks.mxnet.strategies.single import Single
from imagenet_workloads.train.networks import NetworkRequest
from imagenet_workloads.train.resume import ResumePoint
from imagenet_workloads.train.schedule import Schedule

SHAPE = (1, 4, 4)
BEGINNING = ResumePoint(Position(0, 0))


def replicas(classes: int = 3) -> Replicas:
    made = Replicas(build(NetworkRequest("mlp", None, classes, SHAPE)), [mx.cpu()], 2, SHAPE)
    made.initialize(mx.init.Xavier())
    return made


def strategy_for(made: Replicas, options: Options) -> Single:
    strategy = Single("local", None)
    rate = ByUpdate(Schedule(0.1, 1, 1))
    strategy.start(made, optimizers.create(options.optimizer, made, rate, 2, 0))
    return strategy


def trained(folder: Path, made: Replicas) -> ResumePoint:
    """Write a checkpoint after one step of SGD with momentum; go on there."""
    strategy = strategy_for(made, parse([]))
    made.forward_backward(mx.nd.ones((2, *SHAPE)), mx.nd.zeros(2))
    strategy.update(Flags())
    Snapshot.of(made, strategy, None).save(folder)
    return ResumePoint(Position(1, 0), folder, continues=True)


def test_the_weights_come_from_the_checkpoint(tmp_path: Path) -> None:
    made, target = replicas(), replicas()
    begin = trained(tmp_path, made)
    checkpoint_files.prepare(parse([]), target, begin, checkpoint_files.read(begin))
    for name, expected in made.parameters().arguments.items():
        assert np.array_equal(target.weights(name)[0].asnumpy(), expected.asnumpy())


def test_a_copy_is_not_moved_by_the_steps_that_follow() -> None:
    made = replicas()
    strategy = strategy_for(made, parse([]))

    def step() -> None:
        made.forward_backward(mx.nd.ones((2, *SHAPE)), mx.nd.zeros(2))
        strategy.update(Flags())

    step()
    copied, before = Snapshot.of(made, strategy, None), Snapshot.of(made, strategy, None).state()
    step()
    after = Snapshot.of(made, strategy, None).state()
    for part, arrays in copied.state().items():
        for name, array in arrays.items():
            assert np.array_equal(array, before[part][name])
    assert not np.array_equal(after["weights"]["fc1_weight"], before["weights"]["fc1_weight"])


def test_without_a_checkpoint_nothing_is_read() -> None:
    assert checkpoint_files.read(BEGINNING) is None


def test_the_momentum_is_taken_from_its_own_checkpoint_only(tmp_path: Path) -> None:
    made = replicas()
    own = trained(tmp_path, made)
    fresh = strategy_for(made, parse([]))
    foreign = ResumePoint(Position(0, 0), own.folder, continues=False)
    checkpoint_files.restore_optimizer(fresh, foreign, checkpoint_files.read(foreign))
    assert fresh.states() == {}

    checkpoint_files.restore_optimizer(fresh, own, checkpoint_files.read(own))
    momentum = fresh.states() or {}
    assert momentum["fc3_bias"].asnumpy().any()


def test_weights_of_another_shape_are_refused(tmp_path: Path) -> None:
    begin = trained(tmp_path, replicas(classes=5))
    with pytest.raises(InputError, match="does not fit resnet: fc3_weight"):
        checkpoint_files.prepare(parse([]), replicas(), begin, checkpoint_files.read(begin))


def test_load_epoch_takes_mxnets_files(tmp_path: Path) -> None:
    made = replicas()
    arrays = {f"arg:{name}": array for name, array in made.parameters().arguments.items()}
    mx.nd.save(str(tmp_path / "p-0004.params"), arrays)
    options = parse(["--model-prefix", str(tmp_path / "p"), "--load-epoch", "4"])
    target = replicas()
    checkpoint_files.prepare(options, target, ResumePoint(Position(4, 0)), None)
    weight = target.weights("fc1_weight")[0].asnumpy()
    assert np.array_equal(weight, made.weights("fc1_weight")[0].asnumpy())


def test_the_state_of_another_optimizer_is_refused(tmp_path: Path) -> None:
    made, options = replicas(), parse(["--optimizer", "adam"])
    begin = trained(tmp_path, made)
    with pytest.raises(InputError, match="holds no optimizer state for 'fc1_weight/0'"):
        checkpoint_files.restore_optimizer(
            strategy_for(made, options), begin, checkpoint_files.read(begin)
        )


@pytest.mark.parametrize(
    "initializer", ["default", "xavier", "msra", "orthogonal", "normal", "uniform", "one", "zero"]
)
def test_every_initializer_is_one(initializer: str) -> None:
    made = replicas()
    checkpoint_files.prepare(parse(["--initializer", initializer]), made, BEGINNING, None)
    assert np.isfinite(made.weights("fc1_weight")[0].asnumpy()).all()
