"""The epoch decides the size of training images; those of validation have their own."""

from pathlib import Path

import pytest

from imagenet_spec.program.kinds import ImageSize
from imagenet_spec.program.train import PROCESSES, THREADS, AugmentationOptions
from imagenet_workloads.data.augmentation import Recipe
from imagenet_workloads.data.batches import (
    Decoding,
    ImageBatch,
    OrderedTraining,
    OrderedValidation,
    WorkerShare,
)
from imagenet_workloads.records.split import Records
from support.image_splits import FORMATS, open_images
from support.pictures import jpeg
from support.reading import copied, trained

AUGMENTATION = AugmentationOptions(random_crop=True, random_mirror=True, cutmix=1.0)
SIZES = {0: 8, 1: 20, 2: 20, 3: 12}
RECIPE = Recipe(
    (3, 16, 16), AUGMENTATION, sizes=(ImageSize(0, 8), ImageSize(1, 20), ImageSize(3, 12))
)
SHARE = WorkerShare(0, 1, 32, seed=3)


@pytest.fixture(scope="module", params=FORMATS)
def records(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Records:
    images = [jpeg(number, 24, 32) for number in range(100)]
    return open_images(tmp_path_factory.mktemp("split"), request.param, images)


def same(found: list[ImageBatch], expected: list[ImageBatch]) -> bool:
    """Whether two lists of batches have the same bytes, labels and mixing."""
    return len(found) == len(expected) and all(
        (one.images.shape, one.images.tobytes(), one.labels.tolist(), one.count)
        == (other.images.shape, other.images.tobytes(), other.labels.tolist(), other.count)
        and one.mixing is not None
        and other.mixing is not None
        and one.mixing.boxes.tolist() == other.mixing.boxes.tolist()
        for one, other in zip(found, expected, strict=True)
    )


def alone(records: Records, epoch: int, position: int = 0) -> list[ImageBatch]:
    """Return the batches of an epoch as a training of one size has them."""
    one_size = Recipe((3, SIZES[epoch], SIZES[epoch]), AUGMENTATION)
    return trained(records, one_size, SHARE, epoch, position)


@pytest.mark.parametrize("by", [THREADS, PROCESSES])
def test_an_epoch_has_the_images_of_a_training_of_its_size(records: Records, by: str) -> None:
    """Its first batches are decoded while validation runs, of which some slots are larger."""
    decoding = Decoding(2, by)
    training = OrderedTraining(records, RECIPE, SHARE, decoding, epochs=4)
    validation = OrderedValidation(records, Recipe((3, 24, 24)), 32, decoding)
    expected = trained(records, Recipe((3, 24, 24)), SHARE)
    try:
        for epoch, size in SIZES.items():
            found = copied(training.epoch(epoch))
            assert {batch.images.shape for batch in found} == {(32, size, size, 3)}
            assert same(found, alone(records, epoch))
            validated = copied(validation.batches(0, 1))
            assert {batch.images.shape for batch in validated} == {(32, 24, 24, 3)}
            assert len(validated) == len(expected)
    finally:
        training.close()
        validation.close()
        decoding.close()


@pytest.mark.parametrize(("epoch", "position"), [(0, 40), (1, 0), (2, 64), (3, 99)])
def test_a_resumed_epoch_has_the_same_size(records: Records, epoch: int, position: int) -> None:
    found = trained(records, RECIPE, SHARE, epoch, position)
    assert same(found, alone(records, epoch, position))


def test_slots_have_room_for_the_largest_size(tmp_path: Path) -> None:
    assert RECIPE.image == (20, 20, 3)
    assert RECIPE.of_epoch(0).image == (8, 8, 3)
    assert Recipe((1, 16, 12)).image == (16, 12, 1)


def test_sizes_and_epochs_without_augmentation_go_together() -> None:
    recipe = Recipe((3, 16, 16), AUGMENTATION, sizes=(ImageSize(0, 8),), augmented_epochs=1)
    first, last = recipe.of_epoch(0), recipe.of_epoch(1)
    assert (first.image_shape, first.augmentation) == ((3, 8, 8), AUGMENTATION)
    assert (last.image_shape, last.augmentation) == ((3, 8, 8), AugmentationOptions())
