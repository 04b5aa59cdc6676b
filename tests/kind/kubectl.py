"""Talk to a cluster: apply as its users do, by kubectl, and make, read and wait without one.

Every wait follows a watch of the API server and has a deadline. A story continues as soon as its
condition holds; after the deadline it reports the last objects.
"""

from __future__ import annotations

import json
import math
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from http.client import HTTPException
from pathlib import Path
from typing import Any, Literal
from urllib.error import HTTPError
from urllib.parse import quote

from kind.raw import SILENCE, opened

Manifest = dict[str, Any]

Resource = Literal[
    "clusterqueues",
    "configmaps",
    "customresourcedefinitions",
    "events",
    "imagenetjobs",
    "jobs",
    "leases",
    "namespaces",
    "networkpolicies",
    "nodes",
    "persistentvolumeclaims",
    "persistentvolumes",
    "poddisruptionbudgets",
    "pods",
    "resourcequotas",
    "serviceaccounts",
    "services",
    "validatingwebhookconfigurations",
    "workloads",
]
"""A kind as the API server calls its collection."""

# Where the API server serves what stories make, read and wait for.
_CORE = "/api/v1"
_SERVED: dict[Resource, str] = {
    "configmaps": _CORE,
    "events": _CORE,
    "namespaces": _CORE,
    "nodes": _CORE,
    "persistentvolumeclaims": _CORE,
    "persistentvolumes": _CORE,
    "pods": _CORE,
    "serviceaccounts": _CORE,
    "services": _CORE,
    "clusterqueues": "/apis/kueue.x-k8s.io/v1beta2",
    "workloads": "/apis/kueue.x-k8s.io/v1beta2",
    "jobs": "/apis/batch/v1",
    "imagenetjobs": "/apis/imagenet.dev/v1alpha1",
    "networkpolicies": "/apis/networking.k8s.io/v1",
    "poddisruptionbudgets": "/apis/policy/v1",
    "resourcequotas": _CORE,
    "leases": "/apis/coordination.k8s.io/v1",
    "customresourcedefinitions": "/apis/apiextensions.k8s.io/v1",
    "validatingwebhookconfigurations": "/apis/admissionregistration.k8s.io/v1",
}
_OUTSIDE_NAMESPACES = (
    "clusterqueues",
    "customresourcedefinitions",
    "namespaces",
    "nodes",
    "persistentvolumes",
    "validatingwebhookconfigurations",
)

_JSON_PATCH = "application/json-patch+json"
_MERGE_PATCH = "application/merge-patch+json"

# What takes seconds may take minutes on a machine that is busy. A story that goes wrong does not
# wait for so long as a rule: it ends when its job fails.
SECONDS = 600.0


class KubectlError(AssertionError):
    """kubectl or the API server refused, or what was waited for did not come."""


class NotFoundError(KubectlError):
    """The API server does not have what was asked for."""


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

    def define(self, path: Path) -> None:
        """Apply a file of definitions, and wait until the API server serves their objects."""
        # As a client's apply would keep them in an annotation, they are too long.
        applied = self("apply", "--server-side", f"--filename={path}", "--output=name")
        wanted = [line.rpartition("/")[2] for line in applied.split()]

        def is_established(definition: Manifest) -> bool:
            # A new one has no conditions, for which `kubectl wait` fails.
            conditions = definition.get("status", {}).get("conditions") or ()
            return any(
                one["type"] == "Established" and one["status"] == "True" for one in conditions
            )

        self.wait_until(
            "customresourcedefinitions",
            lambda found: all(name in found and is_established(found[name]) for name in wanted),
        )

    def create(self, resource: Resource, manifest: Mapping[str, Any]) -> None:
        """Make an object; a field that is not known is an error."""
        path = f"{self._collection(resource)}?fieldValidation=Strict"
        self._ask(path, verb="POST", document=manifest)

    def get(self, resource: Resource, name: str) -> Manifest:
        """Return one object."""
        return self._ask(f"{self._collection(resource)}/{name}")

    def all(self, resource: Resource, selector: str = "") -> list[Manifest]:
        """Return all objects of a kind that have the labels, each with its `kind`."""
        listed = self._ask(self._selected(resource, selector))
        # In a list no item says its kind: the list does.
        kind = listed["kind"].removesuffix("List")
        return [{**item, "kind": kind} for item in listed["items"]]

    def patch(self, resource: Resource, name: str, changes: Mapping[str, Any]) -> None:
        """Merge changes into an object."""
        path = f"{self._collection(resource)}/{name}"
        self._ask(path, verb="PATCH", document=changes, media=_MERGE_PATCH)

    def patch_status(self, resource: Resource, name: str, operations: Sequence[Manifest]) -> None:
        """Change an object's status by the operations of a JSON patch."""
        path = f"{self._collection(resource)}/{name}/status"
        self._ask(path, verb="PATCH", document=operations, media=_JSON_PATCH)

    def delete(self, resource: Resource, name: str, grace_seconds: int | None = None) -> None:
        """Ask for the end of one object, and do not wait for it.

        Args:
            resource: The kind.
            name: The object's.
            grace_seconds: How long a pod may take to end; what is usual there, without one.

        Raises:
            NotFoundError: There is none.
        """
        assert name, "without a name all of them would go"
        path = f"{self._collection(resource)}/{name}"
        self._ask(path, verb="DELETE", document=_delete_options(grace_seconds))

    def delete_all(
        self, resource: Resource, selector: str = "", grace_seconds: int | None = None
    ) -> None:
        """Ask for the end of all that have the labels, if there are any; wait for none."""
        path = self._selected(resource, selector)
        self._ask(path, verb="DELETE", document=_delete_options(grace_seconds))

    def raw(self, path: str, **request: Any) -> str:
        """Return what the API server answers at a path, to a request as `opened` takes it."""
        try:
            with opened(self.kubeconfig, path, **request) as answer:
                return answer.read().decode()
        except HTTPError as error:
            refused = NotFoundError if error.code == HTTPStatus.NOT_FOUND else KubectlError
            raise refused(f"{path}: {error.read().decode()}") from error
        except (OSError, HTTPException) as error:
            raise KubectlError(f"{path}: the API server did not answer: {error}") from error

    def wait(self, what: str, condition: str, seconds: float = SECONDS) -> None:
        """Wait as `kubectl wait --for=CONDITION` does; WHAT is `pod/NAME` or `pods -l …`."""
        self("wait", f"--for={condition}", f"--timeout={seconds:.0f}s", *what.split())

    def wait_until(
        self,
        resource: Resource,
        satisfied: Callable[[dict[str, Manifest]], bool],
        seconds: float = SECONDS,
        selector: str = "",
    ) -> dict[str, Manifest]:
        """Wait until the objects of a kind, by name, satisfy a predicate; return them.

        The predicate sees every state of the collection: as it is at the start, and after each
        change.

        Args:
            resource: The kind in the plural, such as `pods`.
            satisfied: Gets all current objects by name.
            seconds: How long at most.
            selector: Labels the objects have.
        """
        deadline = time.monotonic() + seconds
        while True:
            listed = self._ask(self._selected(resource, selector))
            objects = {found["metadata"]["name"]: found for found in listed["items"]}
            if satisfied(objects):
                return objects
            left = deadline - time.monotonic()
            if left <= 0:
                break
            version = listed["metadata"]["resourceVersion"]
            # The server ends the watch at the deadline. One that ends early begins with a new list.
            path = self._selected(resource, selector) + (
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
        """Return what the namespace holds, to find the cause of a failure."""
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
        """Keep objects up to date by the watch until they satisfy, or the watch ends."""
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
        """Yield the events of a watch until it ends or breaks; the next list shows the cause."""
        try:
            with opened(self.kubeconfig, path, seconds) as answer:
                for line in answer:
                    yield json.loads(line)
        except (OSError, HTTPException, json.JSONDecodeError):
            return

    def _ask(self, path: str, **request: Any) -> Manifest:
        """Return the object, or the list, that the API server answers with."""
        answered: Manifest = json.loads(self.raw(path, **request))
        return answered

    def _selected(self, resource: Resource, selector: str) -> str:
        return f"{self._collection(resource)}?labelSelector={quote(selector)}"

    def _collection(self, resource: Resource) -> str:
        folder = "" if resource in _OUTSIDE_NAMESPACES else f"/namespaces/{self.namespace}"
        return f"{_SERVED[resource]}{folder}/{resource}"

    def _command(self, *arguments: str) -> list[str]:
        return [
            self.program,
            f"--kubeconfig={self.kubeconfig}",
            f"--namespace={self.namespace}",
            *arguments,
        ]


def _delete_options(grace_seconds: int | None) -> Manifest:
    # Otherwise a Job's pods would be orphaned.
    return {"gracePeriodSeconds": grace_seconds, "propagationPolicy": "Background"}


def _end(text: str, lines: int = 120) -> str:
    """Return the end of a text, which is long if something repeats itself."""
    return "\n".join(text.splitlines()[-lines:])
