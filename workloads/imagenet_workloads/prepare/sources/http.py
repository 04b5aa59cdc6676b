"""The kind `http`: archives on a server, read in place by ranges of bytes, or from a cache.

One file has the images with classes, or a folder has one archive for each class or shard. Another
file may have validation images, whose label file is a third.
"""

import re
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from imagenet_spec.program import kinds
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
from imagenet_workloads.prepare.sources.kind import (
    RemoteKind,
    add_max_requests,
    add_words_and_boxes,
)
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
_CHECKSUM = re.compile(r"sha256:[0-9a-f]{64}|md5:[0-9a-f]{32}")
_PAIRS = {
    "--http-size": ("BYTES", "the file's size"),
    "--http-checksum": (
        "CHECKSUM",
        "sha256:DIGITS or md5:DIGITS of a label file or a fetched file",
    ),
    "--http-query-key": ("KEY", "the key of the Secret with the query of the file's URL"),
}
MOST_NAMES = 100_000
_RANGE = re.compile(r"([^{}]*)\{(\d{1,9})\.\.(\d{1,9})\}([^{}]*)")


class HttpKind(RemoteKind):
    """Files under URLs; the layouts are those of archives on a volume."""

    name = "http"
    options = "--http-file"
    planned_as = (*KINDS, *KINDS_OF_SEVERAL)

    def add_index_options(self, parser: ArgumentParser) -> None:
        """Adds --http-file and what describes the files."""
        group = parser.add_argument_group(
            "images on a server", "The login is in $IMAGENET_CREDENTIALS/username and /password."
        )
        self.add_reading_options(group.add_argument)
        add_max_requests(group.add_argument, "http")
        group.add_argument(
            "--http-labels",
            type=kinds.text,
            metavar="NAME",
            help="the file with the labels of --http-validation (default: its folders are classes)",
        )
        add_words_and_boxes(group.add_argument, "http", "NAME")

    def add_reading_options(self, add_argument: Any) -> None:
        """Adds the options by which both programs open the images."""
        pair: Mapping[str, Any] = {"nargs": 2, "action": "append", "type": kinds.text}
        add_argument(
            "--http-file",
            metavar=("NAME", "URL"),
            help="a file, and the name by which other options refer to it; may be repeated",
            **pair,
        )
        for option, (value, help) in _PAIRS.items():
            add_argument(option, metavar=("NAME", value), help=help, **pair)
        add_argument(
            "--http-archive",
            type=kinds.text,
            metavar="NAME",
            help="the file with the classes: a tar or zip of class archives, or of class folders "
            "(default: the first file)",
        )
        _add_folder_options(add_argument)
        add_argument(
            "--http-path-in-archive",
            type=kinds.text,
            metavar="PATH",
            help="the folder or archive in --http-archive that holds the classes",
        )
        add_argument(
            "--http-validation",
            type=kinds.text,
            metavar="NAME",
            help="the file with the validation images: flat, as ILSVRC2012_img_val.tar, or an "
            "archive of class folders",
        )

    def is_given(self, parsed: Namespace) -> bool:
        """Whether --http-file or --http-folder is given."""
        return (parsed.http_file or parsed.http_folder) is not None

    def mistake(self, parsed: Namespace) -> str | None:
        """Names must be of files, and validation images need labels and exclude a drawn split."""
        names = {name for name, _ in parsed.http_file or ()}
        named = [*(getattr(parsed, _field(option)) or () for option in _PAIRS)]
        chosen = (
            *(parsed.http_archive, parsed.http_validation),
            *(parsed.http_labels, parsed.http_class_words),
            *(parsed.http_bounding_boxes or ()),
        )
        for name in (*(pair[0] for pairs in named for pair in pairs), *filter(None, chosen)):
            if name not in names:
                return f"{name} is no name of an --http-file"
        if len(names) < len(parsed.http_file or ()):
            return "each --http-file needs another name"
        if mistake := _mistake_of_values(parsed) or _mistake_of_folder(parsed):
            return mistake
        if parsed.http_validation is None and parsed.http_labels is not None:
            return "--http-labels goes with --http-validation"
        if parsed.http_validation is not None and parsed.validation_per_class is not None:
            return "give either --validation-per-class or --http-validation, not both"
        return None

    def open(self, parsed: Namespace) -> Source:
        """Looks for the layout of the archives."""
        name = _archive(parsed)
        if name is None:
            most = parsed.http_max_requests
            return open_archives(_folder(parsed), most, CACHE_FIELD, choices.of(parsed))
        blob = _files(parsed).blob(name)
        within, most = parsed.http_path_in_archive, parsed.http_max_requests
        return open_remote(blob, within, most, choices.of(parsed))

    def open_validation(self, parsed: Namespace) -> Validation | None:
        """Opens the validation images, and reads their labels and the files beside them."""
        if parsed.http_validation is None:
            return None
        files = _files(parsed)
        labels = None
        if parsed.http_labels is not None:
            archives = {*_archives(parsed), *(parsed.http_bounding_boxes or ())}
            labels = files.labels(parsed.http_labels, archives)
        blob = files.blob(parsed.http_validation)
        source = open_remote_validation(blob, labels is not None, _VALIDATION)
        return Validation(source, labels)

    def class_words(self, parsed: Namespace) -> LabelFile | None:
        """Reads the file of words."""
        name = parsed.http_class_words
        return None if name is None else _files(parsed).words(name)

    def bounding_boxes(self, parsed: Namespace) -> Sequence[Callable[[], Blob]]:
        """The files with annotations."""
        names = parsed.http_bounding_boxes or ()
        return [partial(_open_blob, parsed, name) for name in names]

    def open_planned(self, planned: Fields, parsed: Namespace) -> Source:
        """Opens an archive of the plan, which must not have changed."""
        is_validation = is_of_option(planned, _VALIDATION)
        if parsed.http_folder is not None and not is_validation:
            return open_planned_archives(planned, _folder(parsed))
        name = parsed.http_validation if is_validation else _archive(parsed)
        if name is None:
            raise InputError(f"{_VALIDATION} is missing: the plan needs its images")
        within = None if is_validation else parsed.http_path_in_archive
        return open_remote_planned(planned, _files(parsed).blob(name), within)

    def files_to_fetch(self, parsed: Namespace) -> Sequence[FileToFetch]:
        """All files, those of the folder too."""
        return _Files(parsed).to_fetch(parsed.cache, _archives(parsed))


def _archives(parsed: Namespace) -> set[str | None]:
    """The names of the archives of images."""
    return {_archive(parsed), parsed.http_validation, *_names(parsed)}


def _open_blob(parsed: Namespace, name: str) -> Blob:
    return _files(parsed).blob(name)


def _folder(parsed: Namespace) -> RemoteFiles:
    """The archives of --http-folder."""
    at_once = AT_ONCE if parsed.cache is None else 1
    where = parsed.http_folder.rstrip("/")
    return RemoteFiles(where, _names(parsed), _files(parsed).blob, at_once)


def _names(parsed: Namespace) -> Sequence[str]:
    """The names of the archives of --http-folder."""
    return expanded_names(parsed.http_name or ()) or ()


def _addresses(parsed: Namespace) -> list[tuple[str, str]]:
    """Name and URL of each file."""
    below = [(name, parsed.http_folder + name) for name in _names(parsed)]
    return [*(parsed.http_file or ()), *below]


def _files(parsed: Namespace) -> "_Files | _CachedFiles":
    return _Files(parsed) if parsed.cache is None else _CachedFiles(parsed)


class _Files:
    """The files of the options, with their login."""

    def __init__(self, parsed: Namespace) -> None:
        credentials = Credentials()
        queries = {name: credentials.read(key) for name, key in parsed.http_query_key or ()}
        sizes = {name: int(size) for name, size in parsed.http_size or ()}
        checksums = dict(parsed.http_checksum or ())
        self._files = {
            name: ServedFile(
                name,
                Address(url, queries.get(name, "").lstrip("?")),
                sizes.get(name),
                checksums.get(name),
            )
            for name, url in _addresses(parsed)
        }
        self._client = HttpClient(_login(credentials, bool(queries)))

    def blob(self, name: str) -> HttpBlob:
        """A file to read by ranges; its `close` ends the connections of all."""
        return HttpBlob(self._files[name], self._client)

    def to_fetch(self, cache: Path, archives: Collection[str | None]) -> list[FileToFetch]:
        """All files, for a cache."""
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

    def words(self, name: str) -> LabelFile:
        """A file of words, which is read as a whole."""
        contents = {name: download(self._files[name], self._client)}
        return served_labels(name, self._files, contents)


class _CachedFiles:
    """The files of the options, in a cache; their login is not needed."""

    def __init__(self, parsed: Namespace) -> None:
        addresses = _addresses(parsed)
        self._entries = {name: cache_entry(parsed.cache, name, url) for name, url in addresses}

    def blob(self, name: str) -> RemoteBlob:
        """The content of a file."""
        return self._entries[name].open()

    def labels(self, name: str, archives: Collection[str | None]) -> LabelFile:
        """A label file; further files besides the archives are beside it."""

        def beside(other: str) -> CacheEntry | None:
            return None if other in archives else self._entries.get(other)

        return cached_labels(self._entries[name], beside)

    def words(self, name: str) -> LabelFile:
        """A file of words."""
        return cached_labels(self._entries[name], lambda _: None)


def _login(credentials: Credentials, has_queries: bool) -> Login | None:
    """The login; a Secret with the queries of signed URLs needs none."""
    keys = (USERNAME, PASSWORD)
    if not credentials.are_given or (has_queries and not any(map(credentials.has, keys))):
        return None
    return Login(*(credentials.read(key) for key in keys))


def _mistake_of_values(parsed: Namespace) -> str | None:
    for _, size in parsed.http_size or ():
        if not (size.isascii() and size.isdigit()):
            return f"--http-size: {size!r} is no number of bytes"
    for _, checksum in parsed.http_checksum or ():
        if not _CHECKSUM.fullmatch(checksum):
            return f"--http-checksum: {checksum!r} is neither sha256:DIGITS nor md5:DIGITS"
    return None


def _mistake_of_folder(parsed: Namespace) -> str | None:
    if (parsed.http_folder is None) != (parsed.http_name is None):
        return "--http-folder and --http-name go together"
    if parsed.http_folder is None:
        return None
    if parsed.http_archive is not None or parsed.http_path_in_archive is not None:
        return "--http-archive and --http-path-in-archive do not go with --http-folder"
    names = expanded_names(parsed.http_name)
    if names is None:
        return "--http-name: write different names, such as x-{000..127}.tar, 100,000 at most"
    if not {name for name, _ in parsed.http_file or ()}.isdisjoint(names):
        return "each --http-file needs another name than those in --http-folder"
    return None


def _archive(parsed: Namespace) -> str | None:
    """The file with the classes; None if they are in a folder."""
    if parsed.http_folder is not None:
        return None
    name: str = parsed.http_archive or parsed.http_file[0][0]
    return name


def _field(option: str) -> str:
    return option.removeprefix("--").replace("-", "_")


def _add_folder_options(add_argument: Any) -> None:
    add_argument(
        "--http-folder",
        type=kinds.text,
        metavar="URL",
        help="a folder with one archive for each class, or with shards of WebDataset; ends with /",
    )
    add_argument(
        "--http-name",
        type=kinds.text,
        action="append",
        metavar="NAME",
        help="an archive in --http-folder, or many, as train-{000..127}.tar; may be repeated",
    )


def expanded_names(names: Iterable[str]) -> list[str] | None:
    """All names, sorted; None if one has a wrong range or comes twice, or if they are too many.

    Args:
        names: each with one range of numbers at most, of as many digits as its first number has.
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
