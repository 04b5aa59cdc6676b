"""The list of the files that imagenet-fetch found on a server, as one more file in the cache.

It is fetched last. So index finds all files of the list in the cache, and asks no server for them.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from imagenet_workloads.fields import Fields
from imagenet_workloads.prepare.sources.cache import FileToFetch, Place
from imagenet_workloads.prepare.sources.remote import Version

_NAME = "files.json"


def list_to_fetch(
    place: Place,
    document: Mapping[str, Any],
    former: Callable[[], Iterable[Path]] = tuple,
) -> FileToFetch:
    """The list, which must be the last file of a fetch.

    Args:
        place: of the list.
        document: the list, as JSON values.
        former: as in `FileToFetch`.
    """
    content = json.dumps(document).encode()
    return FileToFetch(_NAME, place, False, "", lambda: _List(place.where, content), former)


def read_list(place: Place) -> Fields:
    """Reads the list for index.

    Raises:
        InputError: it is not in the cache, or damaged.
    """
    with closing(place.open()) as file:
        text = file.read(0, file.size).decode(errors="replace")
    return Fields.parse(text, str(place.folder))


class _List:
    """The list before it is stored, as a `RemoteBlob`."""

    at_once = 1
    cache_field = ""

    def __init__(self, where: str, content: bytes) -> None:
        self.where = where
        self.size = len(content)
        self.version = Version(where, self.size, hashlib.sha256(content).hexdigest())
        self._content = content

    def read(self, offset: int, size: int) -> bytes:
        """The bytes of a range."""
        return self._content[offset : offset + size]

    def close(self) -> None:
        """Closes nothing."""
