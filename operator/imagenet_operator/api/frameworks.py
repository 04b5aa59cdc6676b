"""The frameworks that train, and which dataset format each of them reads.

The lowest of the modules about what goes together: a strategy names the frameworks that have it
(`strategies`), `compatibility` makes the table of both, `capabilities` says what a framework lacks.
"""

from __future__ import annotations

from typing import Literal

Framework = Literal["MXNet", "TensorFlow"]
Format = Literal["RecordIO", "TFRecord"]

FORMATS: dict[Framework, tuple[Format, ...]] = {
    "MXNet": ("RecordIO",),
    "TensorFlow": ("TFRecord",),
}
"""Framework → the formats that it reads."""
