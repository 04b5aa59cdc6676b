"""The key of a dataset, and the options that it is made of: those that decide its bytes.

The key is equal for equal input and options, and different for any other bytes. `index` computes
it; it names the dataset's folder.
"""

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any, Self

from imagenet_workloads.dataset import RECORD_IO, WriterVersion
from imagenet_workloads.fields import Fields

# Goes up with every change to this package that changes a byte of the output.
WRITER_VERSION = "2"

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
    """What the ImageNetJob's spec.dataset says about the bytes.

    Attributes:
        shards: training shards; validation shards follow in proportion.
        format: of the shards.
        resize: length of the shorter edge in pixels; None leaves sizes alone.
        quality: of each JPEG that is encoded, 1 to 100.
        min_images_per_class: classes with fewer are left out.
        seed: of the validation draw and of the order.
        validation_per_class: images drawn from each class; 0 without, or with a source of their
            own.
    """

    shards: int
    format: str = RECORD_IO
    resize: int | None = None
    quality: int = 90
    min_images_per_class: int = 1
    seed: int = 0
    validation_per_class: int = 0

    def to_document(self) -> dict[str, Any]:
        """The options as JSON values, under the names of the ImageNetJob's fields."""
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
    writer: WriterVersion, options: DatasetOptions, source: str, validation: tuple[str, str] | None
) -> str:
    """The key, in hexadecimal digits.

    Args:
        writer: its version and codec.
        options: those that change bytes.
        source: fingerprint of the source's images.
        validation: fingerprints of the validation's images and of their label file; None when the
            validation images are drawn from the source.
    """
    parts: dict[str, Any] = {
        "writer": [writer.version, writer.codec],
        "options": options.to_document(),
        "source": source,
        "validation": validation,
    }
    text = json.dumps(parts, sort_keys=True).encode()
    return hashlib.sha256(text).hexdigest()[:_KEY_LENGTH]
