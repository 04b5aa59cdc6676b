"""Opens a folder of class folders, or a tree of them for training and validation."""

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from imagenet_workloads import regular_files
from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare.sources import tree as trees
from imagenet_workloads.prepare.sources.folder import NOT_CLASSES, FlatFolder, Folder
from imagenet_workloads.prepare.sources.label_file import FileOnVolume, LabelFile
from imagenet_workloads.prepare.sources.links import is_inside, require_inside
from imagenet_workloads.prepare.sources.source import Source, Validation, readable
from imagenet_workloads.prepare.sources.tree import Tree
from imagenet_workloads.prepare.sources.tree_annotations import AnnotationsInFolder, folder_of


class FolderListing:
    """The names in a folder as a `tree.Listing`."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def folders(self, path: str) -> Sequence[str]:
        """The sorted names of the folders in a folder."""
        folder = self._root / path
        try:
            with os.scandir(folder) as entries:
                return sorted(
                    entry.name
                    for entry in entries
                    if not entry.name.startswith(".")
                    and entry.name not in NOT_CLASSES
                    and entry.is_dir()
                )
        except OSError:
            # The scan says why.
            return ()

    def file(self, path: str) -> LabelFile | None:
        """A file of labels, unless it is a link that leads out of the folder."""
        file = self._root / path
        if not regular_files.exists(file) or regular_files.is_folder(file):
            return None
        is_here = is_inside(os.path.realpath(file), os.path.realpath(self._root))
        return FileOnVolume(file) if is_here else None


def open_folder(root: Path) -> Source:
    """Opens the classes in a folder: its folders, or those of its training images.

    Args:
        root: the folder; in Kaggle's tree, any folder above the splits.

    Raises:
        InputError: the training images are behind a link out of the folder.
    """
    above = trees.kaggle_root(root.parts)
    top = root.parents[above - 1] if above else root
    start = "/".join(root.parts[len(root.parts) - above :])
    tree = trees.find(FolderListing(top), start)
    if tree is None:
        return Folder(root)
    source = open_at(root, tree.training.removeprefix(start).lstrip("/"))
    source.own_words = tree.words
    source.own_validation = partial(_open_validation, root, start, tree)
    annotations = folder_of(tree.training)
    if annotations is not None:
        source.own_annotations = AnnotationsInFolder(top, annotations)
    return source


def open_at(root: Path, within: str, is_flat: bool = False) -> Source:
    """Opens a folder of a tree.

    Args:
        root: what the option names.
        within: the folder, from there.
        is_flat: whether a label file has the classes.

    Raises:
        InputError: a link leads out of the root.
    """
    folder = root / within
    require_inside(str(folder), str(root))
    source = FlatFolder(folder) if is_flat else Folder(folder)
    source.plan_fields = {"within": within}
    return source


def _open_validation(root: Path, start: str, tree: Tree) -> Validation:
    within = tree.validation.removeprefix(start).lstrip("/")
    if not tree.has_classes and tree.labels is None:
        raise InputError(f"{readable(str(root / within))}: {trees.UNLABELLED}")
    return Validation(open_at(root, within, is_flat=not tree.has_classes), tree.labels)
