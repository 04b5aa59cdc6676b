"""Claims as folders: WORKDIR/volumes/CLAIM, or the folder of `--volume CLAIM=PATH`.

A Secret is the folder that `--secret NAME=FOLDER` names, with a file for each key.

A folder that the local cluster created for a claim is deleted with the claim. A mapped folder, or
one that the user created, is never deleted.
"""

import shutil
from collections.abc import Mapping
from pathlib import Path

from imagenet_operator.clusters.interface import LocalError


class Volumes:
    """The claims of one working directory.

    Args:
        root: The folder that holds a folder for each claim.
        mapped: Claims whose folder is elsewhere, with that folder.
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
        """The claims whose folder is elsewhere."""
        return frozenset(self._mapped)

    def path(self, claim: str) -> Path:
        """Return the folder of a claim, whether it exists or not."""
        return self._mapped.get(claim, self._root / claim)

    def folder(self, claim: str) -> Path:
        """Return the folder of a claim that exists.

        Raises:
            LocalError: There is none, or it cannot be read.
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
                f"claim {claim!r} has no folder on this machine: create {folder} and put the files "
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
                f"Secret {name!r} has no folder on this machine: create a folder with a file for "
                f"each key, and name it with --secret {name}=FOLDER"
            )
        return folder

    def provision(self, claim: str) -> None:
        """Create the folder of a claim of the job, or use the existing one.

        Raises:
            LocalError: It cannot be created.
        """
        try:
            self.path(claim).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LocalError(
                f"cannot create the folder {self.path(claim)} of claim {claim!r}: {error.strerror}"
            ) from error

    def remove(self, claim: str) -> None:
        """Delete the folder of a claim that `provision` created; a mapped folder stays."""
        if claim not in self._mapped:
            shutil.rmtree(self._root / claim, ignore_errors=True)
