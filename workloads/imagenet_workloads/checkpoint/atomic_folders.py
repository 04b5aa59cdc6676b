"""Folders that are complete or absent: made under a hidden name, synced, renamed, removed."""

import os
import secrets
import shutil
from pathlib import Path

from imagenet_workloads.errors import output_error


def temporary_path(final: Path) -> Path:
    """Return a hidden name beside a path, which only this process uses."""
    return final.with_name(f".{final.name}.tmp-{secrets.token_hex(4)}")


def make_folder(folder: Path) -> None:
    """Create a folder and its parents, synced to the disk.

    Raises:
        VolumeFullError: The volume is full.
        StorageError: It cannot be created.
    """
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path in missing:
            # A folder's name survives a power failure once its parent is synced.
            sync(path.parent)
    except OSError as error:
        raise output_error(
            f"cannot create {folder} as user {os.getuid()}",
            error,
            "the output volume must be writable to the training pods",
        ) from error


def sync(path: Path) -> None:
    """Sync a file or a folder to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove(folder: Path) -> None:
    """Delete a checkpoint, after an atomic rename to a hidden name."""
    aside = temporary_path(folder)
    folder.rename(aside)
    shutil.rmtree(aside)
