"""The free capacity that gangs wait for, seen by one reconcile at a time.

`reconciler` acquires this lock for a job whose pods are held back until all of them fit. Capacity
that one gang has just been given must not count as free for the next gang. So one reconcile holds
the lock until its decision is applied. A few others wait for the lock. Any further one returns at
once, and its job is enqueued when the line has moved, so waiting gangs never use up the workers.

A job that grows stops first, and needs the capacity minutes later. So its further pods are reserved
before it stops, until they exist or it is suspended: two jobs that see one free node do not both
stop for it.

The free capacity takes a list of all pods of the cluster. That list is cached for a short time, so
it costs the same for any number of gangs. Our own pods come from the watch cache, and the list is
invalidated when a gang is released.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from imagenet_operator.api.base import Manifest
from imagenet_operator.clusters.interface import JobKey
from imagenet_operator.clusters.kubernetes import nodes, objects
from imagenet_operator.clusters.kubernetes.client import Client
from imagenet_operator.clusters.kubernetes.objects import Cache
from imagenet_operator.reconcile.types import Capacity

MAX_WAITERS: Final = 4
"""Reconciles that hold the lock or wait for it."""

MAX_AGE_SECONDS: Final = 10.0
"""How long the list of bound pods is used; a waiting gang is reconciled every 30 s."""

RESERVED_SECONDS: Final = 600.0
"""How long a reservation counts: a job that grows saves a checkpoint and ends its pods first."""

_BOUND_AND_RUNNING: Final = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
_ENDED: Final = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True)
class _Bound:
    """The requests of bound pods when they were listed.

    Attributes:
        taken: Node → resource → amount in base units.
        known: UIDs of our pods that were bound by then: they are counted, or had ended.
        until: When the list expires, by the monotonic clock in seconds.
    """

    taken: Mapping[str, Mapping[str, Fraction]]
    known: frozenset[str]
    until: float


class CapacityLock:
    """The free capacity of the nodes, for one gang at a time.

    Args:
        client: Of the API server.
        pods: Our pods.
        nodes: All nodes.
        enqueue: Called with a job that may try again, and whether that may be debounced.
    """

    def __init__(
        self, client: Client, pods: Cache, nodes: Cache, enqueue: Callable[[JobKey, bool], None]
    ) -> None:
        self._client = client
        self._pods = pods
        self._nodes = nodes
        self._enqueue = enqueue
        self._lock = asyncio.Lock()
        self._waiters = 0
        self._turned_away: dict[JobKey, None] = {}
        self._bound: _Bound | None = None
        self._reserved: dict[JobKey, tuple[float, list[Manifest]]] = {}

    @contextlib.asynccontextmanager
    async def acquire(self, key: JobKey) -> AsyncIterator[bool]:
        """Hold the lock; yields False at once if too many reconciles wait for it."""
        if self._waiters >= MAX_WAITERS:
            self._turned_away[key] = None
            yield False
            return
        self._turned_away.pop(key, None)
        self._waiters += 1
        try:
            async with self._lock:
                yield True
        finally:
            self._waiters -= 1
            if self._turned_away:
                next_key = next(iter(self._turned_away))
                self.forget(next_key)
                self._enqueue(next_key, True)

    def forget(self, key: JobKey) -> None:
        """Do not enqueue a job any more."""
        self._turned_away.pop(key, None)

    def invalidate(self) -> None:
        """Drop the cached list: a gang was released."""
        self._bound = None

    def reserve(self, key: JobKey, pods: list[Manifest]) -> None:
        """Count pods that a job will create; only while the lock is held."""
        self._reserved[key] = time.monotonic() + RESERVED_SECONDS, pods

    def release(self, key: JobKey) -> None:
        """End the reservation of a job: its pods exist, or it does not grow any more."""
        self._reserved.pop(key, None)

    async def free(self, key: JobKey) -> Capacity:
        """Return the free capacity of each node, without what is reserved for other jobs.

        Args:
            key: The job that asks.

        Raises:
            ApiError: The pods cannot be read.
        """
        bound = self._bound
        if bound is None or time.monotonic() >= bound.until:
            bound = self._bound = await self._list()
        now = time.monotonic()
        self._reserved = {job: item for job, item in self._reserved.items() if now < item[0]}
        reserved = [pod for job, (_, pods) in self._reserved.items() if job != key for pod in pods]
        pods = [*self._ours(bound.known), *reserved]
        return nodes.free((node.manifest() for node in self._nodes.all()), pods, bound.taken)

    async def _list(self) -> _Bound:
        until = time.monotonic() + MAX_AGE_SECONDS
        known = {stored.uid for stored in self._pods.all() if stored.node is not None}
        taken: dict[str, dict[str, Fraction]] = {}
        async for page in self._client.pages(objects.POD.path(), fieldSelector=_BOUND_AND_RUNNING):
            for pod in page["items"]:
                nodes.add(taken, pod)
                known.add(pod["metadata"]["uid"])
        return _Bound(taken, frozenset(known), until)

    def _ours(self, known: frozenset[str]) -> list[Manifest]:
        """Return our pods that the list does not hold: those that wait, or were bound since."""
        unlisted = (stored.manifest() for stored in self._pods.all() if stored.uid not in known)
        return [pod for pod in unlisted if _takes_capacity(pod)]


def _takes_capacity(pod: Manifest) -> bool:
    """Whether a pod takes capacity: it is bound, or only the scheduler has to bind it."""
    spec, phase = pod["spec"], pod["status"].get("phase")
    if spec.get("nodeName"):
        return phase not in _ENDED
    is_released = phase == "Pending" and not spec.get("schedulingGates")
    return is_released and "deletionTimestamp" not in pod["metadata"]
