"""Claims as folders: WORKDIR/volumes/CLAIM, or wherever `--volume CLAIM=PATH` points.

A Secret is the folder that `--secret NAME=FOLDER` names, with a file for each key.

`cluster.py` asks for the folder of a claim when it starts a pod. A folder that this cluster made
for a claim goes with the claim; one that someone mapped or filled by hand is never removed.
"""

import shutil
from collections.abc import Mapping
from pathlib import Path

from imagenet_operator.clusters.interface import LocalError


class Volumes:
    """The claims of one working directory.

    Args:
        root: The folder that holds a folder for each claim.
        mapped: Claims that stand for folders elsewhere.
        secrets: The folder of each Secret.
    """

    def __init__(
        self, root: Path, mapped: Mapping[str, Path], secrets: Mapping[str, Path] | None = None
    ) -> None:
        self._root = root
        self._mapped = dict(mapped)
        self.secrets = dict(secrets or {})

    @property
    def mapped(self) -> frozenset[str]:
        """The claims that stand for folders elsewhere."""
        return frozenset(self._mapped)

    def path(self, claim: str) -> Path:
        """Where a claim's files are or would be."""
        return self._mapped.get(claim, self._root / claim)

    def folder(self, claim: str) -> Path:
        """The folder of a claim that exists.

        Raises:
            LocalError: There is none, or it cannot be looked at.
        """
        folder = self.path(claim)
        try:
            is_there = folder.is_dir()
        except OSError as error:
            raise LocalError(
                f"cannot read the folder {folder} of claim {claim!r}: {error.strerror}; "
                f"name another folder with --volume {claim}=PATH"
            ) from error
        if not is_there:
            raise LocalError(
                f"claim {claim!r} has no folder on this machine: make {folder} and put the files "
                f"there, or name another folder with --volume {claim}=PATH"
            )
        return folder

    def secret(self, name: str) -> Path:
        """Return the folder of a Secret.

        Raises:
            LocalError: No folder is named for it.
        """
        folder = self.secrets.get(name)
        if folder is None:
            raise LocalError(
                f"Secret {name!r} has no folder on this machine: make a folder with a file for "
                f"each key, and name it with --secret {name}=FOLDER"
            )
        return folder

    def provision(self, claim: str) -> None:
        """Make the folder of a claim that the job asks for, or take the one that is there.

        Raises:
            LocalError: It cannot be made.
        """
        try:
            self.path(claim).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LocalError(
                f"cannot make the folder {self.path(claim)} of claim {claim!r}: {error.strerror}"
            ) from error

    def remove(self, claim: str) -> None:
        """Remove a claim that `provision` made, with its files; a mapped folder stays."""
        if claim not in self._mapped:
            shutil.rmtree(self._root / claim, ignore_errors=True)
