"""The measured jobs and their objects: without preparation and without a sampler.

Each has one scheduler, two servers and two workers, so five pods, and reads a dataset that was
sealed before from a claim that all of them share.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from http import HTTPStatus
from typing import Any, TypeVar

from imagenet_operator.clusters.kubernetes import objects
from imagenet_operator.clusters.kubernetes.client import ApiError, Client
from imagenet_spec.resource.job import MANAGER

Manifest = dict[str, Any]
Item = TypeVar("Item")
Result = TypeVar("Result")

NAMESPACE = "bench"
PODS_PER_JOB = 5
# Some other operator's, for all that this one knows.
OTHER_CONTROLLER = "example.com/other"
_CLAIM = "datasets"
_AT_ONCE = 32


def prerequisites() -> list[Manifest]:
    """Return the namespace, and the claim with the dataset on a separate volume."""
    amounts = {"storage": "1Gi"}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": _CLAIM},
            "spec": {
                "accessModes": ["ReadWriteMany"],
                "capacity": amounts,
                "hostPath": {"path": "/tmp"},
                "storageClassName": "",
                "claimRef": {"namespace": NAMESPACE, "name": _CLAIM},
            },
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": _CLAIM, "namespace": NAMESPACE},
            "spec": {
                "accessModes": ["ReadWriteMany"],
                "resources": {"requests": amounts},
                "storageClassName": "",
                "volumeName": _CLAIM,
            },
        },
    ]


def job(name: str, manager: str = MANAGER) -> Manifest:
    """Return one job's manifest."""
    servers = {"kvStore": "dist_sync", "servers": {"replicas": 2}}
    return {
        "apiVersion": objects.JOB.api_version,
        "kind": objects.JOB.name,
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "dataset": {"source": {"prepared": {"claimName": _CLAIM, "path": "datasets/digits"}}},
            "training": {
                "strategy": {"parameterServer": servers},
                "model": {"network": "resnet", "numLayers": 50},
                "batchSize": 512,
                "epochs": 90,
                "workers": {"replicas": 2},
            },
            "runPolicy": {"managedBy": manager},
        },
    }


async def create(client: Client, manifests: Iterable[Manifest]) -> list[Manifest]:
    """Create objects as fast as the API server takes them; return them as they are stored."""

    def one(manifest: Manifest) -> Awaitable[Manifest]:
        return client.create(objects.BY_NAME[manifest["kind"]].path(NAMESPACE), manifest)

    return await _many_at_once(one, manifests)


async def delete_all(client: Client) -> None:
    """Delete every job and its children, without waiting for the garbage collector."""
    options = {"propagationPolicy": "Background", "gracePeriodSeconds": 0}
    for kind in (objects.JOB, *objects.CHILDREN):
        if kind.name == "PersistentVolumeClaim":
            continue
        async for page in client.pages(kind.path(NAMESPACE)):
            found = [kind.path(NAMESPACE, item["metadata"]["name"]) for item in page["items"]]
            await _many_at_once(lambda path: _delete(client, path, options), found)


async def _delete(client: Client, path: str, options: Manifest) -> None:
    try:
        await client.delete(path, options)
    except ApiError as error:
        if error.code != HTTPStatus.NOT_FOUND:
            raise


async def _many_at_once(
    do: Callable[[Item], Awaitable[Result]], items: Iterable[Item]
) -> list[Result]:
    gate = asyncio.Semaphore(_AT_ONCE)

    async def one(item: Item) -> Result:
        async with gate:
            return await do(item)

    return await asyncio.gather(*(one(item) for item in items))
