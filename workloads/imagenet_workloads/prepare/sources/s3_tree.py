"""Opens a prefix of class folders in a bucket, or of a tree of them for training and validation."""

from collections.abc import Iterator, Sequence
from functools import partial

from imagenet_workloads.clients.s3 import AT_ONCE, Bucket
from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare.annotations import LARGEST
from imagenet_workloads.prepare.in_order import map_in_order
from imagenet_workloads.prepare.sources import tree as trees
from imagenet_workloads.prepare.sources.label_file import LabelFile
from imagenet_workloads.prepare.sources.s3_objects import S3FlatFolder, S3Folder, S3Labels
from imagenet_workloads.prepare.sources.source import Source, Validation, readable
from imagenet_workloads.prepare.sources.tree import Tree
from imagenet_workloads.prepare.sources.tree_annotations import SUFFIX, folder_of


class _Listing:
    """The names below a prefix as a `tree.Listing`; lists each folder once."""

    def __init__(self, bucket: Bucket, root: str) -> None:
        self._bucket = bucket
        self._root = root
        self._listed: dict[str, tuple[Sequence[str], frozenset[str]]] = {}

    def folders(self, path: str) -> Sequence[str]:
        """The sorted names of the prefixes directly below a prefix."""
        return self._names(path)[0]

    def file(self, path: str) -> LabelFile | None:
        """An object with labels."""
        folder, _, name = path.rpartition("/")
        if name not in self._names(folder)[1]:
            return None
        return S3Labels(self._bucket, trees.join(self._root, path))

    def _names(self, path: str) -> tuple[Sequence[str], frozenset[str]]:
        """The folders in a folder, and its label files."""
        if path not in self._listed:
            folders, objects = self._bucket.folders(trees.join(self._root, path))
            names = (one.rstrip("/").rpartition("/")[2] for one in folders)
            files = (one.key.rpartition("/")[2] for one in objects)
            self._listed[path] = (
                [name for name in names if not name.startswith(".")],
                frozenset(files) & trees.LABEL_FILE_NAMES,
            )
        return self._listed[path]


class _Annotations:
    """The annotations below a prefix, each an object that takes a request."""

    def __init__(self, bucket: Bucket, prefix: str) -> None:
        self.where = bucket.where(f"{prefix}/")
        self._bucket = bucket
        self._prefix = prefix

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        """Yields the key and the content of each; many are read at the same time."""
        yield from map_in_order(self._read, self._keys(), AT_ONCE)

    def _keys(self) -> Iterator[str]:
        for split in self._bucket.folders(self._prefix)[0]:
            classes, objects = self._bucket.folders(split.rstrip("/"))
            yield from (one.key for one in objects if one.key.endswith(SUFFIX))
            for folder in classes:
                found = self._bucket.below(folder)
                yield from (one.key for one in found if one.key.endswith(SUFFIX))

    def _read(self, key: str) -> tuple[str, bytes]:
        return key, self._bucket.read(key, (0, LARGEST + 1))[1]


def open_prefix(bucket: Bucket, prefix: str) -> Source:
    """Opens the classes below a prefix: its folders, or those of its training images.

    Args:
        bucket: the bucket.
        prefix: in Kaggle's tree, any prefix above the splits.

    Raises:
        InputError: there is no such bucket, or the keys are refused.
        WorkloadError: the server cannot be reached.
    """
    parts = [part for part in prefix.split("/") if part]
    above = len(parts) - trees.kaggle_root(parts)
    start = "/".join(parts[above:])
    tree = trees.find(_Listing(bucket, "/".join(parts[:above])), start)
    if tree is None:
        return S3Folder(bucket, prefix)
    source = open_at(bucket, prefix, tree.training.removeprefix(start).lstrip("/"))
    source.own_words = tree.words
    source.own_validation = partial(_open_validation, bucket, prefix, start, tree)
    annotations = folder_of(tree.training)
    if annotations is not None:
        source.own_annotations = _Annotations(bucket, trees.join(*parts[:above], annotations))
    return source


def open_at(bucket: Bucket, prefix: str, within: str, is_flat: bool = False) -> Source:
    """Opens a folder of a tree.

    Args:
        bucket: the bucket.
        prefix: what the option names.
        within: the folder, from there.
        is_flat: whether a label file has the classes.
    """
    below = trees.join(prefix.strip("/"), within)
    source = S3FlatFolder(bucket, below) if is_flat else S3Folder(bucket, below)
    source.plan_fields = {"within": within}
    return source


def _open_validation(bucket: Bucket, prefix: str, start: str, tree: Tree) -> Validation:
    within = tree.validation.removeprefix(start).lstrip("/")
    source = open_at(bucket, prefix, within, is_flat=not tree.has_classes)
    if not tree.has_classes and tree.labels is None:
        raise InputError(f"{readable(source.where)}: {trees.UNLABELLED}")
    return Validation(source, tree.labels)
