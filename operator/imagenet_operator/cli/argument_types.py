"""The types of arguments that several commands have.

argparse turns an ArgumentTypeError into ``error: argument --workdir: …`` and exit code 2.
"""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Callable
from pathlib import Path


def path(text: str) -> Path:
    """Read a path; an empty one would be the working directory."""
    return Path(not_empty(text))


def not_empty(text: str) -> str:
    """Read a path that may be `-` or an address, or a name."""
    if not text:
        raise ArgumentTypeError("is empty; write a path or a name")
    return text


def whole(least: int) -> Callable[[str], int]:
    """Return a type of whole numbers of at least `least`."""

    def read(text: str) -> int:
        if not (text.isascii() and text.isdecimal()) or int(text) < least:
            raise ArgumentTypeError(f"{text!r} is not a whole number of at least {least}")
        return int(text)

    return read
