"""Talk to a cluster, by kubectl but for lists and watches: apply, read, and wait without sleeping.

Every wait has a deadline and follows the API server's own watch, so that a story goes on the
moment that what it waits for is there, and tells what it saw last when it never is.
"""

from __future__ import annotations

import json
import math
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote

from kind.raw import SILENCE, opened

Manifest = dict[str, Any]

# Where the API server serves what stories wait for.
_CORE = "/api/v1"
_SERVED = {
    "events": _CORE,
    "nodes": _CORE,
    "persistentvolumeclaims": _CORE,
    "pods": _CORE,
    "services": _CORE,
    "jobs": "/apis/batch/v1",
    "imagenetjobs": "/apis/imagenet.dev/v1alpha1",
    "networkpolicies": "/apis/networking.k8s.io/v1",
    "poddisruptionbudgets": "/apis/policy/v1",
}
_OUTSIDE_NAMESPACES = ("nodes",)

# What takes seconds may take minutes on a machine that is busy. A story that goes wrong does not
# wait for so long as a rule: it ends when its job fails.
SECONDS = 600.0


class KubectlError(AssertionError):
    """kubectl or the API server refused, or what was waited for did not come."""


@dataclass(frozen=True)
class Kubectl:
    """kubectl for one cluster, and for one namespace of it."""

    program: str
    kubeconfig: Path
    namespace: str = "default"

    def within(self, namespace: str) -> Kubectl:
        """Return the same for another namespace."""
        return replace(self, namespace=namespace)

    def __call__(self, *arguments: str, given: str | None = None, check: bool = True) -> str:
        """Run kubectl and return what it prints.

        Args:
            arguments: The command line after `kubectl`.
            given: Its standard input.
            check: Whether a failure is an error; otherwise what it says is returned.
        """
        finished = subprocess.run(
            self._command(*arguments), input=given, capture_output=True, text=True, check=False
        )
        if finished.returncode == 0:
            return finished.stdout
        if check:
            raise KubectlError(f"kubectl {' '.join(arguments)}: {finished.stderr.strip()}")
        return finished.stdout + finished.stderr

    def apply(self, *manifests: Mapping[str, Any]) -> None:
        """Apply manifests."""
        listed = {"apiVersion": "v1", "kind": "List", "items": list(manifests)}
        self("apply", "--filename=-", given=json.dumps(listed))

    def get(self, resource: str, name: str) -> Manifest:
        """Return one object."""
        found: Manifest = json.loads(self("get", resource, name, "--output=json"))
        return found

    def all(self, resource: str, selector: str = "") -> list[Manifest]:
        """Return all objects of a kind that have the labels."""
        listed = json.loads(self("get", resource, f"--selector={selector}", "--output=json"))
        items: list[Manifest] = listed["items"]
        return items

    def raw(self, path: str) -> str:
        """Return what the API server has at a path, as `kubectl get --raw` does."""
        try:
            with opened(self.kubeconfig, path) as answer:
                return answer.read().decode()
        except HTTPError as error:
            raise KubectlError(f"{path}: {error.read().decode()}") from error
        except (OSError, HTTPException) as error:
            raise KubectlError(f"{path}: the API server did not answer: {error}") from error

    def patch_status(self, resource: str, name: str, operations: Sequence[Manifest]) -> None:
        """Change an object's status by the operations of a JSON patch."""
        patch = json.dumps(operations)
        self("patch", resource, name, "--subresource=status", "--type=json", f"--patch={patch}")

    def wait(self, what: str, condition: str, seconds: float = SECONDS) -> None:
        """Wait as `kubectl wait --for=CONDITION` does; WHAT is `pod/NAME` or `pods -l …`."""
        self("wait", f"--for={condition}", f"--timeout={seconds:.0f}s", *what.split())

    def wait_until(
        self,
        resource: str,
        satisfied: Callable[[dict[str, Manifest]], bool],
        seconds: float = SECONDS,
        selector: str = "",
    ) -> dict[str, Manifest]:
        """Wait until the objects of a kind, by name, satisfy a predicate; return them.

        The predicate sees every state of the collection: as it is at the start, and after each
        change.

        Args:
            resource: The kind in the plural, such as `pods`.
            satisfied: Told all objects that there are, by name.
            seconds: How long at most.
            selector: Labels the objects have.
        """
        deadline = time.monotonic() + seconds
        while True:
            listed = json.loads(self.raw(self._path(resource, selector)))
            objects = {found["metadata"]["name"]: found for found in listed["items"]}
            if satisfied(objects):
                return objects
            left = deadline - time.monotonic()
            if left <= 0:
                break
            version = listed["metadata"]["resourceVersion"]
            # The server ends the watch at the deadline. One that ends early begins with a new list.
            path = self._path(resource, selector) + (
                f"&watch=1&resourceVersion={version}&timeoutSeconds={math.ceil(left)}"
            )
            if self._follow(path, objects, satisfied, left + SILENCE):
                return objects
        seen = {name: found.get("status") for name, found in objects.items()}
        raise KubectlError(
            f"{resource} in {self.namespace} did not come to what was waited for in "
            f"{seconds:.0f} s; last seen: {json.dumps(seen, indent=1)}"
        )

    def account(self) -> str:
        """Return what the namespace holds, for whoever has to find out what is wrong there."""
        asked = [
            ("get", "imagenetjobs,deployments,jobs,pods,services,pvc", "--output=wide"),
            ("get", "imagenetjobs", "--output=yaml"),
            ("get", "events", "--sort-by=.lastTimestamp"),
            *(("logs", pod["metadata"]["name"], "--tail=40") for pod in self.all("pods")),
        ]
        return "\n".join(
            f"$ kubectl {' '.join(command)}\n{_end(self(*command, check=False))}"
            for command in asked
        )

    def _follow(
        self,
        path: str,
        objects: dict[str, Manifest],
        satisfied: Callable[[dict[str, Manifest]], bool],
        seconds: float,
    ) -> bool:
        """Keep objects as the watch tells until they satisfy, or the watch ends."""
        for event in self._events(path, seconds):
            if event["type"] == "ERROR":
                return False
            name = event["object"]["metadata"]["name"]
            if event["type"] == "DELETED":
                objects.pop(name, None)
            else:
                objects[name] = event["object"]
            if satisfied(objects):
                return True
        return False

    def _events(self, path: str, seconds: float) -> Iterator[Manifest]:
        """Tell what a watch tells, until it ends or breaks: the next list tells why, if it can."""
        try:
            with opened(self.kubeconfig, path, seconds) as answer:
                for line in answer:
                    yield json.loads(line)
        except (OSError, HTTPException, json.JSONDecodeError):
            return

    def _path(self, resource: str, selector: str) -> str:
        folder = "" if resource in _OUTSIDE_NAMESPACES else f"/namespaces/{self.namespace}"
        return f"{_SERVED[resource]}{folder}/{resource}?labelSelector={quote(selector)}"

    def _command(self, *arguments: str) -> list[str]:
        return [
            self.program,
            f"--kubeconfig={self.kubeconfig}",
            f"--namespace={self.namespace}",
            *arguments,
        ]


def _end(text: str, lines: int = 120) -> str:
    """Return the end of a text, which is long if something repeats itself."""
    return "\n".join(text.splitlines()[-lines:])
