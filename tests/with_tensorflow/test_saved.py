"""What is saved and exported comes back: in this program, and in plain TensorFlow."""

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from imagenet_workloads.checkpoint import Position
from imagenet_workloads.commands.train import parse
from imagenet_workloads.errors import InputError, StorageError
from imagenet_workloads.frameworks.tensorflow import networks
from imagenet_workloads.frameworks.tensorflow.checkpoint_files import export, restore
from imagenet_workloads.frameworks.tensorflow.learner import TensorFlowLearner
from imagenet_workloads.frameworks.tensorflow.weights import load_arrays
from imagenet_workloads.train.group import Flags
from imagenet_workloads.train.networks import NetworkRequest
from imagenet_workloads.train.receipts import State
from imagenet_workloads.train.resume import ResumePoint
from support.learners import CLASSES, assert_close, batch, learner, values

SHAPE = (3, 12, 12)
RESNET = NetworkRequest("resnet", 8, CLASSES, SHAPE)
MLP = NetworkRequest("mlp", None, CLASSES, SHAPE)
OPTIONS = parse(["--network", "resnet"])


def trained(steps: int, made: TensorFlowLearner) -> TensorFlowLearner:
    for step in range(steps):
        made.train(batch(step, 8, SHAPE), True, Flags())
    return made


def test_a_checkpoint_goes_on_as_if_nothing_had_been(tmp_path: Path) -> None:
    whole = trained(2, learner(RESNET))
    whole.snapshot().save(tmp_path)
    again = learner(RESNET)
    assert restore(
        OPTIONS, again.model, again.optimizer, ResumePoint(Position(0, 2), tmp_path, True)
    )
    for made in (whole, again):
        made.train(batch(7, 8, SHAPE), True, Flags())
    assert_close(values(again), values(whole), atol=0)


def test_a_copy_is_not_moved_by_the_steps_that_follow() -> None:
    made = trained(2, learner(RESNET))
    copied, before = made.snapshot(), _sums(made.snapshot().state())
    made.train(batch(7, 8, SHAPE), True, Flags())
    assert _sums(copied.state()) == before
    assert _sums(made.snapshot().state()) != before


def _sums(state: State) -> dict[str, dict[str, bytes]]:
    return {
        part: {name: array.tobytes() for name, array in arrays.items()}
        for part, arrays in state.items()
    }


def test_of_another_training_only_the_weights_are_taken(tmp_path: Path) -> None:
    first = trained(2, learner(RESNET))
    first.snapshot().save(tmp_path)
    again = learner(RESNET)
    restore(OPTIONS, again.model, again.optimizer, ResumePoint(Position(0, 0), tmp_path, False))
    assert_close(values(again), values(first), atol=0)
    assert not any(array.any() for array in again.optimizer.states().values())


def test_a_start_from_nothing_restores_nothing() -> None:
    made = learner(RESNET)
    assert not restore(OPTIONS, made.model, made.optimizer, ResumePoint(Position(0, 0)))


def test_load_epoch_takes_the_exported_values(tmp_path: Path) -> None:
    first = trained(1, learner(RESNET))
    first.export(tmp_path / "p", 3)
    again = learner(RESNET)
    options = parse(["--model-prefix", str(tmp_path / "p"), "--load-epoch", "3"])
    assert restore(options, again.model, again.optimizer, ResumePoint(Position(3, 0)))
    assert_close(values(again), values(first), atol=0)


def test_another_network_and_another_optimizer_are_refused(tmp_path: Path) -> None:
    trained(1, learner(RESNET)).snapshot().save(tmp_path)
    begin = ResumePoint(Position(0, 1), tmp_path, True)
    other = learner(NetworkRequest("resnet", 8, 3, SHAPE))
    with pytest.raises(InputError, match="does not fit resnet: fc1_weight is"):
        restore(OPTIONS, other.model, other.optimizer, begin)
    adam = learner(RESNET, arguments=["--optimizer", "adam"])
    with pytest.raises(InputError, match="no optimizer state for 'bn_data_beta/mean'"):
        restore(OPTIONS, adam.model, adam.optimizer, begin)


@pytest.mark.parametrize("devices", [1, 2])
def test_plain_tensorflow_classifies_alike(tmp_path: Path, devices: int) -> None:
    made = trained(1, learner(RESNET, devices))
    made.average_statistics()
    # A second time, over what is there.
    for _ in range(2):
        files = made.export(tmp_path / "model", 5)
    assert files == {"savedModel": "model", "weights": "model-0005.npz"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "model-0005.npz"]
    assert_close(load_arrays(tmp_path / "model-0005.npz"), values(made), atol=0)
    images = batch(9, 6, SHAPE)
    classify = tf.saved_model.load(str(tmp_path / "model")).signatures["serving_default"]
    found = classify(data=images.data)["probabilities"].numpy()
    np.testing.assert_allclose(found, made.predict(images).probabilities, atol=1e-6)


def test_a_network_with_dropout_is_exported(tmp_path: Path) -> None:
    request = NetworkRequest("squeezenet", None, CLASSES, (3, 48, 48))
    model = networks.build(request)
    export(tmp_path / "model", model, 1)
    images = batch(9, 2, request.image_shape).data
    classify = tf.saved_model.load(str(tmp_path / "model")).signatures["serving_default"]
    expected = tf.nn.softmax(model(images, training=False)).numpy()
    np.testing.assert_allclose(classify(data=images)["probabilities"].numpy(), expected, atol=1e-6)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"gone/model-0001\.npz"):
        learner(MLP).export(tmp_path / "gone" / "model", 1)
