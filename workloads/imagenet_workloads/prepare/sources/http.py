"""The kind `http`: archives on a server, read in place by ranges of bytes, or from a cache.

One file has the images with classes, or a folder has one archive for each class or shard. Another
file may have validation images, whose label file is a third.
"""

import re
from argparse import Namespace
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from pathlib import Path

from imagenet_spec.program import sources as options
from imagenet_workloads.clients.credentials import Credentials
from imagenet_workloads.clients.http import AT_ONCE, Address, HttpClient, Login
from imagenet_workloads.errors import InputError
from imagenet_workloads.fields import Fields
from imagenet_workloads.prepare.layouts import choice as choices
from imagenet_workloads.prepare.source import Source, Validation
from imagenet_workloads.prepare.sources.cache import (
    CacheEntry,
    FileToFetch,
    cache_entry,
    cached_labels,
)
from imagenet_workloads.prepare.sources.kind import RemoteKind
from imagenet_workloads.prepare.sources.opening import (
    KINDS,
    KINDS_OF_SEVERAL,
    is_of_option,
    open_archives,
    open_planned_archives,
    open_remote,
    open_remote_planned,
    open_remote_validation,
)
from imagenet_workloads.prepare.stores.blob import Blob, LabelFile
from imagenet_workloads.prepare.stores.http import (
    CACHE_FIELD,
    HttpBlob,
    ServedFile,
    download,
    open_to_fetch,
    served_labels,
)
from imagenet_workloads.prepare.stores.remote import RemoteBlob, RemoteFiles

USERNAME, PASSWORD = "username", "password"

_VALIDATION = "--http-validation"
MOST_NAMES = 100_000
_RANGE = re.compile(r"([^{}]*)\{(\d{1,9})\.\.(\d{1,9})\}([^{}]*)")


class HttpKind(RemoteKind):
    """Files under URLs; the layouts are those of archives on a volume."""

    name = "http"
    options = "--http-files"
    planned_as = (*KINDS, *KINDS_OF_SEVERAL)

    def is_given(self, parsed: Namespace) -> bool:
        return bool(parsed.http_files or parsed.http_folder)

    def mistake(self, parsed: Namespace) -> str | None:
        names = {file.name for file in parsed.http_files}
        chosen = (
            *(parsed.http_archive, parsed.http_validation),
            *(parsed.http_labels, parsed.http_class_words),
            *parsed.http_bounding_boxes,
        )
        for name in filter(None, chosen):
            if name not in names:
                return f"{name} is no name in --http-files"
        if len(names) < len(parsed.http_files):
            return "each of --http-files needs another name"
        if (parsed.http_folder is None) != (not parsed.http_name):
            return "--http-folder and --http-name go together"
        if parsed.http_folder is not None:
            if parsed.http_archive is not None or parsed.http_path_in_archive is not None:
                return "--http-archive and --http-path-in-archive do not go with --http-folder"
            below = expanded_names(parsed.http_name)
            if below is None:
                return (
                    "--http-name: write different names, such as x-{000..127}.tar, 100,000 at most"
                )
            if not names.isdisjoint(below):
                return "each of --http-files needs another name than those in --http-folder"
        if parsed.http_validation is None and parsed.http_labels is not None:
            return "--http-labels goes with --http-validation"
        return None

    def open(self, parsed: Namespace) -> Source:
        name = _archive(parsed)
        if name is None:
            most = parsed.http_max_requests
            return open_archives(_folder(parsed), most, CACHE_FIELD, choices.of(parsed))
        blob = _files(parsed).blob(name)
        within, most = parsed.http_path_in_archive, parsed.http_max_requests
        return open_remote(blob, within, most, choices.of(parsed))

    def open_validation(self, parsed: Namespace) -> Validation | None:
        if parsed.http_validation is None:
            return None
        files = _files(parsed)
        labels = None
        if parsed.http_labels is not None:
            archives = {*_archives(parsed), *parsed.http_bounding_boxes}
            labels = files.labels(parsed.http_labels, archives)
        blob = files.blob(parsed.http_validation)
        source = open_remote_validation(blob, labels is not None, _VALIDATION)
        return Validation(source, labels)

    def class_words(self, parsed: Namespace) -> LabelFile | None:
        name = parsed.http_class_words
        if name is None:
            return None
        others = {file.name for file in _all_files(parsed)} - {name}
        return _files(parsed).labels(name, others)

    def bounding_boxes(self, parsed: Namespace) -> Sequence[Callable[[], Blob]]:
        def blob(name: str) -> Blob:
            return _files(parsed).blob(name)

        return [partial(blob, name) for name in parsed.http_bounding_boxes]

    def open_planned(self, planned: Fields, parsed: Namespace) -> Source:
        is_validation = is_of_option(planned, _VALIDATION)
        if parsed.http_folder is not None and not is_validation:
            return open_planned_archives(planned, _folder(parsed))
        name = parsed.http_validation if is_validation else _archive(parsed)
        if name is None:
            raise InputError(f"{_VALIDATION} is missing: the plan needs its images")
        within = None if is_validation else parsed.http_path_in_archive
        return open_remote_planned(planned, _files(parsed).blob(name), within)

    def files_to_fetch(self, parsed: Namespace) -> Sequence[FileToFetch]:
        return _Files(parsed).to_fetch(parsed.cache, _archives(parsed))


def _archives(parsed: Namespace) -> set[str | None]:
    """The names of the archives of images."""
    return {_archive(parsed), parsed.http_validation, *_names(parsed)}


def _folder(parsed: Namespace) -> RemoteFiles:
    at_once = AT_ONCE if parsed.cache is None else 1
    where = parsed.http_folder.rstrip("/")
    return RemoteFiles(where, _names(parsed), _files(parsed).blob, at_once)


def _names(parsed: Namespace) -> Sequence[str]:
    return expanded_names(parsed.http_name) or ()


def _all_files(parsed: Namespace) -> list[options.ServedFile]:
    below = (
        options.ServedFile(name=name, url=parsed.http_folder + name) for name in _names(parsed)
    )
    return [*parsed.http_files, *below]


def _files(parsed: Namespace) -> "_Files | _CachedFiles":
    return _Files(parsed) if parsed.cache is None else _CachedFiles(parsed)


class _Files:
    """The files of the options, with their login."""

    def __init__(self, parsed: Namespace) -> None:
        credentials = Credentials()
        given = _all_files(parsed)
        queries = {one.name: credentials.read(one.query_key) for one in given if one.query_key}
        self._files = {
            one.name: ServedFile(
                one.name,
                Address(one.url, queries.get(one.name, "").lstrip("?")),
                one.size_bytes,
                one.checksum,
            )
            for one in given
        }
        keys = (USERNAME, PASSWORD)
        # A Secret with the queries of signed URLs needs no login.
        is_given = credentials.are_given and (not queries or any(map(credentials.has, keys)))
        login = Login(*(credentials.read(key) for key in keys)) if is_given else None
        self._client = HttpClient(login)

    def blob(self, name: str) -> HttpBlob:
        """A file to read by ranges; its `close` ends the connections of all."""
        return HttpBlob(self._files[name], self._client)

    def to_fetch(self, cache: Path, archives: Collection[str | None]) -> list[FileToFetch]:
        return [
            FileToFetch(
                file.name,
                cache_entry(cache, file.name, file.address.url),
                file.name in archives,
                file.checksum or "",
                partial(open_to_fetch, file, self._client),
            )
            for file in self._files.values()
        ]

    def labels(self, name: str, archives: Collection[str | None]) -> LabelFile:
        """A label file; it and all files besides the archives are read as a whole."""
        contents = {
            file.name: download(file, self._client)
            for file in self._files.values()
            if file.name not in archives
        }
        return served_labels(name, self._files, contents)


class _CachedFiles:
    """The files of the options, in a cache; their login is not needed."""

    def __init__(self, parsed: Namespace) -> None:
        self._entries = {
            one.name: cache_entry(parsed.cache, one.name, one.url) for one in _all_files(parsed)
        }

    def blob(self, name: str) -> RemoteBlob:
        return self._entries[name].open()

    def labels(self, name: str, archives: Collection[str | None]) -> LabelFile:
        """A label file; further files besides the archives are beside it."""

        def beside(other: str) -> CacheEntry | None:
            return None if other in archives else self._entries.get(other)

        return cached_labels(self._entries[name], beside)


def _archive(parsed: Namespace) -> str | None:
    """The file with the classes; None if they are in a folder."""
    if parsed.http_folder is not None:
        return None
    name: str = parsed.http_archive or parsed.http_files[0].name
    return name


def expanded_names(names: Iterable[str]) -> list[str] | None:
    """All names, sorted; None if one has a wrong range or comes twice, or if they are too many.

    A name has one range of numbers at most, of as many digits as its first number has.
    """
    found: list[str] = []
    for name in names:
        match = _RANGE.fullmatch(name)
        if match is None:
            if {"{", "}"} & set(name):
                return None
            found.append(name)
            continue
        start, first, last, end = match.groups()
        count = int(last) - int(first) + 1
        if not 0 < count <= MOST_NAMES - len(found):
            return None
        width = len(first)
        found += [f"{start}{int(first) + one:0{width}}{end}" for one in range(count)]
    return sorted(found) if len(set(found)) == len(found) <= MOST_NAMES else None
