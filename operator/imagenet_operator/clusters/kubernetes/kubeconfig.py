"""A kubeconfig, read field by field: whatever is wrong with one is said with its file and field.

People edit it, programs write into it, and the files that it names move away. So each value is
looked at where it is taken, and nobody after that meets one that is not what it should be.
"""

import base64
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from imagenet_operator.api.load import documents
from imagenet_operator.errors import ImageNetJobError, UnreadableManifest


class NoConnection(ImageNetJobError):  # noqa: N818 - says what there is not
    """Nothing says where the API server is, or what does cannot be used."""

    def __init__(self, text: str) -> None:
        # The names in a kubeconfig may be anything, and a line has to stay one.
        super().__init__("".join(char if char.isprintable() else repr(char)[1:-1] for char in text))


_CONTENTS = {
    "contexts": "write its cluster and user",
    "clusters": "write its server",
    "users": "write a client certificate or a token, or {} to log in as nobody",
}
"""What to write where an object of a list is left out."""


@dataclass(frozen=True)
class Content:
    """What a field holds, or the file that it names.

    Attributes:
        place: What to call it in errors: the kubeconfig, the field, the file.
        data: The content.
    """

    place: str
    data: bytes


@dataclass(frozen=True)
class Fields:
    """An object of a kubeconfig.

    Attributes:
        file: The kubeconfig.
        name: Of the object, with a dot behind it; empty for the file as a whole.
        values: What it holds.
    """

    file: Path
    name: str
    values: dict[str, Any]

    def place(self, field: str) -> str:
        """Return what to call a field in errors."""
        return f"{self.file}: {self.name}{field}"

    def text(self, field: str) -> str | None:
        """Return a text; None if there is none, or an empty one, which means the same."""
        value = self.values.get(field)
        if value is None or value == "":
            return None
        if not isinstance(value, str):
            raise NoConnection(f"{self.place(field)}: is not text; write it in quotes")
        return value

    def path(self, field: str) -> Path | None:
        """Return a path, which may be relative to the kubeconfig; None if there is none."""
        text = self.text(field)
        return None if text is None else self.file.parent / text

    def content(self, field: str) -> Content | None:
        """Return what stands in ``FIELD-data``, or in the file that ``FIELD`` names."""
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
    """One file.

    Args:
        file: Its path.
        which: What is looked for in it, for errors: its current context, or another.

    Raises:
        NoConnection: It cannot be read, or is something else.
    """

    def __init__(self, file: Path, which: str) -> None:
        self._file = file
        self._which = which
        self.top = Fields(file, "", self._read())

    def names(self, part: str) -> list[str]:
        """Return the names in a list, such as ``contexts``."""
        return list(self._items(part))

    def named(self, part: str, name: str) -> Fields:
        """Return the object that has a name which is in a list: a context, a cluster, a user."""
        kind = part.removesuffix("s")
        values = self._items(part)[name].get(kind)
        if not isinstance(values, dict):
            what = "is empty" if values is None else "is no object"
            raise NoConnection(f"{self._file}: {part}[{name}].{kind}: {what}; {_CONTENTS[part]}")
        return Fields(self._file, f"{part}[{name}].{kind}.", values)

    def referred(self, fields: Fields, field: str, part: str) -> Fields:
        """Return the object of a list that a field names."""
        name, known = fields.text(field), self.names(part)
        if name is None or name not in known:
            what = "is missing" if name is None else f"{name!r} is not among the {part}"
            raise NoConnection(f"{fields.place(field)}: {what}; write one of {', '.join(known)}")
        return self.named(part, name)

    def _items(self, part: str) -> dict[str, dict[str, Any]]:
        listed = self.top.values.get(part)
        items: dict[str, dict[str, Any]] = {}
        for item in listed if isinstance(listed, list) else ():
            if isinstance(item, dict) and isinstance(item.get("name"), str):
                items.setdefault(item["name"], item)
        if not items:
            kind = part.removesuffix("s")
            raise self._no_kubeconfig(
                f"{part}: is no list of {part}; write one of objects with name and {kind}"
            )
        return items

    def _read(self) -> dict[str, Any]:
        remedy = "set KUBECONFIG to the path of one"
        try:
            read = documents(self._file.read_text(encoding="utf-8"), str(self._file))
        except UnreadableManifest as error:
            raise self._no_kubeconfig(f"{error.message}; {remedy}") from error
        except (OSError, ValueError) as error:
            raise self._no_kubeconfig(f"{reason(error)}; {remedy}") from error
        if len(read) != 1 or not isinstance(read[0], dict):
            raise self._no_kubeconfig(f"does not hold one object; {remedy}")
        return dict(read[0])

    def _no_kubeconfig(self, why: str) -> NoConnection:
        return NoConnection(f"{self._file}: is no kubeconfig with a {self._which}: {why}")


def reason(error: OSError | ValueError) -> str:
    """Return why a file cannot be read or used, in the words of an error line."""
    if isinstance(error, ssl.SSLError):
        return f"TLS cannot use it ({(error.reason or 'damaged').replace('_', ' ').lower()})"
    if isinstance(error, UnicodeDecodeError):
        return "is not UTF-8 text"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return str(error)
