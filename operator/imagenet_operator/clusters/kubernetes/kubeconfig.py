"""Kubeconfigs, merged and read field by field: every error names the file and the field.

People edit kubeconfigs, programs write into them, and the files that they name disappear. So each
value is checked where it is read, before `login` gives it to the kubernetes package. That package
merges files too, but takes the last file's current-context, where kubectl takes the first's, and
stops at an item without a name.
"""

import base64
import os
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from imagenet_operator.api.load import documents
from imagenet_operator.errors import ImageNetJobError, UnreadableManifest


class NoConnection(ImageNetJobError):  # noqa: N818 - says what is missing
    """The API server or the login is unknown, or cannot be used."""

    def __init__(self, text: str) -> None:
        # Names in a kubeconfig are arbitrary, and an error is one line.
        super().__init__("".join(char if char.isprintable() else repr(char)[1:-1] for char in text))


_CONTENTS = {
    "contexts": "write its cluster and user",
    "clusters": "write its server",
    "users": "write a client certificate or a token, or {} for anonymous requests",
}
"""What to write for each list, if an item lacks its object."""


@dataclass(frozen=True)
class Content:
    """The content of a field, or of the file that it names.

    Attributes:
        place: Its name in errors: the kubeconfig, the field, the file.
        data: The content.
    """

    place: str
    data: bytes


@dataclass(frozen=True)
class Fields:
    """An object of a kubeconfig.

    Attributes:
        file: The kubeconfig.
        name: The object's path with a dot behind it; empty for the file as a whole.
        values: Its fields.
    """

    file: Path
    name: str
    values: dict[str, Any]

    def place(self, field: str) -> str:
        """Return a field's name in errors."""
        return f"{self.file}: {self.name}{field}"

    def text(self, field: str) -> str | None:
        """Return a text; None if it is absent or empty."""
        value = self.values.get(field)
        if value is None or value == "":
            return None
        if not isinstance(value, str):
            raise NoConnection(f"{self.place(field)}: is not text; write it in quotes")
        return value

    def texts(self, field: str) -> tuple[str, ...]:
        """Return a list of texts; empty if it is absent."""
        value = self.values.get(field)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise NoConnection(f"{self.place(field)}: is not a list of texts; write them in quotes")
        return tuple(value)

    def path(self, field: str) -> Path | None:
        """Return a path, relative to the kubeconfig's folder; None if it is absent."""
        text = self.text(field)
        return None if text is None else self.file.parent / text

    def content(self, field: str) -> Content | None:
        """Return the content of ``FIELD-data``, or of the file that ``FIELD`` names."""
        encoded, path = self.text(f"{field}-data"), self.path(field)
        if encoded is not None:
            return Content(self.place(f"{field}-data"), self._decoded(field, encoded))
        if path is None:
            return None
        place = f"{self.place(field)}: {path}"
        try:
            return Content(place, path.read_bytes())
        except (OSError, ValueError) as error:
            raise NoConnection(
                f"{place}: {reason(error)}; write the path of a PEM file that is there"
            ) from error

    def _decoded(self, field: str, encoded: str) -> bytes:
        try:
            # It may be wrapped, but a character that is no base64 is a sign of damage.
            return base64.b64decode("".join(encoded.split()), validate=True)
        except ValueError as error:
            raise NoConnection(
                f"{self.place(field)}-data: is not base64 ({error}); write a PEM file in base64, "
                f"or its path as {field}"
            ) from error


class Kubeconfig:
    """One file or several; as with kubectl, the first file that names something decides.

    Args:
        files: Their paths, at least one.
        which: The context to be read, for errors: the current one, or another.

    Raises:
        NoConnection: A file cannot be read, or is not a kubeconfig.
    """

    def __init__(self, files: Sequence[Path], which: str) -> None:
        self._shown = os.pathsep.join(map(str, files))
        self._which = which
        self._files = [Fields(file, "", self._read(file)) for file in files]

    @property
    def top(self) -> Fields:
        """The first file with a current context; the first file if none has one."""
        named = (file for file in self._files if file.values.get("current-context"))
        return next(named, self._files[0])

    def names(self, part: str) -> list[str]:
        """Return the names in a list, such as ``contexts``."""
        return list(self._items(part))

    def named(self, part: str, name: str) -> Fields:
        """Return a list's object by its name: a context, a cluster, a user."""
        kind = part.removesuffix("s")
        file, item = self._items(part)[name]
        values = item.get(kind)
        if not isinstance(values, dict):
            what = "is empty" if values is None else "is not an object"
            raise NoConnection(f"{file}: {part}[{name}].{kind}: {what}; {_CONTENTS[part]}")
        return Fields(file, f"{part}[{name}].{kind}.", values)

    def referred(self, fields: Fields, field: str, part: str) -> Fields:
        """Return the object of a list that a field names."""
        name, known = fields.text(field), self.names(part)
        if name is None or name not in known:
            what = "is missing" if name is None else f"{name!r} is not among the {part}"
            raise NoConnection(f"{fields.place(field)}: {what}; write one of {', '.join(known)}")
        return self.named(part, name)

    def _items(self, part: str) -> dict[str, tuple[Path, dict[str, Any]]]:
        items: dict[str, tuple[Path, dict[str, Any]]] = {}
        for file in self._files:
            listed = file.values.get(part)
            for item in listed if isinstance(listed, list) else ():
                if isinstance(item, dict) and isinstance(item.get("name"), str):
                    items.setdefault(item["name"], (file.file, item))
        if not items:
            kind = part.removesuffix("s")
            raise self._no_kubeconfig(
                self._shown,
                f"{part}: is not a list of {part}; write one of objects with name and {kind}",
            )
        return items

    def _read(self, file: Path) -> dict[str, Any]:
        remedy = "set KUBECONFIG to the path of one"
        try:
            read = documents(file.read_text(encoding="utf-8"), str(file))
        except UnreadableManifest as error:
            raise self._no_kubeconfig(file, f"{error.message}; {remedy}") from error
        except (OSError, ValueError) as error:
            raise self._no_kubeconfig(file, f"{reason(error)}; {remedy}") from error
        if len(read) != 1 or not isinstance(read[0], dict):
            raise self._no_kubeconfig(file, f"does not hold one object; {remedy}")
        return dict(read[0])

    def _no_kubeconfig(self, file: Path | str, why: str) -> NoConnection:
        return NoConnection(f"{file}: is not a kubeconfig with a {self._which}: {why}")


def reason(error: OSError | ValueError) -> str:
    """Return why a file cannot be read or used, as part of an error line."""
    if isinstance(error, ssl.SSLError):
        return f"TLS cannot use it ({(error.reason or 'damaged').replace('_', ' ').lower()})"
    if isinstance(error, UnicodeDecodeError):
        return "is not UTF-8 text"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return str(error)
