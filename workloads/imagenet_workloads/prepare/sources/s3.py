"""The kind `s3`: archives in a bucket, in place or from a cache, or images below a prefix."""

from argparse import Namespace
from collections.abc import Callable, Sequence
from functools import partial

from imagenet_workloads.clients.s3 import AT_ONCE, Bucket, address_of, open_bucket
from imagenet_workloads.errors import InputError
from imagenet_workloads.fields import Fields
from imagenet_workloads.prepare.containers import parquet
from imagenet_workloads.prepare.containers.folder import (
    S3FlatFolder,
    S3Folder,
    planned_prefix,
)
from imagenet_workloads.prepare.entry_names import join
from imagenet_workloads.prepare.layouts import choice as choices
from imagenet_workloads.prepare.layouts import devkit
from imagenet_workloads.prepare.layouts.decided import DecidedSource
from imagenet_workloads.prepare.layouts.splits import parquet_names_to_read
from imagenet_workloads.prepare.source import Source, Validation
from imagenet_workloads.prepare.sources.cache import (
    CachedFiles,
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
    is_one_of_several,
    open_archives,
    open_planned_archives,
    open_remote,
    open_remote_planned,
    open_remote_validation,
)
from imagenet_workloads.prepare.stores.blob import Blob, LabelFile
from imagenet_workloads.prepare.stores.remote import MOST_REQUESTS, Limit, RemoteBlob, RemoteFiles
from imagenet_workloads.prepare.stores.s3 import S3Blob, label_object

_VALIDATION = "--s3-validation"
_ARCHIVES = (".tar", ".zip", parquet.SUFFIX)


class S3Kind(RemoteKind):
    """Objects of a bucket."""

    name = "s3"
    options = "--s3-bucket"
    planned_as = (S3Folder.kind, S3FlatFolder.kind, *KINDS_OF_SEVERAL, *KINDS)

    def is_given(self, parsed: Namespace) -> bool:
        return parsed.s3_bucket is not None

    def mistake(self, parsed: Namespace) -> str | None:
        given = (parsed.s3_key, parsed.s3_keys or None, parsed.s3_prefix)
        if self.is_given(parsed) and sum(one is not None for one in given) != 1:
            return "give either --s3-key, --s3-keys or --s3-prefix"
        if len(set(map(_name, parsed.s3_keys))) < len(parsed.s3_keys):
            return "each of --s3-keys needs another last part"
        if parsed.s3_path_in_archive is not None and parsed.s3_key is None:
            return "--s3-path-in-archive goes with --s3-key"
        if parsed.s3_bounding_boxes and not self.is_given(parsed):
            return "--s3-bounding-boxes goes with --s3-bucket"
        if parsed.s3_validation is None and parsed.s3_labels is not None:
            return "--s3-labels goes with --s3-validation"
        return None

    def open(self, parsed: Namespace) -> Source:
        files, most = None, parsed.s3_max_requests
        if parsed.s3_keys:
            files = _files(parsed, sorted(map(_name, parsed.s3_keys)))
        elif parsed.s3_prefix is not None and parsed.cache is not None:
            files = _cached_prefix(parsed).open_listed()[1]
        elif parsed.s3_prefix is not None and (names := _listed(parsed)):
            files = _files(parsed, names)
        if files is not None:
            return open_archives(files, most, S3Blob.cache_field, choices.of(parsed))
        if parsed.s3_prefix is not None:
            listing = _listing(_bucket(parsed), parsed.s3_prefix)
            source = DecidedSource(listing, choices.of(parsed))
            source.limit = Limit(most or MOST_REQUESTS, S3Blob.cache_field, is_loose=True)
            return source
        blob = _blob(parsed, parsed.s3_key)
        return open_remote(blob, parsed.s3_path_in_archive, most, choices.of(parsed))

    def open_validation(self, parsed: Namespace) -> Validation | None:
        if parsed.s3_validation is None:
            return None
        labels = None if parsed.s3_labels is None else _label_file(parsed, parsed.s3_labels)
        path: str = parsed.s3_validation
        if parsed.cache is not None or path.endswith(_ARCHIVES):
            blob = _blob(parsed, path)
            return Validation(open_remote_validation(blob, labels is not None, _VALIDATION), labels)
        bucket = _bucket(parsed)
        source: Source = (
            DecidedSource(_listing(bucket, path), choices.VALIDATION_ALONE)
            if labels is None
            else S3FlatFolder(bucket, path)
        )
        source.plan_fields = {"option": _VALIDATION}
        return Validation(source, labels)

    def class_words(self, parsed: Namespace) -> LabelFile | None:
        key = parsed.s3_class_words
        return None if key is None else _label_file(parsed, key)

    def bounding_boxes(self, parsed: Namespace) -> Sequence[Callable[[], Blob]]:
        return [partial(_blob, parsed, key) for key in parsed.s3_bounding_boxes]

    def open_planned(self, planned: Fields, parsed: Namespace) -> Source:
        kind = planned.text("kind")
        is_validation = is_of_option(planned, _VALIDATION)
        path = parsed.s3_validation if is_validation else parsed.s3_key or parsed.s3_prefix
        if kind in KINDS_OF_SEVERAL and not is_validation and parsed.s3_key is None:
            if parsed.s3_prefix is None or parsed.cache is None:
                files = _files(parsed, sorted(map(_name, parsed.s3_keys)))
            else:
                files = _cached_prefix(parsed).open_planned()
            return open_planned_archives(planned, files)
        if path is None:
            raise InputError(f"{_VALIDATION} is missing: the plan needs its images")
        if kind in (S3Folder.kind, S3FlatFolder.kind):
            within = planned.text("within") if planned.has("within") else ""
            return planned_prefix(_bucket(parsed), join(path.strip("/"), within), kind)
        inside = None if is_validation else parsed.s3_path_in_archive
        return open_remote_planned(planned, _blob(parsed, path), inside)

    def files_to_fetch(self, parsed: Namespace) -> Sequence[FileToFetch]:
        """The archives, labels, the meta.mat beside them, words, boxes; the list of a prefix."""
        bucket = _bucket(parsed)
        given = (parsed.s3_key, *parsed.s3_keys, parsed.s3_validation)
        archives = [one for one in given if one is not None]
        files = [] if parsed.s3_labels is None else [parsed.s3_labels]
        if files and label_object(bucket, parsed.s3_labels).beside(devkit.META) is not None:
            files.append(join(_folder(parsed.s3_labels), devkit.META))
        files += [] if parsed.s3_class_words is None else [parsed.s3_class_words]
        files += parsed.s3_bounding_boxes
        checksums = {parsed.s3_key: parsed.s3_checksum or ""}
        found = [
            FileToFetch(
                _name(key),
                _entry(parsed, key),
                key in archives,
                checksums.get(key, ""),
                partial(S3Blob, bucket, key),
            )
            for key in dict.fromkeys((*archives, *files))
        ]
        if parsed.s3_prefix is None:
            return found
        names = _listed(parsed)
        if not names:
            raise InputError(
                f"{address_of(parsed.s3_bucket, parsed.s3_prefix)}: only archives are stored, and "
                "it has none, or folders beside them; remove cache, or write another prefix"
            )
        checksums = dict.fromkeys(parquet_names_to_read(names) or names, "")

        def open_file(name: str) -> S3Blob:
            return S3Blob(bucket, join(parsed.s3_prefix.strip("/"), name))

        return [*found, *_cached_prefix(parsed).to_fetch(checksums, open_file)]


def _blob(parsed: Namespace, key: str) -> RemoteBlob:
    """An object of the bucket, or its copy in the cache."""
    return S3Blob(_bucket(parsed), key) if parsed.cache is None else _entry(parsed, key).open()


def _listed(parsed: Namespace) -> Sequence[str]:
    """The archives directly below --s3-prefix; none if class folders are there."""
    folders, objects = _bucket(parsed).folders(parsed.s3_prefix.strip("/"))
    names = [_name(one.key) for one in objects if is_one_of_several(_name(one.key))]
    # As on a volume, class folders count whatever is beside them.
    has_folders = any(not _name(folder.rstrip("/")).startswith(".") for folder in folders)
    return () if has_folders else names


def _cached_prefix(parsed: Namespace) -> CachedFiles:
    # The slash tells the prefix from an object of the same name.
    where = address_of(parsed.s3_bucket, parsed.s3_prefix.strip("/")).rstrip("/") + "/"
    return CachedFiles(cache_entry(parsed.cache, "prefix", where, parsed.s3_endpoint or ""))


def _files(parsed: Namespace, names: Sequence[str]) -> RemoteFiles:
    """Archives by the last parts of their keys."""
    keys = {_name(key): key for key in parsed.s3_keys}
    prefix = (parsed.s3_prefix or "").strip("/")

    def open_blob(name: str) -> RemoteBlob:
        return _blob(parsed, keys.get(name) or join(prefix, name))

    where = address_of(parsed.s3_bucket, prefix).rstrip("/")
    return RemoteFiles(where, names, open_blob, AT_ONCE if parsed.cache is None else 1)


def _label_file(parsed: Namespace, key: str) -> LabelFile:
    if parsed.cache is None:
        return label_object(_bucket(parsed), key)
    return cached_labels(_entry(parsed, key), lambda name: _entry(parsed, join(_folder(key), name)))


def _entry(parsed: Namespace, key: str) -> CacheEntry:
    where = address_of(parsed.s3_bucket, key)
    return cache_entry(parsed.cache, _name(key), where, parsed.s3_endpoint or "")


def _name(key: str) -> str:
    return key.rpartition("/")[2]


def _folder(key: str) -> str:
    return key.rpartition("/")[0]


def _listing(bucket: Bucket, prefix: str) -> S3Folder:
    """The images of a prefix; in Kaggle's tree, files of labels may lie above it."""
    parts = [part for part in prefix.split("/") if part]
    above = len(parts) - devkit.kaggle_root(parts)
    return S3Folder(bucket, "/".join(parts[:above]), "/".join(parts[above:]))


def _bucket(parsed: Namespace) -> Bucket:
    return open_bucket(parsed.s3_bucket, parsed.s3_endpoint, parsed.s3_region)
