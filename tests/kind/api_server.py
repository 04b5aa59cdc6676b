"""The API server itself, for what kubectl does not pass on: its whole answer to a refusal."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import yaml

from kind.raw import opened

Manifest = dict[str, Any]

_UNKNOWN = re.compile(r'unknown field "([^"]+)"')
# Stands for "there is more to say when this is repaired".
_NOTHING = "<nil>"


@dataclass(frozen=True)
class Answer:
    """What the API server answered: the code, and the object or the Status."""

    code: int
    body: Manifest

    @property
    def is_refusal(self) -> bool:
        """Whether the object was not taken."""
        return self.code >= 400

    @property
    def fields(self) -> set[str]:
        """The path of each field that it blames."""
        causes = (self.body.get("details") or {}).get("causes", ())
        blamed = {cause["field"] for cause in causes} - {_NOTHING}
        return blamed or set(_UNKNOWN.findall(self.body.get("message", "")))


@dataclass(frozen=True)
class ApiServer:
    """The API server of a cluster.

    Attributes:
        kubeconfig: The file by which to reach it.
    """

    kubeconfig: Path

    def send(self, verb: str, path: str, document: Manifest | str, dry_run: bool = True) -> Answer:
        """Send an object as it is, strictly: a field that is not known is an error.

        Args:
            verb: POST or PUT.
            path: Of the collection, or of the object.
            document: The object, or the text of a YAML file.
            dry_run: Whether nothing is to be stored.
        """
        # As YAML in any case: its 128.0 is the whole number 128, as it is for kubectl.
        content = document if isinstance(document, str) else yaml.safe_dump(document)
        parameters = "fieldValidation=Strict" + ("&dryRun=All" if dry_run else "")
        try:
            with opened(
                self.kubeconfig,
                f"{path}?{parameters}",
                verb=verb,
                document=content,
                media="application/yaml",
            ) as response:
                return Answer(response.status, json.load(response))
        except HTTPError as refusal:
            with refusal:
                return Answer(refusal.code, json.load(refusal))
