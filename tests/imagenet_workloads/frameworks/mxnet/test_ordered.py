"""Records in the order of training, as MXNet trains them."""

from pathlib import Path

import mxnet as mx
import numpy as np
import pytest
from numpy.typing import NDArray

from imagenet_workloads.commands.train import parse
from imagenet_workloads.data.batches import PADDING, ImageBatch
from imagenet_workloads.data.order import Order
from imagenet_workloads.data.worker_data import Batch, Data
from imagenet_workloads.frameworks.mxnet import networks
from imagenet_workloads.frameworks.mxnet.data import Copies, choose
from imagenet_workloads.frameworks.mxnet.replicas import Replicas
from imagenet_workloads.train.networks import NetworkRequest
from support.digits import label
from support.reading import poison_free_slots
from support.tiny_dataset import TinyDataset, write_dataset

SHAPE = (3, 28, 28)


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> TinyDataset:
    return write_dataset(tmp_path_factory.mktemp("digits"), train=70, validation=21, shards=3)


def opened(digits: TinyDataset, scratch: Path, *more: str, rank: int = 0, ranks: int = 1) -> Data:
    arguments = ["--dataset", str(digits.folder), "--image-shape", "3,28,28", "--batch-size", "16"]
    return choose(parse([*arguments, *more]), rank, ranks, 1, scratch)


def test_both_readers_show_the_same_validation_images(digits: TinyDataset, tmp_path: Path) -> None:
    ordered = opened(digits, tmp_path, "--reader", "Ordered").validation
    iterator = opened(digits, tmp_path, "--reader", "ImageRecordIter").validation
    assert ordered is not None
    assert iterator is not None
    # ImageRecordIter overwrites a batch with the next one, so each pair is compared at once.
    for ours, theirs in zip(ordered.batches(0, 1), iterator.batches(0, 1), strict=True):
        count = ours.images
        assert count == theirs.images
        assert (ours.label.asnumpy()[:count] == theirs.label.asnumpy()[:count]).all()
        difference = np.abs(ours.data.asnumpy()[:count] - theirs.data.asnumpy()[:count])
        # One grey level is 1/96; both decode by libjpeg.
        assert difference.max() < 1.5 / 96
        assert ours.data.shape == theirs.data.shape


def test_an_epoch_shows_each_image_once_in_the_order(digits: TinyDataset, tmp_path: Path) -> None:
    training = opened(digits, tmp_path, "--seed", "3").training
    assert (training.images, training.batches_per_epoch, training.ordered_batch) == (70, 5, 16)
    batches = list(training.epoch(2, 0))
    assert [batch.images for batch in batches] == [16, 16, 16, 16, 6]
    shown = [int(name) for one in batches for name in one.label.asnumpy()[: one.images]]
    order = Order(70, 3).at(2, np.arange(70))
    assert shown == [label(digits.train[number]) for number in order]
    # From an image within a batch, the rest has the same pixels.
    rest = list(training.epoch(2, 3, first_image=55))
    assert [batch.images for batch in rest] == [9, 6]
    assert (rest[0].data.asnumpy()[:9] == batches[3].data.asnumpy()[7:]).all()


def gradients(replicas: Replicas, batch: Batch) -> dict[str, NDArray[np.float32]]:
    replicas.forward_backward(batch.data, batch.label)
    return {name: replicas.gradients(name)[0].asnumpy() for name in replicas.weight_names}


def test_padding_has_no_gradient(digits: TinyDataset, tmp_path: Path) -> None:
    *_, last = opened(digits, tmp_path).training.epoch(0, 0)
    assert last.label.asnumpy()[last.images :].tolist() == [PADDING] * 10
    symbol = networks.build(NetworkRequest("mlp", None, 10, SHAPE, "float32"))
    whole = Replicas(symbol, [mx.cpu()], 16, SHAPE)
    whole.initialize(mx.init.Xavier())
    only = Replicas(symbol, [mx.cpu()], last.images, SHAPE)
    only.load(whole.parameters())
    real = Batch(last.data[: last.images], last.label[: last.images], last.images)
    expected = gradients(only, real)
    for name, found in gradients(whole, last).items():
        np.testing.assert_allclose(found, expected[name], atol=1e-5, err_msg=name)


def test_what_was_copied_of_a_slot_stays(
    digits: TinyDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = opened(digits, tmp_path).training
    expected = [batch.data.asnumpy() for batch in training.epoch(0, 0)]
    poison_free_slots(monkeypatch)
    kept = list(opened(digits, tmp_path).training.epoch(0, 0))
    assert all((one.data.asnumpy() == two).all() for one, two in zip(kept, expected, strict=True))


def test_memory_of_a_batch_is_used_again_once_mxnet_has_computed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = []
    empty_like = np.empty_like

    def count(array: NDArray[np.float32]) -> NDArray[np.float32]:
        made.append(array)
        return empty_like(array)

    monkeypatch.setattr(np, "empty_like", count)
    copies, numbers = Copies(), np.zeros(64, np.int64)
    square, results = mx.nd.ones((400, 400)), []
    for value in range(50):
        images = np.full((64, 3, 64, 64), value, np.float32)
        data, _ = copies(ImageBatch(images, numbers, 64, numbers.astype(np.uint64)))
        # It is computed when the program has asked for the next batches.
        late = mx.nd.dot(square, square)[0, 0] / 400
        results.append((data * late).mean())
        del data
    assert [float(result.asscalar()) for result in results] == list(range(50))
    mx.nd.waitall()
    before = len(made)
    copies(ImageBatch(images, numbers, 64, numbers.astype(np.uint64)))
    assert len(made) == before
