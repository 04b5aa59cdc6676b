"""A Kubernetes cluster under the conformance suite: its caches, filled by watches.

The API server is that of a kind cluster (tests/kind), or the fake one in the same event loop.
"""

from __future__ import annotations

import asyncio

from imagenet_operator.clusters.interface import JobKey
from imagenet_operator.clusters.kubernetes import objects, stored_jobs
from imagenet_operator.clusters.kubernetes.client import Client
from imagenet_operator.clusters.kubernetes.cluster import MANAGED, KubernetesCluster
from imagenet_operator.clusters.kubernetes.login import Connection
from imagenet_operator.clusters.kubernetes.recorder import Recorder
from imagenet_operator.clusters.kubernetes.reflector import Reflector
from imagenet_operator.reconcile.types import Manifest
from support import job_table
from support.cluster_driver import ClusterDriver
from support.processes import wait_until


def unmanaged_job() -> Manifest:
    """A job that no operator works on, so that a test may do as it likes with its children."""
    manifest = job_table.manifest(run_policy={"managedBy": "example.com/conformance"})
    del manifest["metadata"]["uid"], manifest["metadata"]["namespace"]
    return manifest


class KubernetesDriver(ClusterDriver):
    """A Kubernetes cluster under test.

    Args:
        image: An image with `sh` and `python3`.
    """

    def __init__(self, image: str) -> None:
        super().__init__()
        self.image = image

    def follow(self, connection: Connection, namespace: str) -> None:
        """Follow a namespace of a cluster, in which `unmanaged_job` is stored."""
        self.run(self._follow(connection, namespace))

    async def _follow(self, connection: Connection, namespace: str) -> None:
        self._client = await Client(connection).__aenter__()
        self._recorder = Recorder(self._client)
        self._kubernetes = KubernetesCluster(
            self._client, self._recorder, lambda key, debounce: self.note_change()
        )
        self.cluster = self._kubernetes
        children = [
            Reflector(self._client, cache.kind, cache, namespace=namespace, selector=MANAGED)
            for cache in self._kubernetes.children.values()
        ]
        reflectors = [*children, Reflector(self._client, objects.NODE, self._kubernetes.nodes)]
        self.start(*(item.run() for item in reflectors))
        await asyncio.gather(*(item.synced.wait() for item in reflectors))
        self._kubernetes.knows_nodes = True
        self._key: JobKey = (namespace, "digits")
        await self._kubernetes.refresh_job(self._key)
        stored = self._kubernetes.jobs.get(*self._key)
        assert stored is not None
        self.job = stored_jobs.read(stored).job

    def stored_status(self) -> Manifest:
        """The status in the API server."""
        found = self.run(self._client.get(objects.JOB.path(*self._key)))
        return dict(found["status"])

    def recorded_events(self) -> list[tuple[str, str, str]]:
        """Type, reason and message of the events in the API server, oldest first."""
        self.run(self._recorder.flush())
        found = self.run(self._client.get(objects.EVENT.path(self._key[0])))["items"]
        found.sort(key=lambda item: int(item["metadata"]["resourceVersion"]))
        return [
            (item["type"], item["reason"], item["message"])
            for item in found
            if item["source"]["component"] == "imagenet-operator"
        ]

    def wait_for_trap(self, name: str) -> None:
        """Wait for the condition Ready, which the kubelet reports long after the trap."""
        path = objects.POD.path(self._key[0], name)

        def is_ready() -> bool:
            status = self.run(self._client.get(path))["status"]
            ready = {"type": "Ready", "status": "True"}
            return any(item.items() >= ready.items() for item in status.get("conditions", ()))

        wait_until(is_ready, f"{name} is ready")

    def close(self) -> None:
        """Stop following the cluster."""
        self.stop()
        self.run(self._client.__aexit__(None, None, None))
        super().close()
