"""A cluster under test: an event loop that a test runs step by step, and the manifests of a test.

A cluster is asynchronous, and a test calls one method after the other. `ClusterDriver.run` runs the
loop until one call is done; the cluster goes on while the loop runs. Nothing here knows processes
or an API server.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from imagenet_operator.clusters.interface import Cluster
from imagenet_operator.manifests import labels
from imagenet_operator.reconcile.types import Event, Patch, Reference
from imagenet_spec.resource import ImageNetJob
from imagenet_spec.resource.status import Status
from support.processes import DEADLINE_SECONDS

Manifest = dict[str, Any]
T = TypeVar("T")
FOREVER = "sleep 1000"
STUBBORN = "trap '' TERM; echo ready; while :; do sleep 0.02; done"


class ClusterDriver(ABC):
    """A cluster under test, and one job in it.

    Attributes:
        cluster: The cluster.
        job: A job that exists there.
        image: An image with `sh` and `python3`.
    """

    cluster: Cluster
    job: ImageNetJob
    image: str

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._changed = asyncio.Event()
        self._background: list[asyncio.Task[None]] = []

    @abstractmethod
    def stored_status(self) -> Manifest:
        """What the cluster has stored of the job's status."""

    @abstractmethod
    def recorded_events(self) -> list[tuple[str, str, str]]:
        """Type, reason and message of each event that was recorded."""

    @abstractmethod
    def wait_for_trap(self, name: str) -> None:
        """Wait until a pod of `STUBBORN` ignores SIGTERM; it runs a little earlier."""

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Let the cluster go on until something is done; its result."""
        result = self._runner.run(asyncio.wait_for(work, DEADLINE_SECONDS))
        for task in self._background:
            if task.done():
                task.result()
        return result

    def note_change(self) -> None:
        """End a `wait_for_change`: the cluster has changed."""
        self._changed.set()

    def wait_for_change(self) -> None:
        """Let the cluster go on until it has changed since the last `observe`."""
        self.run(self._changed.wait())

    def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        """Let the cluster go on until a condition holds; asks again after each change."""
        while True:
            self._changed.clear()
            if condition():
                return
            try:
                self.wait_for_change()
            except TimeoutError:
                raise AssertionError(f"never happened: {what}") from None

    def observe(self) -> list[Manifest]:
        """The children of the job."""
        self._changed.clear()
        return self.run(self.cluster.observe(self.job))

    def create(self, manifest: Manifest) -> None:
        """Create an object of the job."""
        self.run(self.cluster.create(self.job, manifest))

    def delete(self, reference: Reference) -> None:
        """Delete an object of the job."""
        self.run(self.cluster.delete(self.job, reference))

    def patch(self, patch: Patch) -> None:
        """Patch an object of the job."""
        self.run(self.cluster.patch(self.job, patch))

    def write_status(self, status: Status) -> None:
        """Store a status of the job."""
        job = self.job.model_copy(update={"status": status})
        self.run(self.cluster.write_status(job))

    def record_event(self, event: Event) -> None:
        """Record an event of the job."""
        self.run(self.cluster.record_event(self.job, event))

    def start(self, *work: Coroutine[Any, Any, None]) -> None:
        """Do work beside everything else, whenever the loop runs."""
        loop = self._runner.get_loop()
        self._background += [loop.create_task(item) for item in work]

    def stop(self) -> None:
        """Stop the work in the background."""
        background, self._background = self._background, []
        for task in background:
            task.cancel()

        async def ended() -> None:
            await asyncio.gather(*background, return_exceptions=True)

        self.run(ended())

    def close(self) -> None:
        """Stop everything."""
        self.stop()
        self._runner.close()


def pod(driver: ClusterDriver, name: str, script: str, **spec: Any) -> Manifest:
    """A pod of the job that runs a shell script."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _metadata(driver, name),
        "spec": {**_pod_spec(driver, script), **spec},
    }


def with_environment(manifest: Manifest, *variables: Manifest) -> Manifest:
    """The pod with environment variables."""
    manifest["spec"]["containers"][0]["env"] = list(variables)
    return manifest


def batch_job(driver: ClusterDriver, name: str, script: str, **spec: Any) -> Manifest:
    """A Job whose pods run a shell script; by default it forgives no failure."""
    template = {"metadata": {"labels": labels_of(driver)}, "spec": _pod_spec(driver, script)}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": _metadata(driver, name),
        "spec": {"backoffLimit": 0, "template": template, **spec},
    }


def simple(driver: ClusterDriver, kind: str, name: str, spec: Manifest) -> Manifest:
    """A Service or claim."""
    return {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": _metadata(driver, name),
        "spec": spec,
    }


def _metadata(driver: ClusterDriver, name: str) -> Manifest:
    return {
        "name": name,
        "namespace": driver.job.metadata.namespace,
        "labels": labels_of(driver),
        "ownerReferences": [labels.owner(driver.job)],
    }


def labels_of(driver: ClusterDriver) -> dict[str, str]:
    return labels.of_child(driver.job.metadata.name, "index")


def _pod_spec(driver: ClusterDriver, script: str) -> Manifest:
    container = {"name": "main", "image": driver.image, "command": ["sh", "-c", script]}
    return {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]}


def find(driver: ClusterDriver, kind: str, name: str) -> Manifest | None:
    """What is observed of one object."""
    for item in driver.observe():
        if item["kind"] == kind and item["metadata"]["name"] == name:
            return item
    return None


def get(driver: ClusterDriver, kind: str, name: str) -> Manifest:
    """What is observed of one object that must be there."""
    item = find(driver, kind, name)
    assert item is not None, f"{kind} {name} is not there"
    return item


def reference(item: Manifest) -> Reference:
    return Reference(item["kind"], item["metadata"]["name"], item["metadata"]["uid"])


def patch(item: Manifest, merge: Manifest) -> Patch:
    return Patch(item["kind"], item["metadata"]["name"], item["metadata"]["uid"], merge)


def pods_of(driver: ClusterDriver, name: str) -> list[Manifest]:
    """The pods of a Job."""
    uid = get(driver, "Job", name)["metadata"]["uid"]
    return [
        item
        for item in driver.observe()
        if item["kind"] == "Pod"
        and any(owner["uid"] == uid for owner in item["metadata"]["ownerReferences"])
    ]


def phase(driver: ClusterDriver, name: str) -> str:
    return str(get(driver, "Pod", name)["status"].get("phase"))


def wait_for_phase(driver: ClusterDriver, name: str, wanted: str) -> Manifest:
    driver.wait_until(lambda: phase(driver, name) == wanted, f"{name} is {wanted}")
    return get(driver, "Pod", name)


def condition(driver: ClusterDriver, name: str, kind: str) -> Manifest | None:
    """A Job's condition, if it is true."""
    for item in get(driver, "Job", name)["status"].get("conditions", ()):
        if item["type"] == kind and item["status"] == "True":
            return dict(item)
    return None


def wait_for_condition(driver: ClusterDriver, name: str, kind: str) -> Manifest:
    driver.wait_until(lambda: condition(driver, name, kind) is not None, f"{name} is {kind}")
    found = condition(driver, name, kind)
    assert found is not None
    return found


def terminated(item: Manifest) -> Manifest:
    state: Manifest = item["status"]["containerStatuses"][0]["state"]["terminated"]
    return state
