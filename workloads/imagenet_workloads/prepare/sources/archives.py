"""Opens an archive in a `Blob`: finds its layout by looking, or takes that of the plan."""

import io
from collections.abc import Callable, Sequence
from itertools import islice

from imagenet_workloads.errors import InputError
from imagenet_workloads.fields import Fields
from imagenet_workloads.prepare.sources import cifar, parquet
from imagenet_workloads.prepare.sources import tree as trees
from imagenet_workloads.prepare.sources.archive import (
    Archive,
    Kind,
    Member,
    holds_image,
    is_file,
    prefix,
    require_data,
)
from imagenet_workloads.prepare.sources.archive_files import FilesOfArchive
from imagenet_workloads.prepare.sources.archive_layouts import (
    ArchiveOfArchives,
    ArchiveOfFolders,
    FlatArchive,
    require_uncompressed,
)
from imagenet_workloads.prepare.sources.label_file import LabelFile
from imagenet_workloads.prepare.sources.layout import MOST_FOLDERS, SPLITS
from imagenet_workloads.prepare.sources.source import (
    Blob,
    Source,
    Validation,
    changed,
    is_image,
    readable,
)
from imagenet_workloads.prepare.sources.tar import BLOCK, TarArchive, header_size
from imagenet_workloads.prepare.sources.tree import Tree
from imagenet_workloads.prepare.sources.tree_annotations import AnnotationsInArchive, folder_of
from imagenet_workloads.prepare.sources.zip import END, LOCAL, ZipArchive

IN_ARCHIVE = "inArchive"
"""The field of a plan whose Parquet files are in an archive."""

_FORMATS = (TarArchive, ZipArchive)
_SUFFIXES = {f".{archive.format}": archive for archive in _FORMATS}
FLAT = tuple(FlatArchive.layout.format(outer=one.format) for one in _FORMATS)
KINDS = (
    *(f"{outer.format} of {inner.format}s" for outer in _FORMATS for inner in _FORMATS),
    *(ArchiveOfFolders.layout.format(outer=one.format) for one in _FORMATS),
    *FLAT,
    *cifar.KINDS,
)


def open_archive(
    blob: Blob,
    within: str | None = None,
    before_tree: Callable[[Source], None] = lambda images: None,
) -> Source:
    """Opens a tar or zip that contains its classes, as archives or folders. Closes it on an error.

    Args:
        blob: the archive.
        within: the folder or archive in it that is the source's root; by default the folder that
            holds all classes.
        before_tree: called with all images of a tree with splits, before the whole archive is
            listed to find its folders and labels.

    Raises:
        InputError: it is neither.
    """
    try:
        archive, root = _enter(blob, within)
        return _find(archive, root, before_tree)
    except BaseException:
        blob.close()
        raise


def _find(archive: Archive, root: str | None, before_tree: Callable[[Source], None]) -> Source:
    """Finds the layout of an archive by its names."""
    if (found := _cifar(archive, root)) is not None:
        return found
    first = _first_name(archive, root)
    if first.endswith(parquet.SUFFIX):
        return _parquet_files(archive, root)
    if first.endswith(tuple(_SUFFIXES)):
        inner = next(one for suffix, one in _SUFFIXES.items() if first.endswith(suffix))
        return ArchiveOfArchives(archive, inner, root)
    if not SPLITS.isdisjoint(first.lower().split("/")):
        before_tree(FlatArchive(archive, root))
        tree = trees.find(_Listing(archive), root or "")
        if tree is not None:
            return _open_tree(archive, tree)
    if "/" in first.removeprefix(prefix(root)):
        return ArchiveOfFolders(archive, root)
    raise InputError(
        f"{archive.blob.where}: its images (such as {first}) are in no folders, so they have "
        "no classes; give it as --validation-source (validation.path) with --validation-labels "
        "(validation.labels)"
    )


def open_planned_archive(planned: Fields, blob: Blob, within: str | None = None) -> Source:
    """Opens an archive again for pack. Closes it on an error.

    Args:
        planned: from `Source.to_document`.
        blob: the archive.
        within: as given to `open_archive`.

    Raises:
        InputError: it has another layout than was planned.
    """
    kind = planned.text("kind")
    if kind == parquet.KIND:
        archive, root = _enter(blob, within)
        return parquet.open_planned(planned, _members_of_parquet(archive, root))
    if kind in FLAT and not planned.has("within"):
        source: Source = open_flat_archive(blob)
    elif planned.has("within"):
        layout = FlatArchive if kind in FLAT else ArchiveOfFolders
        source = layout(_enter(blob, within)[0], planned.text("within"))
    else:
        source = cifar.planned_split(planned, open_archive(blob, within))
    if source.kind != kind:
        source.close()
        raise changed(source.where, f"is a {source.kind} in place of a {kind}")
    return source


def open_flat_archive(blob: Blob) -> Source:
    """Opens an archive whose images get their classes from a label file. Closes it on an error.

    Raises:
        InputError: it is no archive.
    """
    try:
        return FlatArchive(_archive(blob))
    except BaseException:
        blob.close()
        raise


def _parquet_files(archive: Archive, root: str | None) -> Source:
    """The images of the Parquet files below a root."""
    source = parquet.open_files(_members_of_parquet(archive, root))
    assert source is not None
    return _marked(source)


def _marked(source: Source) -> Source:
    """Notes in the plan that the Parquet files are in an archive, for the validation images too."""
    source.plan_fields = {**source.plan_fields, IN_ARCHIVE: True}
    open_own = source.own_validation
    if open_own is not None:

        def own_validation() -> Validation:
            validation = open_own()
            _marked(validation.source)
            return validation

        source.own_validation = own_validation
    return source


def _members_of_parquet(archive: Archive, root: str | None) -> FilesOfArchive:
    found = (
        member
        for member in archive.members()
        if member.name.startswith(prefix(root)) and member.name.endswith(parquet.SUFFIX)
    )
    return FilesOfArchive(archive, (member for member in found if is_file(member)))


def _enter(blob: Blob, within: str | None) -> tuple[Archive, str | None]:
    """The archive that a path in an archive names or leads into, and the folder there."""
    archive = _archive(blob)
    if within is None:
        return archive, None
    root = _normal(within)
    if root.endswith(tuple(_SUFFIXES)):
        for member in archive.members():
            if member.name == root and is_file(member):
                require_data(member, blob.where)
                return _archive(archive.part(member)), None
    return archive, root


def _archive(blob: Blob) -> Archive:
    start = blob.read(0, BLOCK)
    if start.startswith((LOCAL, END)):
        return ZipArchive(blob)
    require_uncompressed(start, blob.where)
    if any(start) and header_size(start) is None:
        raise InputError(f"{blob.where}: is neither a folder nor a tar or zip archive")
    return TarArchive(blob)


def _cifar(archive: Archive, root: str | None) -> Source | None:
    """The images of CIFAR, if the archive holds a few files and they are its files."""
    files = (
        one
        for one in archive.members()
        if one.kind is Kind.FILE and one.name.startswith(prefix(root))
    )
    found = {one.name.rpartition("/")[2]: one for one in islice(files, cifar.MOST_FILES)}
    if not cifar.may_be(found):
        return None
    parts = {name: archive.part(one) for name, one in found.items() if name in cifar.FILES}
    return cifar.open_cifar(archive.blob.where, parts, archive.blob.close)


def _open_tree(archive: Archive, tree: Tree) -> Source:
    """The training images of a tree; its validation images are opened from the same archive."""

    def validation() -> Validation:
        if not tree.has_classes and tree.labels is None:
            raise InputError(f"{archive.blob.where}: {tree.validation}: {trees.UNLABELLED}")
        layout = ArchiveOfFolders if tree.has_classes else FlatArchive
        source = layout(archive, tree.validation)
        source.plan_fields = {"within": tree.validation}
        return Validation(source, tree.labels)

    source = ArchiveOfFolders(archive, tree.training)
    source.plan_fields = {"within": tree.training}
    source.own_words = tree.words
    source.own_validation = validation
    annotations = folder_of(tree.training)
    if annotations is not None:
        source.own_annotations = AnnotationsInArchive(archive, annotations)
    return source


class _Listing:
    """The names in an archive as a `tree.Listing`: its folders with images, and its label files."""

    def __init__(self, archive: Archive) -> None:
        """Lists all members."""
        self._archive = archive
        self._folders: dict[str, set[str]] = {}
        self._files: dict[str, Member] = {}
        folders: set[str] = set()
        for member in archive.members():
            folder, _, base = member.name.rpartition("/")
            if holds_image(member) and folder not in folders and len(folders) < MOST_FOLDERS:
                folders.add(folder)
                self._add(folder)
            elif member.kind is Kind.FILE and base in trees.LABEL_FILE_NAMES:
                self._files[member.name] = member

    def _add(self, folder: str) -> None:
        while folder:
            above, _, name = folder.rpartition("/")
            if not name.startswith("."):
                self._folders.setdefault(above, set()).add(name)
            folder = above

    def folders(self, path: str) -> Sequence[str]:
        """The sorted names of the folders with images in a folder."""
        return sorted(self._folders.get(path, ()))

    def file(self, path: str) -> LabelFile | None:
        """A label file in the archive."""
        member = self._files.get(path)
        return None if member is None else _MemberFile(self._archive, member, self)


class _MemberFile:
    """A member of an archive as a `LabelFile`."""

    def __init__(self, archive: Archive, member: Member, listing: _Listing) -> None:
        self._archive = archive
        self._member = member
        self._listing = listing

    def __str__(self) -> str:
        return f"{self._archive.blob.where}: {readable(self._member.name)}"

    def open(self) -> io.BufferedReader:
        """Its content."""
        content = self._archive.read(self._member.name, self._member.offset, self._member.size)
        return io.BufferedReader(io.BytesIO(content))

    def beside(self, name: str) -> LabelFile | None:
        """The file of this name in the same folder, if it is one of labels."""
        folder = self._member.name.rpartition("/")[0]
        return self._listing.file(trees.join(folder, name))


def _normal(path: str) -> str:
    """A path in an archive as names have it: "" for the archive's own root."""
    return "/".join(part for part in path.split("/") if part not in ("", "."))


def _first_name(archive: Archive, root: str | None = None) -> str:
    """The name of the first member under the root that is an image or an archive."""
    where = archive.blob.where
    for member in archive.members():
        hidden = member.name.rpartition("/")[2].startswith(".")
        if not is_file(member) or hidden or not member.name.startswith(prefix(root)):
            continue
        if member.name.endswith((".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")):
            raise InputError(
                f"{where}: its inner archive {member.name} is compressed, and images are "
                "read in place, by offset; decompress the inner archives first"
            )
        if member.name.endswith((*_SUFFIXES, parquet.SUFFIX)) or is_image(member.name):
            return member.name
    under = f" under {root} (pathInArchive)" if root else ""
    raise InputError(f"{where}: holds neither images nor archives of images{under}")
