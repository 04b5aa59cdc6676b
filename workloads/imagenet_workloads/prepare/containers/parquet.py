"""Parquet files with an image and a label column, as Hugging Face's datasets library writes them.

A file is read by row groups: index reads the labels, pack the images of the row groups that its
shard needs. An image has no place of its own in a file: its `offset` is its row. The image column
holds bytes, or a struct with `bytes`, as Hugging Face writes it. The label column holds names, or
numbers whose names are in Hugging Face's metadata.
"""

import hashlib
import json
import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from imagenet_workloads.errors import InputError
from imagenet_workloads.fields import Fields
from imagenet_workloads.prepare.source import Image, Location, Notes, Source, class_name_in
from imagenet_workloads.prepare.stores.blob import (
    Blob,
    BlobFile,
    FileSet,
    changed,
    map_in_order,
    readable,
)

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq


KIND = "Parquet"

SUFFIX = ".parquet"

MAGIC = b"PAR1"

# Row groups are megabytes: a few at a time use the network fully.
_MOST_AT_ONCE = 4

IMAGE_COLUMNS = ("image", "img", "jpg", "jpeg", "png", "webp")
LABEL_COLUMNS = ("label", "labels", "cls", "class", "class_name", "fine_label", "target")

_BYTES = "bytes"
# The bytes that are kept, beyond the row group that is in use.
MOST_BYTES = 512 << 20


@dataclass(frozen=True)
class ParquetFile:
    """The footer of a file.

    Attributes:
        starts: the first row of each row group.
        row_bytes: the mean bytes of a row.
        image: the path of the column of images.
        label: the column of labels.
        class_names: of the labels, if they are numbers; empty if these have no names.
    """

    where: str
    starts: Sequence[int]
    row_bytes: int
    metadata: "pq.FileMetaData"
    image: str
    label: str
    class_names: tuple[str, ...]

    @property
    def groups(self) -> int:
        return len(self.starts)

    def rows(self, group: int) -> int:
        return int(self.metadata.row_group(group).num_rows)

    def labels(self, group: int, blob: Blob) -> list[str]:
        """The classes of a row group; an `InputError` if an image has none."""
        with explained(self.where):
            values = self._column(group, self.label, blob).to_pylist()
        return [self._class_of(value, row) for row, value in enumerate(values, self.starts[group])]

    def images(self, group: int, blob: Blob) -> "pa.ChunkedArray":
        """The images of a row group, each as bytes or null."""
        import pyarrow.compute as pc

        with explained(self.where):
            column = self._column(group, self.image, blob)
            if self.image.endswith(f".{_BYTES}"):
                column = pc.struct_field(column, _BYTES)
        if len(column) and column.null_count == len(column):
            raise InputError(
                f"{self.where}: row group {group} has no images, perhaps only their paths; write "
                "the images into the file (push_to_hub, or embed_table_storage)"
            )
        return column

    def _column(self, group: int, path: str, blob: Blob) -> "pa.ChunkedArray":
        import pyarrow.parquet as pq

        # Buffered before, a column is read by a thread of pyarrow, which aborts the program if
        # Python ends while it still holds the file. So this thread reads it, also as one range.
        file = pq.ParquetFile(_as_file(blob), metadata=self.metadata, pre_buffer=False)
        column = file.read_row_group(group, columns=[path], use_threads=False).column(0)
        if len(column) != self.rows(group):
            raise _damaged(self.where, f"row group {group} has {len(column)} rows of {path}")
        return column

    def _class_of(self, value: Any, row: int) -> str:
        if isinstance(value, bytes):
            value = value.decode("utf-8", "surrogateescape")
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, str) and value:
            if self.class_names and value not in self.class_names:
                raise InputError(
                    f"{self.where}: row {row} has the {self.label} {readable(value)}, which is "
                    f"none of the {len(self.class_names)} class names in the metadata of the files"
                )
            return value
        if isinstance(value, int) and value >= 0:
            if not self.class_names:
                return str(value)
            if value < len(self.class_names):
                return self.class_names[value]
            many = f"its metadata names {len(self.class_names)} classes"
            raise InputError(f"{self.where}: row {row} has the {self.label} {value}, and {many}")
        raise InputError(
            f"{self.where}: row {row} has no class ({self.label} is {value!r}); leave out files "
            "without labels, such as those of a test split"
        )


def open_parquet(blob: Blob) -> ParquetFile:
    """Reads the footer of a file, and finds its columns.

    Raises:
        InputError: it is no Parquet file, or lacks a column of images or labels.
        OSError: it cannot be read.
    """
    try:
        import pyarrow.parquet as pq
    except ImportError as error:
        raise InputError(
            f"{blob.where}: reading Parquet needs pyarrow; type: pip install pyarrow ({error})"
        ) from None
    with explained(blob.where):
        file = pq.ParquetFile(_as_file(blob))
        schema, metadata = file.schema_arrow, file.metadata
        # The metadata of columns is not read: pyarrow ends the process if their statistics are
        # damaged.
        groups = range(metadata.num_row_groups)
        rows = [metadata.row_group(number).num_rows for number in groups]
        if min(rows, default=0) < 0:
            raise _damaged(blob.where, f"a row group has {min(rows)} rows")
        # Hugging Face's descriptions of the columns.
        text = (schema.metadata or {}).get(b"huggingface", b"{}")
        features: dict[str, Any] = {}
        with suppress(ValueError, KeyError, TypeError):
            described = json.loads(text)["info"]["features"]
            features = described if isinstance(described, dict) else {}
        label = _label_column(schema, features, blob.where)
        return ParquetFile(
            where=blob.where,
            starts=tuple(accumulate(rows, initial=0))[:-1],
            row_bytes=blob.size // max(1, sum(rows)),
            metadata=metadata,
            image=_image_column(schema, features, label, blob.where),
            label=label,
            class_names=_names(features.get(label)),
        )


def digest(blob: Blob) -> str:
    """A hash of a file's size and footer: of the sizes, places and statistics of all columns."""
    tail = blob.read(blob.size - 8, 8)
    length = int.from_bytes(tail[:4], "little")
    footer = blob.read(max(0, blob.size - 8 - length), length)
    return hashlib.sha256(b"%d\n" % blob.size + footer).hexdigest()


@contextmanager
def explained(where: str) -> Iterator[None]:
    """Puts errors of pyarrow, and of Python about what it read, in words, but none of the blob."""
    import pyarrow as pa

    try:
        yield
    except InputError:
        raise
    except (pa.ArrowException, LookupError, OSError, ValueError) as error:
        # An OSError of pyarrow has no number, unlike that of a file.
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise _damaged(where, str(error).partition("\n")[0]) from None


def _damaged(where: str, reason: str) -> InputError:
    return InputError(f"{where}: cannot be read as Parquet: {readable(reason)}")


def _as_file(blob: Blob) -> Any:
    import pyarrow as pa

    return pa.PythonFile(BlobFile(blob), mode="r")


def _names(feature: Any) -> tuple[str, ...]:
    names = feature.get("names") if isinstance(feature, dict) else None
    return tuple(map(str, names)) if isinstance(names, list) else ()


def _is_a(feature: Any, kind: str) -> bool:
    return isinstance(feature, dict) and feature.get("_type") == kind


def _is_binary(type: "pa.DataType") -> bool:
    import pyarrow.types as types

    tests = (types.is_binary, types.is_large_binary, types.is_binary_view)
    return any(test(type) for test in tests)


def _image_column(schema: "pa.Schema", features: dict[str, Any], label: str, where: str) -> str:
    import pyarrow.types as types

    found: dict[str, str] = {}
    for field in schema:
        if field.name == label:
            continue
        if _is_binary(field.type):
            found[field.name] = field.name
        elif types.is_struct(field.type) and any(
            one.name == _BYTES and _is_binary(one.type) for one in field.type
        ):
            found[field.name] = f"{field.name}.{_BYTES}"
    name = _chosen(found, [n for n in found if _is_a(features.get(n), "Image")], IMAGE_COLUMNS)
    if name is None:
        raise InputError(
            f"{where}: has no column of images among {_listed(schema.names)}; call the one with "
            f"their bytes {IMAGE_COLUMNS[0]}"
        )
    return found[name]


def _label_column(schema: "pa.Schema", features: dict[str, Any], where: str) -> str:
    import pyarrow.types as types

    def is_label(type: "pa.DataType") -> bool:
        if types.is_dictionary(type):
            type = type.value_type
        tests = (
            *(types.is_integer, types.is_string, types.is_large_string, types.is_string_view),
            *(types.is_boolean, types.is_floating),
        )
        return any(test(type) for test in tests)

    # Names may be written as bytes, in a column that is called like one of labels.
    found = {
        field.name: field.name
        for field in schema
        if is_label(field.type) or (field.name in LABEL_COLUMNS and _is_binary(field.type))
    }
    labels = [name for name in found if _is_a(features.get(name), "ClassLabel")]
    name = _chosen(found, labels, LABEL_COLUMNS, any_single=False)
    named = next((field for field in schema if field.name in LABEL_COLUMNS), None)
    if name is None and named is not None:
        raise InputError(
            f"{where}: its column {readable(named.name)} is of the type {named.type}; write whole "
            "numbers or names"
        )
    if name is None:
        raise InputError(
            f"{where}: has no column of labels, numbers or names, among {_listed(schema.names)}; "
            f"call it {LABEL_COLUMNS[0]}"
        )
    return name


def _chosen(
    found: dict[str, str], described: list[str], usual: tuple[str, ...], any_single: bool = True
) -> str | None:
    """The only column that is described so, else the one with a usual name, else the only one."""
    if len(described) == 1:
        return described[0]
    named = next((name for name in usual if name in found), None)
    if named is None and any_single and len(found) == 1:
        return next(iter(found))
    return named


def _listed(names: Sequence[str]) -> str:
    return ", ".join(readable(name) for name in names[:20]) or "none"


GroupKey = tuple[str, int]


class RowGroups:
    """The image columns of a few row groups, at least 1; may be used from several threads."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[GroupKey, Future[pa.ChunkedArray]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: GroupKey, read: Callable[[], "pa.ChunkedArray"]) -> "pa.ChunkedArray":
        """A row group of a file, which one thread reads while others wait for it."""
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                mine = self._kept[key] = Future()
            self._kept.move_to_end(key)
        if found is not None:
            return found.result()
        try:
            mine.set_result(read())
        except BaseException as error:
            with self._lock:
                self._kept.pop(key, None)
            mine.set_exception(error)
            raise
        with self._lock:
            # The oldest go, but never the newest.
            sizes = {key: one.result().nbytes for key, one in self._kept.items() if one.done()}
            while len(sizes) > 1 and (len(sizes) > self._most or sum(sizes.values()) > MOST_BYTES):
                oldest = next(iter(sizes))
                del sizes[oldest], self._kept[oldest]
        return mine.result()


class Parquet(Source):
    """The images of some Parquet files.

    The checksum of an image in a scan is a number made of its file's tag: with the row it makes the
    key of the dataset.

    Attributes:
        left_out: the number of files of other splits, which are not read, by the rule that says so,
            with the path of one.
    """

    kind = KIND
    reads_in_order = True

    def __init__(self, files: FileSet, names: Sequence[str], planned: Fields | None = None) -> None:
        """Lists the names in order. `planned` has the tags of the files; None before index."""
        self.where = files.where if len(names) != 1 else f"{files.where}/{names[0]}"
        self.reads_at_once = min(files.reads_at_once, _MOST_AT_ONCE)
        self._files = files
        self._names = names
        self._planned = planned
        self._opened: dict[str, ParquetFile] = {}
        self._tags: dict[str, str] = {}
        self.version = {"files": self._tags}
        self.left_out: Mapping[str, tuple[int, str]] = {}
        self._groups = RowGroups(self.reads_at_once)

    def scan(self, notes: Notes) -> Iterator[Image]:
        notes.left_out.update(self.left_out)
        opened = {name: self._open(name) for name in self._names}
        named = {file.class_names: name for name, file in opened.items() if file.class_names}
        if len(named) > 1:
            (_, one), (_, other), *_ = named.items()
            raise InputError(
                f"{self.where}: {one} and {other} name their labels differently in their metadata; "
                "write the files again by one version of the dataset"
            )
        # A file without names of the labels has those of the others.
        for name, file in opened.items():
            if named and not file.class_names:
                self._opened[name] = replace(file, class_names=next(iter(named)))
        groups = (
            (number, name, group)
            for number, name in enumerate(self._names)
            for group in range(self._open(name).groups)
        )

        def listed(one: tuple[int, str, int]) -> tuple[int, list[Image]]:
            number, name, group = one
            file = self._open(name)
            checksum = int(hashlib.sha256(self._tags[name].encode()).hexdigest()[:15], 16)
            with closing(self._files.open(name)) as blob:
                labels = file.labels(group, blob)
            classes = (class_name_in(label, file.where) for label in labels)
            # The size of each image is the file's mean.
            return number, [
                Image(class_name, f"{name}/{row:09}", row, file.row_bytes, checksum)
                for row, class_name in enumerate(classes, file.starts[group])
            ]

        for number, images in map_in_order(listed, groups, self.reads_at_once):
            notes.share = number / len(self._names)
            yield from images

    def read(self, name: str, offset: int, size: int) -> bytes:
        """The bytes of one image; its row group stays in memory for the next ones."""
        del size
        path, group = self._group_of(name, offset)
        file = self._open(path)
        row = offset - file.starts[group]
        if row >= file.rows(group):
            raise changed(file.where, f"has no row {offset}")

        def images() -> "pa.ChunkedArray":
            with closing(self._files.open(path)) as blob:
                return file.images(group, blob)

        image = self._groups.get((path, group), images)[row].as_py()
        # A row without an image is a damaged one.
        return b"" if image is None else bytes(image)

    def requests_to_read(self, locations: Iterable[Location]) -> tuple[int, int]:
        """One request for each row group in which the shard has an image."""
        groups = {self._group_of(location.name, location.offset) for location in locations}
        opened = [(self._open(name), group) for name, group in groups]
        return len(groups), sum(file.rows(group) * file.row_bytes for file, group in opened)

    def close(self) -> None:
        self._files.close()

    def _group_of(self, name: str, row: int) -> tuple[str, int]:
        path = name.rpartition("/")[0]
        return path, bisect_right(self._open(path).starts, row) - 1

    def _open(self, name: str) -> ParquetFile:
        """Reads the footer of a file, once."""
        if name not in self._opened:
            with closing(self._files.open(name)) as blob:
                file = open_parquet(blob)
                # The ETag decides, and on a volume the footer.
                tag = self._files.tag(name) or digest(blob)
            planned = self._planned
            if planned is not None and planned.has(name) and planned.text(name) != tag:
                raise changed(file.where, "is another file")
            # Two threads may have read it: the result is the same.
            self._tags[name], self._opened[name] = tag, file
        return self._opened[name]


def is_parquet(blob: Blob) -> bool:
    """Whether a file begins like one of Parquet."""
    return blob.read(0, len(MAGIC)) == MAGIC


def open_planned(planned: Fields, files: FileSet) -> Source:
    """Opens the files of a plan again for pack."""
    tags = planned.object("version").object("files")
    return Parquet(files, tuple(tags.values), tags)
