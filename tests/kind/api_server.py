"""The API server itself, for what kubectl does not pass on: its whole answer to a refusal."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import yaml

from kind.kubectl import Kubectl

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
    """The API server at an address that asks for no credentials."""

    address: str

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
        request = Request(
            f"{self.address}{path}?{parameters}",
            method=verb,
            data=content.encode(),
            headers={"Content-Type": "application/yaml"},
        )
        try:
            with urlopen(request, timeout=60) as response:
                return Answer(response.status, json.load(response))
        except HTTPError as refusal:
            with refusal:
                return Answer(refusal.code, json.load(refusal))


@contextmanager
def reach(kubectl: Kubectl) -> Iterator[ApiServer]:
    """Reach the API server by a proxy of kubectl's, which adds the credentials."""
    command = [kubectl.program, f"--kubeconfig={kubectl.kubeconfig}", "proxy", "--port=0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as proxy:
        try:
            assert proxy.stdout is not None
            # "Starting to serve on 127.0.0.1:PORT"
            yield ApiServer(f"http://{proxy.stdout.readline().split()[-1]}")
        finally:
            proxy.terminate()
