"""Reads the fields of a JSON object, naming file and field when one is missing or wrong.

It reads the files that pods exchange: dataset.json, a checkpoint's manifest.json, result.json. A
damaged or foreign file raises one clear `InputError`, not a KeyError far from its cause.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any, TypeVar

from imagenet_workloads import files
from imagenet_workloads.errors import InputError

_Value = TypeVar("_Value")


def read_json(path: Path) -> Any:
    """Read a file of one JSON value; InputError if it cannot be read, or is not JSON."""
    try:
        text = files.read_bytes(path).decode()
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not UTF-8 text (byte {error.start})") from error
    return _parse(text, str(path))


@dataclass(frozen=True)
class Fields:
    """One JSON object and its place.

    `where` is the prefix of every message, e.g. `/data/datasets/k/dataset.json: splits.train`.
    """

    values: Mapping[str, Any]
    where: str

    @classmethod
    def read(cls, path: Path) -> "Fields":
        return cls.of(read_json(path), str(path))

    @classmethod
    def parse(cls, text: str, where: str) -> "Fields":
        """Parse the text of one JSON object; `where` names its origin in messages."""
        return cls.of(_parse(text, where), where)

    @classmethod
    def of(cls, value: object, where: str) -> "Fields":
        if not isinstance(value, dict):
            raise InputError(f"{where}: must hold one JSON object, not {_kind(value)}")
        return cls(value, f"{where}:")

    def has(self, name: str) -> bool:
        return self.values.get(name) is not None

    def text(self, name: str) -> str:
        return self._typed(name, str, "a string")

    def file_name(self, name: str) -> str:
        """The name of a file in the same folder: no path, nothing that leads out of it."""
        value = self.text(name)
        if value in ("", ".", "..") or "/" in value or "\0" in value:
            raise self.wrong(name, f"must be the name of a file in this folder, not {value!r}")
        return value

    def integer(self, name: str, minimum: int = 0) -> int:
        value = self._typed(name, int, "a whole number")
        if isinstance(value, bool) or value < minimum:
            raise self.wrong(name, f"must be a whole number of at least {minimum}, not {value!r}")
        return value

    def object(self, name: str) -> "Fields":
        return Fields(self._typed(name, dict, "an object"), self._path(name))

    def objects(self, name: str) -> Iterator["Fields"]:
        for position, value in enumerate(self._typed(name, list, "a list")):
            if not isinstance(value, dict):
                raise self.wrong(f"{name}[{position}]", f"must be an object, not {_kind(value)}")
            yield Fields(value, self._path(f"{name}[{position}]"))

    def texts(self, name: str) -> tuple[str, ...]:
        values = self._typed(name, list, "a list")
        for position, value in enumerate(values):
            if not isinstance(value, str):
                raise self.wrong(f"{name}[{position}]", f"must be a string, not {_kind(value)}")
        return tuple(values)

    def integers(self, name: str) -> tuple[int, ...]:
        values = self._typed(name, list, "a list")
        for position, value in enumerate(values):
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise self.wrong(f"{name}[{position}]", f"must be a count, not {value!r}")
        return tuple(values)

    def counts(self, name: str) -> dict[str, int]:
        values = self.object(name)
        return {key: values.integer(key) for key in values.values}

    def three_numbers(self, name: str) -> tuple[float, float, float]:
        """A list of exactly three numbers, one a colour channel."""
        values = self._typed(name, list, "a list")
        if len(values) != 3 or not all(map(_is_finite, values)):
            shown = repr(values)
            shown = shown if len(shown) <= 100 else f"{shown[:99]}…"
            raise self.wrong(name, f"must be three numbers, one a channel, not {shown}")
        red, green, blue = (float(value) for value in values)
        return red, green, blue

    def fractions(self, name: str) -> Iterator[tuple[float, ...]]:
        """Each list of a list of lists of numbers from 0 to 1."""
        for position, values in enumerate(self._typed(name, list, "a list")):
            if not isinstance(values, list) or not all(
                isinstance(value, (int, float)) and 0 <= value <= 1 for value in values
            ):
                raise self.wrong(f"{name}[{position}]", "must be a list of numbers from 0 to 1")
            yield tuple(map(float, values))

    def wrong(self, name: str, message: str) -> InputError:
        """The error for a field whose value does not do; the caller raises it."""
        return InputError(f"{self._path(name)} {message}")

    def _path(self, name: str) -> str:
        return f"{self.where} {name}" if self.where.endswith(":") else f"{self.where}.{name}"

    def _typed(self, name: str, kind: type[_Value], description: str) -> _Value:
        if name not in self.values:
            raise self.wrong(name, "is missing")
        value = self.values[name]
        if not isinstance(value, kind):
            raise self.wrong(name, f"must be {description}, not {_kind(value)}")
        return value


def _parse(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        raise InputError(f"{where}: is not valid JSON: its values are nested too deeply") from None
    except ValueError as error:
        raise InputError(f"{where}: is not valid JSON: {error}") from error


def _is_finite(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    try:
        return isfinite(value)
    except OverflowError:  # an integer of hundreds of digits
        return False


def _kind(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "a truth value"}
    return "null" if value is None else names.get(type(value), "a number")
