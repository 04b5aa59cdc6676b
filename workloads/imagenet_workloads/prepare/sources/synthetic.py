"""The kind `synthetic`: generated images, to try a cluster without an archive.

Each class is a smooth pattern of colours. Each image is that pattern, shifted, with noise, so a
network can learn the classes. An image depends on its class, its number and the shape alone.
"""

from argparse import Namespace
from collections.abc import Iterator
from typing import Any, Self

from imagenet_workloads.fields import Fields
from imagenet_workloads.prepare.source import Image, Notes, Source
from imagenet_workloads.prepare.sources.kind import SourceKind
from imagenet_workloads.prepare.stores.blob import changed

_CELLS = 4
_NOISE = 24


class SyntheticSource(Source):
    """`images_per_class` JPEGs of each of `classes` classes; an image's offset is its number.

    Their shape is channels (3), height and width in pixels.
    """

    kind = "synthetic"
    where = "the synthetic source"

    def __init__(self, classes: int, images_per_class: int, shape: tuple[int, int, int]) -> None:
        self.classes = classes
        self.images_per_class = images_per_class
        self.shape = shape
        self._digits = len(str(classes - 1))

    def to_document(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "classes": self.classes,
            "imagesPerClass": self.images_per_class,
            "shape": list(self.shape),
        }

    @classmethod
    def from_fields(cls, fields: Fields) -> Self:
        shape = fields.integers("shape")
        if len(shape) != 3:
            raise fields.wrong("shape", "must be channels, height and width")
        return cls(
            fields.integer("classes", minimum=1),
            fields.integer("imagesPerClass", minimum=1),
            (shape[0], shape[1], shape[2]),
        )

    def scan(self, notes: Notes) -> Iterator[Image]:
        _, height, width = self.shape
        for label in range(self.classes):
            class_name = f"class-{label:0{self._digits}}"
            notes.share = label / self.classes
            for number in range(self.images_per_class):
                name = f"{class_name}/{number}.jpeg"
                offset = label * self.images_per_class + number
                yield Image(class_name, name, offset, 3 * height * width, 0)

    def read(self, name: str, offset: int, size: int) -> bytes:
        import cv2
        import numpy as np
        import simplejpeg

        _, height, width = self.shape
        label, number = divmod(offset, self.images_per_class)
        if size != 3 * height * width or label >= self.classes:
            raise changed(name, f"is no image of shape {self.shape}")
        pattern = np.random.Generator(np.random.PCG64([label])).integers(
            0, 256, (_CELLS, _CELLS, 3), dtype=np.uint8
        )
        own = np.random.Generator(np.random.PCG64([label, number, 1]))
        shifted = np.roll(pattern, int(own.integers(2)), axis=1)
        smooth = cv2.resize(shifted, (width, height), interpolation=cv2.INTER_LINEAR)
        noise = own.integers(-_NOISE, _NOISE + 1, (height, width, 3), dtype=np.int16)
        pixels = np.clip(smooth.astype(np.int16) + noise, 0, 255).astype(np.uint8)
        jpeg: bytes = simplejpeg.encode_jpeg(
            pixels, quality=95, colorspace="RGB", colorsubsampling="420"
        )
        return jpeg


class SyntheticKind(SourceKind):
    """Number of classes, images per class and shape; imagenet-pack has them from the plan."""

    name = "synthetic"
    options = "the three --synthetic-… options"
    planned_as = (SyntheticSource.kind,)

    def is_given(self, parsed: Namespace) -> bool:
        return any(value is not None for value in self._values(parsed))

    def is_given_again(self, parsed: Namespace) -> bool:
        return True

    def mistake(self, parsed: Namespace) -> str | None:
        if self.is_given(parsed) and None in self._values(parsed):
            return "--synthetic-classes, -images-per-class and -image-shape go together"
        return None

    def open(self, parsed: Namespace) -> Source:
        return SyntheticSource(*self._values(parsed))

    def open_planned(self, planned: Fields, parsed: Namespace) -> Source:
        return SyntheticSource.from_fields(planned)

    def _values(self, parsed: Namespace) -> tuple[Any, Any, Any]:
        return (
            parsed.synthetic_classes,
            parsed.synthetic_images_per_class,
            parsed.synthetic_image_shape,
        )
