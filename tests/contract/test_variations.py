"""Variations of training images: both packages refuse those that MXNet fails at, and no others."""

from pathlib import Path
from typing import Any

import mxnet as mx
import pytest

from imagenet_spec.frameworks import FRAMEWORKS
from imagenet_spec.resource.augmentation import Augmentation
from imagenet_spec.validate import validate
from imagenet_workloads.commands.train import parse
from imagenet_workloads.frameworks.mxnet.records import augmentation_arguments
from support.job_table import manifest
from support.tiny_dataset import write_dataset

COLOURS = dict.fromkeys(FRAMEWORKS["MXNet"].lacks_grey_augmentations, 1)
CROP = {"random_resized_crop": True}

# Channels, and how images of so many are varied.
WORKING: list[tuple[int, dict[str, Any]]] = [
    *((3, {name: value}) for name, value in COLOURS.items()),
    (1, {"random_mirror": True, "max_random_rotate_angle": 9, "max_random_shear_ratio": 0.1}),
    (1, {**CROP, "max_random_aspect_ratio": 0.5}),
    (3, {**CROP, "min_random_area": 0.5, "max_random_area": 0.5}),
    (3, {**CROP, "min_random_aspect_ratio": 1, "max_random_aspect_ratio": 1}),
    (3, {**CROP, "min_random_aspect_ratio": 0.75, "max_random_aspect_ratio": 1.33}),
    (3, {"min_random_area": 0.5, "max_random_area": 0.2}),
    (3, {"min_random_aspect_ratio": 2, "max_random_aspect_ratio": 1}),
    (3, {"max_random_aspect_ratio": 1.33}),
]
FAILING: list[tuple[int, dict[str, Any]]] = [
    # Noise is written beyond the end of a grey image: no exception says so.
    *((1, {name: value}) for name, value in COLOURS.items() if name != "pca_noise"),
    (3, {**CROP, "max_random_area": 0.5}),
    (3, {**CROP, "min_random_aspect_ratio": 0.75}),
    (3, {**CROP, "min_random_aspect_ratio": 2, "max_random_aspect_ratio": 1}),
    (3, {**CROP, "max_random_aspect_ratio": 1}),
    (3, {**CROP, "max_random_aspect_ratio": 1.33}),
]


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("digits")
    write_dataset(folder, train=4, validation=0, shards=1, edge=40)
    (path,) = folder.glob("train-*.rec")
    return path


def read(records: Path, channels: int, varied: dict[str, Any]) -> None:
    """Read a batch as training would, whatever the command line says of it."""
    options = parse([])
    arguments = augmentation_arguments(
        type(options.augmentation)(**{**vars(options.augmentation), **varied}), 0, 127
    )
    source = mx.io.ImageRecordIter(
        path_imgrec=str(records),
        path_imgidx=str(records.with_suffix(".idx")),
        data_shape=(channels, 28, 28),
        batch_size=4,
        preprocess_threads=1,
        verbose=False,
        **arguments,
    )
    next(source).data[0].wait_to_read()


def job(channels: int, varied: dict[str, Any]) -> dict[str, Any]:
    return manifest(
        training={
            "model": {"network": "lenet", "imageShape": [channels, 28, 28]},
            "augmentation": Augmentation(**varied).to_manifest(),
        }
    )


def command_line(channels: int, varied: dict[str, Any]) -> list[str]:
    options = ((f"--{name.replace('_', '-')}", f"{value:g}") for name, value in varied.items())
    return ["--image-shape", f"{channels},28,28", *(text for option in options for text in option)]


@pytest.mark.parametrize(("channels", "varied"), WORKING)
def test_what_mxnet_can_do_is_taken(records: Path, channels: int, varied: dict[str, Any]) -> None:
    read(records, channels, varied)
    assert validate(job(channels, varied)) == []
    parse(command_line(channels, varied))


@pytest.mark.parametrize(("channels", "varied"), FAILING)
def test_what_mxnet_fails_at_is_refused(
    records: Path, channels: int, varied: dict[str, Any]
) -> None:
    with pytest.raises(mx.MXNetError):
        read(records, channels, varied)
    refused(channels, varied)


def test_noise_of_grey_images_is_refused() -> None:
    refused(1, {"pca_noise": 0.1})


def refused(channels: int, varied: dict[str, Any]) -> None:
    (problem,) = validate(job(channels, varied))
    assert problem.path.startswith("spec.training.augmentation")
    with pytest.raises(SystemExit):
        parse(command_line(channels, varied))
