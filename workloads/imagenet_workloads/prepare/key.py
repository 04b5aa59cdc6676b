"""The key of a dataset: equal for equal input and options, different for any other bytes."""

import hashlib
import json
from typing import Any

from imagenet_workloads.dataset import Writer
from imagenet_workloads.prepare.options import Options

# Goes up with every change to this package that changes a byte of the output.
WRITER_VERSION = "2"

_LENGTH = 32


def make(writer: Writer, options: Options, source: str, validation: tuple[str, str] | None) -> str:
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
    return hashlib.sha256(text).hexdigest()[:_LENGTH]
