"""Classifies images with what a training left: its model, its labels, its result.json.

The work of `imagenet-predict`. An image is prepared as in the validation, which result.json
describes: shorter edge, central crop, mean and standard deviation. The framework that trained the
network loads it. A file of `imagenet-export` can take the model's place. Imports OpenCV.
"""

import logging
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, Self

import cv2
import numpy as np
import numpy.typing as npt

from imagenet_workloads import regular_files
from imagenet_workloads.errors import InputError
from imagenet_workloads.exported_files import OnnxModel, format_of
from imagenet_workloads.fields import Fields, read_json
from imagenet_workloads.frameworks import DEFAULT, FRAMEWORKS
from imagenet_workloads.prepare import image_metadata, image_size
from imagenet_workloads.prepare.codecs import opencv
from imagenet_workloads.prepare.codecs.codec import MOST_PIXELS
from imagenet_workloads.train.options import FrameworkDescription

_log = logging.getLogger(__name__)

RESULT_NAME = "result.json"
LABELS_NAME = "labels.json"

Pixels = npt.NDArray[Any]


class Predictor(Protocol):
    """A trained network on the CPU.

    Attributes:
        classes: outputs.
        origin: its file, for messages.
    """

    classes: int
    origin: str

    def classify(self, images: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """Return (images, classes) of (images, channels, height, width), normalised."""


@dataclass(frozen=True)
class InputTransform:
    """How an image becomes what the network sees.

    Attributes:
        height: of the network's input, in pixels.
        width: likewise.
        channels: 3 for RGB, 1 for grey.
        mean: red, green, blue in 0..255, subtracted; the first alone from grey.
        std: likewise, divides.
        resize: shorter edge in pixels before the central crop; 0 is as it comes.
    """

    channels: int
    height: int
    width: int
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    resize: int

    @classmethod
    def read(cls, fields: Fields) -> Self:
        """Reads the `inputs` of a result.json.

        Raises:
            InputError: a field is missing or wrong.
        """
        shape = fields.integers("imageShape")
        if len(shape) != 3 or shape[0] not in (1, 3) or min(shape) < 1:
            raise fields.wrong(
                "imageShape", f"must be 1 or 3 channels, height, width, not {list(shape)}"
            )
        return cls(
            channels=shape[0],
            height=shape[1],
            width=shape[2],
            mean=fields.three_numbers("mean"),
            std=fields.three_numbers("std"),
            resize=fields.integer("resize"),
        )

    def prepare(self, image: Pixels) -> npt.NDArray[np.float32]:
        """The network's input, 1 x channels x height x width, of an image.

        Args:
            image: height x width x channels, as `read_image` gives it.

        The arithmetic is that of MXNet's ImageRecordIter with these settings, but that an image
        smaller than the crop, which that refuses, is enlarged.
        """
        height, width = self._resized(*image.shape[:2])
        if (height, width) != image.shape[:2]:
            image = cv2.resize(image, (width, height), interpolation=cv2.INTER_LINEAR)
            image = image.reshape(height, width, self.channels)  # OpenCV drops the axis of grey
        top, left = (height - self.height) // 2, (width - self.width) // 2
        crop = image[top : top + self.height, left : left + self.width].astype(np.float32)
        mean, std = self.mean[: self.channels], self.std[: self.channels]
        normal = (crop - np.asarray(mean)) / np.asarray(std)
        return np.ascontiguousarray(normal.transpose(2, 0, 1)[np.newaxis], np.float32)

    def _resized(self, height: int, width: int) -> tuple[int, int]:
        """Height and width before the crop; the longer edge is rounded down."""
        shorter = min(height, width)
        target = self.resize or shorter
        if height > width:
            size = target * height // width, target
        else:
            size = target, target * width // height
        if size[0] >= self.height and size[1] >= self.width:
            return size
        scale = max(self.height / height, self.width / width)
        return max(round(height * scale), self.height), max(round(width * scale), self.width)


@dataclass(frozen=True)
class Prediction:
    """One class that an image may be of.

    Attributes:
        label: the class's number.
        name: its name; the number as text where the training knew no names.
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
        """Loads what a result.json names.

        Args:
            folder: that holds the files.
            result: the content of the result.json.
            exported: a file that `imagenet-export` wrote of this result, instead of its model.

        Raises:
            InputError: a file is missing or damaged, or they do not fit together.
        """
        self.inputs = InputTransform.read(result.object("inputs"))
        shape = (self.inputs.channels, self.inputs.height, self.inputs.width)
        self._model = load_model(folder, result, shape, exported)
        self.names = _read_names(folder / LABELS_NAME)
        if self.names is not None and len(self.names) != self._model.classes:
            raise InputError(
                f"{folder / LABELS_NAME}: names {len(self.names)} classes, "
                f"but the network of {self._model.origin} has {self._model.classes}"
            )

    @classmethod
    def load(cls, path: Path, exported: Path | None = None) -> Self:
        """Loads a training's result.

        Args:
            path: a result.json, its folder (…/attempts/rN), or the job's folder above attempts.
            exported: as for the class.

        Raises:
            InputError: there is no result, or it is damaged.
        """
        file = find_result(path)
        return cls(file.parent, Fields.read(file), exported)

    def classify(self, path: Path, top: int) -> list[Prediction]:
        """The `top` likeliest classes of an image file, the likeliest first.

        Raises:
            InputError: the file is no image that can be read.
        """
        image = read_image(path, self.inputs.channels)
        if not self.inputs.resize and min(image.shape[:2]) > 2 * max(
            self.inputs.height, self.inputs.width
        ):
            _log.warning(
                "%s: only the central %d by %d of its %d by %d pixels are looked at, since the "
                "network was validated on images of their original size",
                path, self.inputs.width, self.inputs.height, image.shape[1], image.shape[0],
            )  # fmt: skip
        probabilities = self._model.classify(self.inputs.prepare(image))[0]
        order = np.argsort(-probabilities, kind="stable")[:top]
        return [
            Prediction(int(label), name, float(probabilities[label]), words)
            for label in order
            for name, words in (self._name(int(label)),)
        ]

    def _name(self, label: int) -> tuple[str, str]:
        return (str(label), "") if self.names is None else self.names[label]


def read_image(path: Path, channels: int = 3) -> Pixels:
    """Decodes an image file: height x width x channels in 0..255, upright by its EXIF orientation.

    Args:
        path: of a file in any format that OpenCV reads.
        channels: 3 for RGB, 1 for grey (luminance).

    Raises:
        InputError: it cannot be read or is no image.
    """
    try:
        data = regular_files.read_bytes(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    return decode_image(data, str(path), channels)


def decode_image(data: bytes, origin: str, channels: int) -> Pixels:
    """Decodes an image, as `read_image`.

    Args:
        data: an image file's content.
        origin: of it, for messages.
        channels: 3 for RGB, 1 for grey (luminance).

    Raises:
        InputError: it is no image.
    """
    size = image_size.claimed(data)
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
    return cv2.cvtColor(image, cv2.COLOR_BGR2RGB) if channels == 3 else image[:, :, np.newaxis]


def _orientation(data: bytes) -> int:
    try:
        return image_metadata.orientation(data)
    except ValueError:
        # OpenCV has read what there is of a damaged PNG.
        return image_metadata.UPRIGHT


def find_result(path: Path, option: str = "--model ") -> Path:
    """Finds a result.json: the path itself, in its folder, or in the newest attempt below it.

    Args:
        path: as for `Classifier.load`.
        option: that named it, for messages.

    Raises:
        InputError: there is none.
    """
    status = regular_files.status_of(path)
    if status is not None and not stat.S_ISDIR(status.st_mode):
        return path
    if regular_files.exists(path / RESULT_NAME):
        return path / RESULT_NAME
    attempts = path.glob(f"attempts/r[0-9]*/{RESULT_NAME}")
    found = max(attempts, key=lambda file: (len(file.parent.name), file.parent.name), default=None)
    if found is None:
        raise InputError(
            f"{option}{path}: holds no {RESULT_NAME}, which a training writes when it is done; "
            "give the folder of the attempt that finished (…/attempts/rN)"
        )
    return found


def _read_names(path: Path) -> Sequence[tuple[str, str]] | None:
    """The class names and their words by label; None where the training knew none."""
    if not regular_files.exists(path):
        return None
    names = read_json(path)
    if not isinstance(names, list):
        raise InputError(f"{path}: must be a list of class names")
    return [_name_and_words(path, name) for name in names]


def _name_and_words(path: Path, entry: object) -> tuple[str, str]:
    if isinstance(entry, str):
        return entry, ""
    if isinstance(entry, dict):
        fields = Fields.of(entry, str(path))
        return fields.text("class"), fields.text("words")
    raise InputError(f"{path}: must be a list of class names")


def load_model(
    folder: Path,
    result: Fields,
    image_shape: tuple[int, int, int],
    exported: Path | None = None,
) -> Predictor:
    """Load what a result.json names, or a file that was exported from it.

    Args:
        folder: that holds the files.
        result: the content of the result.json.
        image_shape: channels, height, width of the network's input.
        exported: the file; one of ONNX needs no framework.

    Raises:
        InputError: a file is missing or damaged, or the framework is unknown or not installed.
    """
    framework = framework_of(result)
    if exported is not None:
        format = format_of(exported)
        require_export(framework, format)
        _require_readable(exported)
        if format == "onnx":
            return OnnxModel(exported, image_shape)
    module, files = load_module(framework, "predictor", folder), result.object("model")
    model: Predictor = (
        module.load(folder, files, image_shape)
        if exported is None
        else module.load_exported(exported, folder, files, image_shape)
    )
    return model


def _require_readable(path: Path) -> None:
    try:
        os.close(regular_files.open_file(path))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error


def require_export(framework: FrameworkDescription, format: str) -> None:
    """Refuse a format to which a framework's models are not exported.

    Raises:
        InputError: the message names the framework's formats.
    """
    if format not in framework.exports:
        known = f"; it has {' and '.join(framework.exports)}" if framework.exports else ""
        raise InputError(f"{framework.name} has no {format} here{known}")


def framework_of(result: Fields) -> FrameworkDescription:
    """The framework that a result.json names.

    Raises:
        InputError: it is unknown.
    """
    framework = result.text("framework") if result.has("framework") else DEFAULT
    if framework not in FRAMEWORKS:
        raise result.wrong("framework", f"is {framework!r}; known are {', '.join(FRAMEWORKS)}")
    return FRAMEWORKS[framework]


def load_module(description: FrameworkDescription, module: str, folder: Path) -> ModuleType:
    """Import a module of the framework that trained a result.

    Raises:
        InputError: the framework is not installed.
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
