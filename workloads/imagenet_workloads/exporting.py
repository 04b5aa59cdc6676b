"""Writes a trained model in another format, and compares the two models' outputs.

The work of `imagenet-export`. The framework's module `exporter` writes the file and computes with
both models. Imports OpenCV.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from imagenet_workloads import files
from imagenet_workloads.data.augmentation import central_pixels
from imagenet_workloads.data.inputs import Inputs
from imagenet_workloads.data.jpeg import JpegImage, Size
from imagenet_workloads.dataset import FILE_NAME, read_dataset
from imagenet_workloads.errors import InputError, WorkloadError
from imagenet_workloads.exported_files import SUFFIXES
from imagenet_workloads.fields import Fields
from imagenet_workloads.prediction import (
    find_result,
    framework_of,
    load_module,
    normalize,
    require_export,
)
from imagenet_workloads.records.split import open_split

IMAGES = 16
"""Images of a comparison."""

TOLERANCE = 1e-3
"""The largest difference, relative to the largest output."""

Images = npt.NDArray[np.float32]


class Exporter(Protocol):
    """A trained model on the CPU, and its files in other formats."""

    def write(self, format: str, path: Path) -> None:
        """Write a file in one of the description's `exports`."""

    def outputs(self, images: Images) -> npt.NDArray[Any]:
        """Return the model's outputs, (images, classes), of (images, channels, height, width)."""

    def outputs_of(self, format: str, path: Path, images: Images) -> npt.NDArray[Any]:
        """Return those of a written file; InputError if the framework cannot compute with it."""


@dataclass(frozen=True)
class Comparison:
    """The largest difference of two models' outputs of so many images, and the origin of these."""

    difference: float
    images: int
    origin: str


class Export:
    """A result, ready to be written in a format."""

    def __init__(self, result: Path, format: str) -> None:
        """Load the model that a result.json names: the file, its folder, or the job's folder.

        InputError if there is no model, or its framework does not write the format.
        """
        file = find_result(result, "")
        self._folder, self._format, self._result = file.parent, format, Fields.read(file)
        framework = framework_of(self._result)
        require_export(framework, format)
        self._inputs = Inputs.read(self._result.object("inputs"))
        module = load_module(framework, "exporter", self._folder)
        self._exporter: Exporter = module.load(
            self._folder, self._result.object("model"), self._inputs.image_shape
        )

    def write(self, path: Path | None) -> Path:
        """Write the file, by default model.SUFFIX beside the result; return its path.

        It is renamed into place when complete. StorageError if it cannot be written.
        """
        chosen = path or self._folder / f"model.{SUFFIXES[self._format]}"
        files.write_output(chosen, lambda temporary: self._exporter.write(self._format, temporary))
        return chosen

    def check(self, path: Path, dataset: Path | None) -> Comparison:
        """Compare the outputs of the model and of a written file.

        The images are those of a dataset's folder; by default that of the job, if it is on its
        volume. InputError if the dataset cannot be read, WorkloadError if the outputs differ too
        much.
        """
        images, origin = self._images(dataset)
        expected = self._exporter.outputs(images)
        found = self._exporter.outputs_of(self._format, path, images)
        difference = float(np.max(np.abs(found - expected)))
        # Not `difference > …`, which lets NaN pass.
        if not difference <= TOLERANCE * max(float(np.max(np.abs(expected))), 1.0):
            raise WorkloadError(
                f"{path}: its outputs of {len(images)} {origin} differ by up to {difference:.3g} "
                "from those of the trained model"
            )
        return Comparison(difference, len(images), origin)

    def _images(self, dataset: Path | None) -> tuple[Images, str]:
        folder = dataset
        places = self._folder.resolve().parents
        has_dataset = folder is None and self._result.has("dataset")
        described = self._result.object("dataset") if has_dataset else None
        if described is not None and described.has("key") and len(places) > 3:
            # The dataset of a result VOLUME/jobs/NAME/attempts/rN is VOLUME/datasets/KEY.
            own = places[3] / "datasets" / described.file_name("key")
            folder = own if (own / FILE_NAME).exists() else None
        if folder is not None:
            found = _validation_images(folder, self._inputs)
            if len(found):
                return found, "validation images"
        shape = (IMAGES, *self._inputs.image_shape)
        return np.random.default_rng(0).standard_normal(shape, np.float32), "synthetic images"


def _validation_images(folder: Path, inputs: Inputs) -> Images:
    channels, target = inputs.image_shape[0], Size(*inputs.image_shape[1:])
    dataset = read_dataset(folder)
    records = open_split(dataset.validation, dataset.format, folder)
    try:
        images = []
        for number in range(min(IMAGES, records.count)):
            (record,) = records.read(range(number, number + 1))
            encoded = records.parse(number, record).encoded
            try:
                image = JpegImage(encoded, channels)
                pixels = central_pixels(image, target, inputs.resize, antialias=inputs.antialias)
            except ValueError as error:
                raise InputError(f"{folder}: validation image {number}: {error}") from error
            images.append(normalize(pixels, inputs))
        return np.concatenate(images) if images else np.empty(0, np.float32)
    finally:
        records.close()
