"""How many images may be left out: `limits.json` beside the plan, and the error beyond it.

It is not part of the plan and the key, because it changes no byte of a dataset. A run with a higher
limit continues with the existing shards.
"""

import json
import logging
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from imagenet_workloads import files
from imagenet_workloads.errors import InputError
from imagenet_workloads.fields import Fields
from imagenet_workloads.prepare.shards import SkippedImage
from imagenet_workloads.prepare.stores.blob import readable

_FILE = "limits.json"
_NAMED = 10
_NAMED_CLASSES = 10

_log = logging.getLogger(__name__)


def write(dataset: Path, max_skipped_fraction: float) -> None:
    """Says how large a share of the images may be damaged; the latest run's word counts.

    Raises:
        StorageError: it cannot be written.
    """
    content = json.dumps({"maxSkippedFraction": max_skipped_fraction}).encode() + b"\n"
    path = dataset / _FILE
    if not path.exists() or path.read_bytes() != content:
        files.write_file(path, content)


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
    """The error for more damaged images than are allowed; the caller raises it.

    The log or the report has those that it does not name.
    """
    first = "; ".join(f"{readable(image.name)}: {image.reason}" for image in skipped[:_NAMED])
    return InputError(
        f"{len(skipped)} damaged images in {where}, and {allowed} of {images} are allowed "
        f"({first}{'; …' if len(skipped) > _NAMED else ''}); mend or remove them, or raise "
        "--max-skipped-fraction (maxSkippedFraction)"
    )


def check_unknown_labels(
    where: str,
    unknown: Counter[str],
    class_names: Sequence[str],
    images: int,
    allowed: int,
    remedy: str = "correct the labels",
) -> None:
    """Says which classes of the validation images the training images lack.

    Args:
        where: their label file, or their source if its folders are their classes.
        unknown: its images of each such class.
        class_names: of the training images.
        images: all validation images.
        allowed: how many may be left out.
        remedy: what the user can do.

    Raises:
        InputError: there are more.
    """
    count = unknown.total()
    if not count:
        return
    similar = {name.strip().casefold(): name for name in class_names}
    first = [_unknown(*entry, similar) for entry in unknown.most_common(_NAMED_CLASSES)]
    named = ", ".join(first) + (", …" if len(unknown) > len(first) else "")
    lacking = f"{count} of {images} validation images are of classes that the training images lack"
    if count > allowed:
        raise InputError(
            f"{where}: {lacking}, and {allowed} are allowed: {named}; {remedy}, or raise "
            "--max-skipped-fraction (maxSkippedFraction)"
        )
    _log.warning("%s: %s, and left out: %s", where, lacking, named)


def _unknown(name: str, images: int, similar: Mapping[str, str]) -> str:
    """A class that the training images lack, for a message."""
    meant = similar.get(name.strip().casefold())
    hint = "" if meant is None else f"; the training images have {meant}"
    return f"{readable(name)} ({images} {'image' if images == 1 else 'images'}{hint})"
