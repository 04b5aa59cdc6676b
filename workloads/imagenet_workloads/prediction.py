"""Classifies images with what a training left: its model, its labels, its result.json.

The work of `imagenet-predict`. An image goes the way of a validation image, which result.json
describes (`data.inputs`): preparation, shorter edge, central crop, mean and standard deviation.
The framework that trained the network loads it. A file of `imagenet-export` can take the model's
place. Imports OpenCV.
"""

import logging
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, Self

import cv2
import numpy as np
import simplejpeg
from numpy.typing import NDArray

from imagenet_spec.frameworks import DEFAULT_FRAMEWORK
from imagenet_spec.names import EVERY_ATTEMPT, LABELS_FILE, RESULT_FILE
from imagenet_workloads import files
from imagenet_workloads.data.augmentation import central_pixels
from imagenet_workloads.data.inputs import Inputs
from imagenet_workloads.data.jpeg import JpegImage, Pixels, Size
from imagenet_workloads.data.layouts import Normalized
from imagenet_workloads.errors import InputError
from imagenet_workloads.exported_files import OnnxModel, format_of
from imagenet_workloads.fields import Fields, read_json
from imagenet_workloads.frameworks import FRAMEWORKS
from imagenet_workloads.prepare import codecs, image_metadata
from imagenet_workloads.prepare.codecs import opencv
from imagenet_workloads.prepare.codecs.codec import MOST_PIXELS, Codec, Recipe
from imagenet_workloads.prepare.entry_names import is_image
from imagenet_workloads.prepare.stores.blob import DamagedImageError
from imagenet_workloads.prepare.transcode import decode_heif, is_heif, transcode
from imagenet_workloads.train.description import FrameworkDescription

_log = logging.getLogger(__name__)


class Predictor(Protocol):
    """A trained network on the CPU: its number of classes, and its file for messages."""

    classes: int
    origin: str

    def classify(self, images: NDArray[Any]) -> NDArray[np.float32]:
        """Return (images, classes) of (images, channels, height, width), normalised."""


@dataclass(frozen=True)
class Prediction:
    """One class that an image may be of.

    Attributes:
        name: the number as text where the training knew no names.
        words: what people call it; empty without words.
        probability: by the network, 0..1.
    """

    label: int
    name: str
    probability: float
    words: str = ""


class Classifier:
    """A trained network, ready for one image at a time on the CPU."""

    def __init__(self, folder: Path, result: Fields, exported: Path | None = None) -> None:
        """Load what a result.json in the folder names.

        `exported` is a file that `imagenet-export` wrote of this result, and replaces its model.
        InputError if a file is missing or damaged, or they do not fit together.
        """
        self.inputs = Inputs.read(result.object("inputs"))
        self._has_warned = False
        if self.inputs.packings is None:
            _log.warning(
                "%s does not say to which size the dataset's images were packed: give images of "
                "that size, or train again with a dataset of imagenet-index",
                folder / RESULT_FILE,
            )
        self._model = load_model(folder, result, self.inputs.image_shape, exported)
        self.names = _read_names(folder / LABELS_FILE)
        if self.names is not None and len(self.names) != self._model.classes:
            raise InputError(
                f"{folder / LABELS_FILE}: names {len(self.names)} classes, "
                f"but the network of {self._model.origin} has {self._model.classes}"
            )

    @property
    def classes(self) -> int:
        return self._model.classes

    @classmethod
    def load(cls, path: Path, exported: Path | None = None) -> Self:
        """Load a result: a result.json, its folder (…/attempts/rN), or the job's folder.

        InputError if there is no result, or it is damaged.
        """
        file = find_result(path)
        return cls(file.parent, Fields.read(file), exported)

    def classify(self, path: Path, top: int) -> list[Prediction]:
        """The `top` likeliest classes of an image file, the likeliest first.

        InputError if the file is no image that can be read.
        """
        encoded = read_file(path)
        image = prepare(encoded, str(path), self.inputs)
        self._warn_of_crop(path, encoded)
        probabilities = self._model.classify(image)[0]
        order = np.argsort(-probabilities, kind="stable")[:top]
        predictions = []
        for label in map(int, order):
            name, words = (str(label), "") if self.names is None else self.names[label]
            predictions.append(Prediction(label, name, float(probabilities[label]), words))
        return predictions

    def _warn_of_crop(self, path: Path, encoded: bytes) -> None:
        """Say once what is looked at of a large image that no step resizes."""
        _, height, width = self.inputs.image_shape
        packings = self.inputs.packings
        resizes = self.inputs.resize or any(one.resize for one in packings or ())
        size = image_metadata.claimed_size(encoded)
        if resizes or size is None or min(size) <= 2 * max(height, width) or self._has_warned:
            return
        self._has_warned = True
        _log.warning(
            "%s: only the central %d by %d of its %d by %d pixels are looked at, and so for other "
            "images: %s",
            path, width, height, size[1], size[0],
            "validation did not resize the packed images" if packings is None
            else "neither preparation nor validation resized the images of this network",
        )  # fmt: skip


def images_in(folder: Path) -> list[Path]:
    """Return the images in a folder and those below it, by name; hidden files are left out.

    InputError if it has no image, or cannot be read.
    """
    found: list[Path] = []

    def refuse(error: OSError) -> None:
        raise InputError(f"{error.filename}: cannot be read: {error.strerror}") from error

    for place, folders, names in os.walk(folder, onerror=refuse):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        found += [Path(place, name) for name in sorted(names) if is_image(name)]
    if not found:
        raise InputError(f"{folder}: has no file with the name of an image, such as .jpg or .png")
    return found


def read_file(path: Path) -> bytes:
    """Return the content of an image file; InputError if it cannot be read."""
    try:
        return files.read_bytes(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error


def prepare(encoded: bytes, origin: str, inputs: Inputs) -> NDArray[np.float32]:
    """Return the network's input, 1 x channels x height x width, of an image file.

    InputError, which names the origin, if it is no image, or is damaged.
    """
    channels, *target = inputs.image_shape
    antialias = inputs.antialias
    try:
        for packing in inputs.packings or ():
            encoded = transcode(
                encoded, Recipe(packing.resize, packing.quality), _codec(packing.codec)
            ).jpeg
        if inputs.packings or (
            antialias
            and simplejpeg.is_jpeg(encoded)
            and _orientation(encoded) == image_metadata.UPRIGHT
            and (size := image_metadata.claimed_size(encoded)) is not None
            and size[0] * size[1] <= MOST_PIXELS
        ):
            image = JpegImage(encoded, channels)
        else:
            # The decoder cannot reduce these pixels any more.
            pixels, antialias = decode_image(encoded, origin, channels), False
            image = JpegImage(encoded, channels, pixels)
        found = central_pixels(image, Size(*target), inputs.resize, antialias=antialias)
    except (DamagedImageError, ValueError) as error:
        raise InputError(f"{origin}: {error}") from error
    return normalize(found, inputs)


def normalize(pixels: Pixels, inputs: Inputs) -> NDArray[np.float32]:
    """Return the network's input, 1 x channels x height x width, of an image of its size."""
    layout = Normalized(inputs.mean, inputs.std, channels_first=True)
    shape = layout.shape(Size(*pixels.shape[:2]), pixels.shape[2])
    images = np.empty((1, *shape), np.float32)
    layout.put(images, 0, pixels)
    return images


@cache
def _codec(name: str) -> Codec:
    """The codec that packed the images, or the one that needs no library."""
    has_library = name != codecs.OPENCV and codecs.has_planes()
    return codecs.choose(codecs.PLANES if has_library else codecs.OPENCV)


def decode_image(data: bytes, origin: str, channels: int) -> Pixels:
    """Decode an image file: height x width x channels in 0..255, upright by its orientation.

    It has any format that OpenCV reads, or HEIC. 1 channel is grey (luminance). InputError, which
    names the origin, if it is no image.
    """
    if is_heif(data):
        try:
            pixels = decode_heif(data)
        except DamagedImageError as error:
            raise InputError(f"{origin}: {error}") from None
        if channels == 3:
            return pixels
        return cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY)[:, :, np.newaxis].astype(np.uint8)
    size = image_metadata.claimed_size(data)
    if size is not None and size[0] * size[1] > MOST_PIXELS:
        raise InputError(
            f"{origin}: claims {size[1]}x{size[0]} pixels; at most {MOST_PIXELS} are read"
        )
    form = cv2.IMREAD_COLOR if channels == 3 else cv2.IMREAD_GRAYSCALE
    image = None
    if size is not None:
        with suppress(cv2.error):
            content = np.frombuffer(data, np.uint8)
            image = cv2.imdecode(content, form | cv2.IMREAD_IGNORE_ORIENTATION)
    if image is None:
        raise InputError(f"{origin}: is no image that OpenCV can read")
    image = opencv.turned(image.astype(np.uint8, copy=False), _orientation(data))
    if channels == 1:
        return image[:, :, np.newaxis]
    return cv2.cvtColor(image, cv2.COLOR_BGR2RGB).astype(np.uint8, copy=False)


def _orientation(data: bytes) -> int:
    try:
        return image_metadata.orientation(data)
    except ValueError:
        # OpenCV has read what there is of a damaged PNG.
        return image_metadata.UPRIGHT


def find_result(path: Path, option: str = "--model ") -> Path:
    """Find a result.json: the path itself, in its folder, or that of a job's newest attempt.

    A job's folder has attempts, or in a working directory of imagenetctl the link `model`. In
    messages the path follows the option that named it. InputError if there is none.
    """
    status = files.status_of(path)
    if status is not None and not stat.S_ISDIR(status.st_mode):
        return path
    if files.exists(path / RESULT_FILE):
        return path / RESULT_FILE
    if files.exists(path / "model" / RESULT_FILE):
        return path / "model" / RESULT_FILE
    attempts = path.glob(f"{EVERY_ATTEMPT}/{RESULT_FILE}")
    found = max(attempts, key=lambda file: (len(file.parent.name), file.parent.name), default=None)
    if found is None:
        raise InputError(
            f"{option}{path}: holds no {RESULT_FILE}, which a training writes when it is done; "
            "give the folder of the attempt that finished (…/attempts/rN), or of its job"
        )
    return found


def _read_names(path: Path) -> Sequence[tuple[str, str]] | None:
    """The class names and their words by label; None where the training knew none."""
    if not files.exists(path):
        return None
    names = read_json(path)
    if not isinstance(names, list):
        raise InputError(f"{path}: must be a list of class names")
    found = []
    for entry in names:
        if isinstance(entry, str):
            found.append((entry, ""))
        elif isinstance(entry, dict):
            fields = Fields.of(entry, str(path))
            found.append((fields.text("class"), fields.text("words")))
        else:
            raise InputError(f"{path}: must be a list of class names")
    return found


def load_model(
    folder: Path,
    result: Fields,
    image_shape: tuple[int, int, int],
    exported: Path | None = None,
) -> Predictor:
    """Load what a result.json names, or a file that was exported from it.

    A file of ONNX needs no framework. InputError if a file is missing or damaged, or the framework
    is unknown or not installed.
    """
    framework = framework_of(result)
    if exported is not None:
        format = format_of(exported)
        require_export(framework, format)
        try:
            os.close(files.open_file(exported))
        except OSError as error:
            raise InputError(f"{exported}: cannot be read: {error.strerror}") from error
        if format == "onnx":
            return OnnxModel(exported, image_shape)
    module, model_files = load_module(framework, "predictor", folder), result.object("model")
    model: Predictor = (
        module.load(folder, model_files, image_shape)
        if exported is None
        else module.load_exported(exported, folder, model_files, image_shape)
    )
    return model


def require_export(framework: FrameworkDescription, format: str) -> None:
    """Refuse a format to which a framework's models are not exported, by an InputError."""
    if format not in framework.exports:
        known = f"; it has {' and '.join(framework.exports)}" if framework.exports else ""
        raise InputError(f"{framework.name} has no {format} here{known}")


def framework_of(result: Fields) -> FrameworkDescription:
    """The framework that a result.json names; InputError if it is unknown."""
    framework = result.text("framework") if result.has("framework") else DEFAULT_FRAMEWORK
    if framework not in FRAMEWORKS:
        raise result.wrong("framework", f"is {framework!r}; known are {', '.join(FRAMEWORKS)}")
    return FRAMEWORKS[framework]


def load_module(description: FrameworkDescription, module: str, folder: Path) -> ModuleType:
    """Import a module of the framework that trained a result.

    InputError if the framework is not installed.
    """
    try:
        return description.load(module)
    except ModuleNotFoundError as error:
        if error.name != description.library:
            raise
        name = description.name
        raise InputError(
            f"{folder}: was trained with {name}, which {error.name!r} is missing for here; "
            f"use the environment or image of {name}"
        ) from error
