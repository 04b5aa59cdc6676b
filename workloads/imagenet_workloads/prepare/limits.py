"""How many images may be damaged: `limits.json` beside the plan, and the error beyond it.

It stands outside the plan and the key, since it changes no byte of a dataset: a run that allows
more goes on with the shards that are there.
"""

import json
import math
from collections.abc import Sequence
from pathlib import Path

from imagenet_workloads.errors import InputError
from imagenet_workloads.fields import Fields
from imagenet_workloads.prepare import atomic_files
from imagenet_workloads.prepare.shards import SkippedImage
from imagenet_workloads.prepare.sources.source import readable

_FILE = "limits.json"
_NAMED = 3


def write(dataset: Path, max_skipped_fraction: float) -> None:
    """Says how large a share of the images may be damaged; the latest run's word counts.

    Raises:
        StorageError: it cannot be written.
    """
    content = json.dumps({"maxSkippedFraction": max_skipped_fraction}).encode() + b"\n"
    path = dataset / _FILE
    if not path.exists() or path.read_bytes() != content:
        atomic_files.write_file(path, content)


def read(dataset: Path, images: int) -> int:
    """How many of so many images may be damaged.

    Raises:
        InputError: limits.json is missing or wrong.
    """
    fields = Fields.read(dataset / _FILE)
    fraction = fields.values.get("maxSkippedFraction")
    if not isinstance(fraction, (int, float)) or not 0 <= fraction <= 1:
        raise fields.wrong("maxSkippedFraction", "must be a number from 0 to 1")
    return allowed(fraction, images)


def allowed(max_skipped_fraction: float, images: int) -> int:
    """How many images such a share of them is, rounded down."""
    # 0.29 * 100 is a little less than 29.
    return math.floor(max_skipped_fraction * images + 1e-9)


def too_many(skipped: Sequence[SkippedImage], images: int, allowed: int, where: str) -> InputError:
    """The error for more damaged images than are allowed; the caller raises it."""
    first = "; ".join(f"{readable(image.name)}: {image.reason}" for image in skipped[:_NAMED])
    return InputError(
        f"{len(skipped)} damaged images in {where}, and {allowed} of {images} are allowed "
        f"({first}{'; …' if len(skipped) > _NAMED else ''}); mend or remove them, or raise "
        "--max-skipped-fraction (maxSkippedFraction)"
    )
