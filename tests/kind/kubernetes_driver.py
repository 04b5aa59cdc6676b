"""The Kubernetes cluster under the conformance suite: its own caches, in a thread of their own.

The suite calls one method after the other and waits for conditions; the cluster is asynchronous.
Here an event loop runs beside the test, every call goes there and is waited for, and a condition
is looked at again whenever the caches have heard of something.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from imagenet_operator.api import ImageNetJob
from imagenet_operator.clusters.errors import AlreadyExists
from imagenet_operator.clusters.kubernetes import kinds, stored_job
from imagenet_operator.clusters.kubernetes.cache import JobKey
from imagenet_operator.clusters.kubernetes.client import Client
from imagenet_operator.clusters.kubernetes.cluster import MANAGED, KubernetesCluster, View
from imagenet_operator.clusters.kubernetes.connection import from_kubeconfig
from imagenet_operator.clusters.kubernetes.recorder import Recorder
from imagenet_operator.clusters.kubernetes.reflector import Reflector
from imagenet_operator.reconcile.types import Capacity, Event, Manifest, Patch, Reference
from kind.kubectl import SECONDS, Kubectl
from support import job_table

Result = TypeVar("Result")


def job_of_nobody() -> Manifest:
    """A job that no operator works on, so that a test may do as it likes with its children."""
    manifest = job_table.manifest(run_policy={"managedBy": "example.com/conformance"})
    del manifest["metadata"]["uid"], manifest["metadata"]["namespace"]
    return manifest


class KubernetesDriver:
    """A Kubernetes cluster under test; a `Cluster` itself.

    Args:
        kubectl: Of a namespace for this test alone.
        image: An image with `sh` and `python3`.
    """

    def __init__(self, kubectl: Kubectl, image: str) -> None:
        self.image = image
        self._namespace = kubectl.namespace
        self._news = threading.Condition()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        kubectl.apply(job_of_nobody())
        self._call(self._start(kubectl))
        self.job = stored_job.read(self._view().job)

    @property
    def cluster(self) -> KubernetesDriver:
        """Itself: it has a cluster's methods."""
        return self

    def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait until a condition holds, looking again after each change."""
        deadline = time.monotonic() + SECONDS
        with self._news:
            while not condition():
                left = deadline - time.monotonic()
                assert self._news.wait(left), f"never happened: {what}"

    def close(self) -> None:
        """Stop following the cluster."""
        self._call(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    # ------------------------------------------------------------------ the Cluster interface

    def observe(self, job: ImageNetJob) -> list[Manifest]:
        """Everything around the job."""
        del job
        return self._view().children

    def unreachable_nodes(self) -> frozenset[str]:
        """Nodes of the job's pods that cannot be reached."""
        return self._view().unreachable

    def free_capacity(self) -> Capacity | None:
        """What the nodes have left."""
        return self._call(self._cluster.free_capacity())

    def create(self, manifest: Manifest) -> None:
        """Make an object; that the job has it already is told as the other cluster tells it."""
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        known = self._cluster.children[kind].get(self._namespace, name)
        self._call(self._cluster.create(self._key, self.job.metadata.uid, manifest))
        if known is not None:
            raise AlreadyExists(kind, name)

    def delete(self, reference: Reference) -> None:
        """Ask for an object's end."""
        self._call(self._cluster.delete(self._key, reference))

    def patch(self, patch: Patch) -> None:
        """Merge a patch into an object."""
        self._call(self._cluster.patch(self._key, patch))

    def write_status(self, job: ImageNetJob) -> None:
        """Store the job's status."""
        written = job.status.to_manifest()
        self._call(self._cluster.write_status(self._key, self._view().job, written))

    def record_event(self, job: ImageNetJob, event: Event) -> None:
        """Have an event sent."""
        self._recorder.record(job, event)
        self._call(self._recorder.flush())

    # ------------------------------------------------------------------ the loop's side

    @property
    def _key(self) -> JobKey:
        return self._namespace, "digits"

    def _view(self) -> View:
        async def view() -> View | None:
            return self._cluster.view(self._key)

        found = self._call(view())
        assert found is not None
        return found

    def _call(self, work: Coroutine[Any, Any, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(SECONDS)

    async def _start(self, kubectl: Kubectl) -> None:
        self._client = await Client(from_kubeconfig(kubectl.kubeconfig)).__aenter__()
        self._recorder = Recorder(self._client)
        self._cluster = KubernetesCluster(self._client, self._recorder, self._tell)
        children = [
            Reflector(self._client, cache.kind, cache, namespace=self._namespace, selector=MANAGED)
            for cache in self._cluster.children.values()
        ]
        reflectors = [*children, Reflector(self._client, kinds.NODE, self._cluster.nodes)]
        self._tasks = [asyncio.create_task(item.run()) for item in reflectors]
        for reflector in reflectors:
            await reflector.synced.wait()
        self._cluster.knows_nodes = True
        await self._cluster.refresh_job(self._key)

    async def _stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._client.__aexit__(None, None, None)

    def _tell(self, key: JobKey, can_wait: bool) -> None:
        """Wake the test, from beside the loop: the test may just be waiting for an answer of it."""
        self._loop.run_in_executor(None, self._wake)

    def _wake(self) -> None:
        with self._news:
            self._news.notify_all()
