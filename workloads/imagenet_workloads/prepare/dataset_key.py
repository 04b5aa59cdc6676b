"""The key of a dataset: a hash of its input and of the options that change its bytes.

Equal input and options have the same key; different bytes have different keys. `index` computes the
key, which names the dataset's folder.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from imagenet_workloads.dataset import RECORD_IO, WriterVersion
from imagenet_workloads.fields import Fields

# Incremented with every change of this package that changes a byte of the records.
WRITER_VERSION = "3"

_KEY_LENGTH = 32
_CAMEL = {
    "format": "format",
    "resize": "resize",
    "quality": "quality",
    "shards": "shards",
    "min_images_per_class": "minImagesPerClass",
    "seed": "seed",
    "validation_per_class": "validationPerClass",
}


@dataclass(frozen=True)
class DatasetOptions:
    """The fields of spec.dataset that change bytes.

    Attributes:
        shards: The training shards; validation shards are added in proportion.
        format: The format of the shards.
        resize: The length of the shorter edge in pixels; None for no resize.
        quality: The quality of re-encoded JPEGs, 1 to 100.
        min_images_per_class: Classes with fewer are dropped.
        seed: The seed of the validation split and of the order.
        validation_per_class: The validation images drawn from each class; 0 without validation, or
            with a separate validation source.
    """

    shards: int
    format: str = RECORD_IO
    resize: int | None = None
    quality: int = 90
    min_images_per_class: int = 1
    seed: int = 0
    validation_per_class: int = 0

    def to_document(self) -> dict[str, Any]:
        """Return the options as JSON, with the names of the ImageNetJob's fields."""
        return {_CAMEL[name]: value for name, value in asdict(self).items()}

    @classmethod
    def from_fields(cls, fields: Fields) -> Self:
        """Reads what `to_document` made.

        Raises:
            InputError: a field is missing or wrong.
        """
        return cls(
            shards=fields.integer("shards", minimum=1),
            format=fields.text("format"),
            resize=fields.integer("resize", minimum=1) if fields.has("resize") else None,
            quality=fields.integer("quality", minimum=1),
            min_images_per_class=fields.integer("minImagesPerClass"),
            seed=fields.integer("seed"),
            validation_per_class=fields.integer("validationPerClass"),
        )


def make_key(
    writer: WriterVersion,
    options: DatasetOptions,
    source: str,
    validation: tuple[str, str] | None,
    class_words: Mapping[str, str] | None = None,
    bounding_boxes: str | None = None,
) -> str:
    """Return the key as hexadecimal digits.

    Args:
        writer: The version and codec of the writer.
        options: The options that change bytes.
        source: The fingerprint of the source's images.
        validation: The fingerprints of the validation images and of their label file; None if they
            are drawn from the source.
        class_words: the words of the classes, if any are given.
        bounding_boxes: the fingerprint of the annotations, if any are given.
    """
    parts: dict[str, Any] = {
        "writer": [writer.version, writer.codec],
        "options": options.to_document(),
        "source": source,
        "validation": validation,
    }
    # Without words and boxes, the key stays what it was before there were any.
    if class_words:
        parts["classWords"] = dict(class_words)
    if bounding_boxes is not None:
        parts["boundingBoxes"] = bounding_boxes
    text = json.dumps(parts, sort_keys=True).encode()
    return hashlib.sha256(text).hexdigest()[:_KEY_LENGTH]
