"""A cluster for clients of jobs: a fake API server that lets a user do what docs' Role does."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import yaml

from imagenet_operator.clusters.kubernetes import objects
from imagenet_operator.clusters.kubernetes.login import Connection
from imagenet_operator.manifests import labels, names
from imagenet_operator.sdk.background import run
from imagenet_operator.sdk.cluster import AsyncClient
from support import job_table
from support.fake_api_server import FakeApiServer

Manifest = dict[str, Any]
AT = "2026-01-02T03:04:05Z"
RIGHTS = {
    (objects.JOB.group, objects.JOB.plural): frozenset(
        {"get", "list", "create", "patch", "delete"}
    ),
    ("", "pods"): frozenset({"create", "get", "list", "watch", "delete"}),
    ("", "pods/log"): frozenset({"get"}),
    ("", "pods/portforward"): frozenset({"get", "create"}),
    ("", "events"): frozenset({"list", "watch"}),
    ("", "persistentvolumeclaims"): frozenset({"get", "create"}),
    ("", "resourcequotas"): frozenset({"list"}),
}
"""What docs/jobs.md grants a user."""


def manifest(**changes: Any) -> Manifest:
    """A manifest as a user writes it: two workers, and an existing claim."""
    found = job_table.manifest(**changes)
    found["metadata"] = {"name": "digits"}
    return found


@contextlib.asynccontextmanager
async def user_cluster() -> AsyncIterator[FakeApiServer]:
    """An API server that grants a user's rights, and no more."""
    async with FakeApiServer() as server:
        server.verbs = dict(RIGHTS)
        yield server


@contextlib.asynccontextmanager
async def user_client() -> AsyncIterator[tuple[FakeApiServer, AsyncClient]]:
    """An API server, and a client of its namespace `vision` that looks again at once."""
    async with user_cluster() as server:
        connection = Connection(server.url)
        async with AsyncClient(
            connection=connection, namespace="vision", poll_seconds=0.01
        ) as client:
            yield server, client


def kubeconfig(folder: Path, server: FakeApiServer) -> Path:
    """Write a kubeconfig with the current context `here`, of the namespace `vision`."""
    path = folder / "kubeconfig"
    config = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "here", "namespace": "vision"}}],
        "clusters": [{"name": "here", "cluster": {"server": server.url}}],
    }
    path.write_text(yaml.safe_dump(config))
    return path


def condition(kind: str, reason: str = "Because", message: str = "", status: str = "True") -> Any:
    """A condition of a job."""
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": AT,
    }


async def set_status(server: FakeApiServer, **status: Any) -> None:
    """Write the status of the job, as the operator does."""

    def edit(job: Manifest) -> None:
        job["status"] = status

    await server.change(objects.JOB.name, "digits", edit)


async def add_pod(
    server: FakeApiServer, name: str, state: str = "running", owner: str | None = None
) -> Manifest:
    """Add a pod of the job, or of the one with a uid."""
    metadata: Manifest = {
        "name": name,
        "namespace": "vision",
        "labels": {labels.JOB_NAME: "digits"},
    }
    if owner is not None:
        metadata["ownerReferences"] = [
            {"kind": objects.JOB.name, "name": "digits", "uid": owner, "controller": True}
        ]
    return await server.add(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": {"containers": [{"name": names.CONTAINER}]},
            "status": pod_status(state),
        }
    )


def pod_status(state: str) -> Manifest:
    """The status of a pod whose program is waiting, running or terminated."""
    return {"containerStatuses": [{"name": names.CONTAINER, "state": {state: {}}}]}


async def end_pod(server: FakeApiServer, name: str) -> None:
    """End the program of a pod."""
    await server.change("Pod", name, lambda pod: pod.update(status=pod_status("terminated")))


class UserCluster:
    """A cluster in another thread, for programs that block, with the job `digits`.

    Attributes:
        server: The API server.
    """

    def __init__(self, folder: Path) -> None:
        self._stack = contextlib.AsyncExitStack()
        self.server: FakeApiServer = run(self._stack.enter_async_context(user_cluster()))
        self.kubeconfig = kubeconfig(folder, self.server)

    def close(self) -> None:
        """Stop it."""
        run(self._stack.aclose())

    def add_job(self, **status: Any) -> None:
        """Add the job with a status."""
        found = manifest()
        found["metadata"]["namespace"] = "vision"
        run(self.server.add(found))
        self.set_status(**status)

    def set_status(self, **status: Any) -> None:
        """Write the status of the job."""
        run(set_status(self.server, **status))
