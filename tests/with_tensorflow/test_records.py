"""Records reach the right rank, once, in an order that can be repeated, ready for the network."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from imagenet_workloads.commands.train import parse
from imagenet_workloads.data.worker_data import Batch, Data
from imagenet_workloads.errors import InputError
from imagenet_workloads.frameworks.tensorflow.data import choose
from support.decoded import decoded_at_the_end
from support.digits import digit, label
from support.reading import poison_free_slots
from support.tiny_records import MEAN, STD, write_dataset, write_shard

TRAIN, VALIDATION, BATCH = 53, 23, 8


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_dataset(tmp_path_factory.mktemp("digits"), TRAIN, VALIDATION, shards=3)


def opened(
    dataset: Path, *more: str, rank: int = 0, ranks: int = 1, accumulation_steps: int = 1
) -> Data:
    arguments = ["--dataset", str(dataset), "--image-shape", "3,28,28", "--batch-size", str(BATCH)]
    return choose(parse([*arguments, *more]), rank, ranks, accumulation_steps)


def images(batches: list[Batch]) -> list[bytes]:
    """Each image that is to be counted, as something that can be compared."""
    return [image.tobytes() for batch in batches for image in batch.data.numpy()[: batch.images]]


def normal(number: int) -> NDArray[np.float32]:
    return ((digit(number) - np.asarray(MEAN, np.float32)) / np.asarray(STD, np.float32)).astype(
        np.float32
    )


@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
def test_every_validation_image_is_in_one_batch_of_one_rank(dataset: Path, ranks: int) -> None:
    seen: Counter[bytes] = Counter()
    for rank in range(ranks):
        validation = opened(dataset).validation
        assert validation is not None
        batches = list(validation.batches(rank, ranks))
        assert all(batch.data.shape == (BATCH, 28, 28, 3) for batch in batches)
        seen.update(images(batches))
    assert sum(seen.values()) == VALIDATION
    assert len(seen) == VALIDATION


def test_a_rank_without_validation_images_has_no_batches(tmp_path: Path) -> None:
    validation = opened(write_dataset(tmp_path, 4, 1)).validation
    assert validation is not None
    assert [len(list(validation.batches(rank, 3))) for rank in range(3)] == [1, 0, 0]


def test_images_and_labels_are_those_of_the_digits(tmp_path: Path) -> None:
    folder = write_dataset(tmp_path, 4, 6, shards=1)
    validation = opened(folder).validation
    assert validation is not None
    (batch,) = validation.batches(0, 1)
    drawn = np.random.default_rng(0).permutation(1797)[4:10]
    for place, number in enumerate(drawn):
        np.testing.assert_allclose(batch.data[place], normal(int(number)), atol=1e-5)
        assert batch.label[place] == label(int(number))


@pytest.mark.parametrize("ranks", [1, 3])
def test_an_epoch_has_every_image_once(dataset: Path, ranks: int) -> None:
    seen: Counter[bytes] = Counter()
    lengths = set()
    for rank in range(ranks):
        training = opened(dataset, rank=rank, ranks=ranks).training
        batches = list(training.epoch(0, 0))
        lengths |= {len(batches), training.batches_per_epoch}
        assert all(batch.data.shape == (BATCH, 28, 28, 3) for batch in batches)
        seen.update(images(batches))
    assert len(lengths) == 1
    assert len(seen) == sum(seen.values()) == TRAIN


def test_the_order_is_that_of_one_worker(dataset: Path) -> None:
    alone = images(list(opened(dataset).training.epoch(3, 0)))
    parts = [images(list(opened(dataset, rank=n, ranks=2).training.epoch(3, 0))) for n in (0, 1)]
    assert [alone[0::2], alone[1::2]] == parts
    assert opened(dataset, rank=1, ranks=2).training.ordered_batch == 2 * BATCH


VARIED = ("--random-crop", "1", "--pad-size", "2", "--random-mirror", "1")


def test_an_epoch_goes_on_as_it_was(dataset: Path) -> None:
    training = opened(dataset, *VARIED).training
    whole = [images([batch]) for batch in training.epoch(1, 0)]
    assert [images([batch]) for batch in opened(dataset, *VARIED).training.epoch(1, 4)] == whole[4:]
    within = opened(dataset, *VARIED).training.epoch(1, 4, first_image=35)
    assert images([next(within)]) == whole[4][3:]


def test_a_resumed_epoch_reads_no_earlier_batch(
    dataset: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So there is nothing to report to the watchdog before the first batch."""
    # Of a next epoch, batches would be begun meanwhile.
    training = opened(dataset, "--num-epochs", "1").training
    found = decoded_at_the_end(training, monkeypatch)
    assert found == (TRAIN % BATCH, TRAIN % BATCH)


def test_epochs_and_seeds_differ(dataset: Path) -> None:
    orders = [
        images(list(opened(dataset, "--seed", seed).training.epoch(number, 0)))
        for seed, number in (("0", 0), ("0", 1), ("1", 0))
    ]
    assert orders[0] != orders[1]
    assert orders[0] != orders[2]


def test_too_few_images_for_the_workers_are_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="2 training images are too few for 3 workers"):
        opened(write_dataset(tmp_path, 2, 1), rank=0, ranks=3)


@pytest.mark.parametrize(
    "more",
    [
        VARIED,
        ("--random-resized-crop", "1", "--min-random-area", "0.3"),
        (
            "--random-resized-crop",
            "1",
            "--max-random-aspect-ratio",
            "0.3",
            "--min-random-area",
            "0.5",
        ),
        ("--brightness", "0.4", "--contrast", "0.4", "--saturation", "0.4", "--pca-noise", "0.1"),
        ("--use-imagenet-data-augmentation", "1"),
        # Larger than the images, which are enlarged for it.
        ("--image-shape", "3,40,32", "--random-crop", "1"),
        (
            "--framework",
            "TensorFlow",
            "--image-shape",
            "1,28,28",
            "--saturation",
            "0.4",
            "--brightness",
            "0.2",
        ),
    ],
)
def test_training_images_are_varied(dataset: Path, more: tuple[str, ...]) -> None:
    options = parse(["--image-shape", "3,28,28", *more])
    channels, height, width = options.model.image_shape
    (batch, *_) = opened(dataset, *more).training.epoch(0, 0)
    assert batch.data.shape == (BATCH, height, width, channels)
    assert np.isfinite(batch.data.numpy()).all()
    mean = np.asarray(options.data.rgb_mean or MEAN, np.float32)
    std = np.asarray(options.data.rgb_std or STD, np.float32)
    grey = batch.data.numpy() * std[:channels] + mean[:channels]
    assert -1e-3 <= grey.min() <= grey.max() <= 255.001
    plain = opened(dataset, "--image-shape", f"{channels},{height},{width}").training
    if (height, width) == (28, 28):
        assert set(images([batch])) - set(images(list(plain.epoch(0, 0))))


def test_files_can_be_named_without_a_dataset(tmp_path: Path) -> None:
    for name, digits in (("a", range(7)), ("b", range(7, 12)), ("v", range(20, 25))):
        write_shard(tmp_path / f"{name}.tfrecord", digits)
    names = [str(tmp_path / f"{name}.tfrecord") for name in "abv"]
    arguments = ["--data-train", ";".join(names[:2]), "--data-val", names[2], "--batch-size", "4"]
    data = choose(parse([*arguments, "--image-shape", "3,28,28"]), 0, 1, 1)
    assert (data.training.images, data.key, data.class_count) == (12, None, 1000)
    assert data.validation is not None
    assert data.validation.images == 5


def test_no_data_is_told() -> None:
    with pytest.raises(InputError, match=r"no data: write .*--data-train FILE"):
        choose(parse([]), 0, 1, 1)


def test_what_was_copied_of_a_slot_stays(dataset: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = [batch.data.numpy().copy() for batch in opened(dataset).training.epoch(0, 0)]
    poison_free_slots(monkeypatch)
    kept = list(opened(dataset).training.epoch(0, 0))
    assert all((one.data.numpy() == two).all() for one, two in zip(kept, expected, strict=True))
