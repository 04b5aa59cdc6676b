"""Sealed datasets of handwritten digits in any format, written by the preparing programs."""

import subprocess
import sys
from pathlib import Path

from support.preparation import prepare

# Of the 1,797 digits: what the split leaves of 9 classes. The class of 12 images is dropped.
TRAIN, VALIDATION = 1455, 162
_OPTIONS = ("--min-images-per-class", "100", "--validation-per-class", "18", "--shards", "3")


def prepare_digits(folder: Path, record_format: str) -> Path:
    """Write the archive of imagenet-digits, and a dataset of it; return its folder."""
    archive = folder / "digits.tar"
    command = [sys.executable, "-m", "imagenet_workloads.commands.digits", archive]
    subprocess.run([*map(str, command)], check=True, capture_output=True)
    return prepare(archive, folder / "data", "--format", record_format, *_OPTIONS)
