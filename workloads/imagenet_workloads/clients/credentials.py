"""Reads the keys of a mounted Secret, which are files in the folder that a variable names."""

import os
from collections.abc import Mapping
from pathlib import Path

from imagenet_spec.names import IMAGENET_CREDENTIALS
from imagenet_workloads import files
from imagenet_workloads.errors import InputError


class Credentials:
    """The keys of a Secret; empty if the manifest names none."""

    def __init__(
        self, variables: Mapping[str, str] = os.environ, variable: str = IMAGENET_CREDENTIALS
    ) -> None:
        folder = variables.get(variable)
        self._folder = None if folder is None else Path(folder)

    @property
    def are_given(self) -> bool:
        return self._folder is not None

    def has(self, key: str) -> bool:
        return self._folder is not None and files.exists(self._folder / key)

    def read(self, key: str) -> str:
        """The value of a key, without the newline that an editor adds at its end.

        InputError if there is no Secret, or it lacks the key.
        """
        if self._folder is None:
            raise InputError(f"the key {key} is missing: no Secret is given; write secretName")
        try:
            return files.read_bytes(self._folder / key).decode().rstrip("\r\n")
        except FileNotFoundError:
            raise InputError(f"the Secret lacks the key {key}; add it to the Secret") from None
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
            raise InputError(f"the key {key} of the Secret cannot be read: {reason}") from None
