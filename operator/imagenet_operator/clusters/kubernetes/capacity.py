"""The free capacity of the nodes, and the lock by which one reconcile at a time sees it.

Free capacity is the allocatable resources, less the requests of the bound pods.

`reconciler` acquires the lock for a job whose pods are held back until all of them fit. Capacity
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
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from imagenet_operator.clusters.interface import JobKey
from imagenet_operator.clusters.kubernetes import objects
from imagenet_operator.clusters.kubernetes.client import Client
from imagenet_operator.clusters.kubernetes.objects import Cache
from imagenet_operator.reconcile.policies import gang
from imagenet_operator.reconcile.policies.gang import Rooms
from imagenet_operator.reconcile.types import Capacity, Room
from imagenet_spec.resource.base import Manifest
from imagenet_spec.resource.quantities import parse

MAX_WAITERS: Final = 4
"""Reconciles that hold the lock or wait for it."""

MAX_AGE_SECONDS: Final = 10.0
"""How long the list of bound pods is used; a waiting gang is reconciled every 30 s."""

RESERVED_SECONDS: Final = 600.0
"""How long a reservation counts: a job that grows saves a checkpoint and ends its pods first."""

_BOUND_AND_RUNNING: Final = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
_ENDED: Final = frozenset({"Succeeded", "Failed"})

OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
"""The taint for a node that an administrator has declared down."""

_PODS = "pods"
"""The resource of which every pod takes one."""

_NOTHING: Mapping[str, Mapping[str, Fraction]] = {}


def is_reachable(node: Manifest) -> bool:
    """Whether a node's pods can report: it is ready and not out of service."""
    if any(taint["key"] == OUT_OF_SERVICE for taint in node["spec"].get("taints") or ()):
        return False
    return any(
        condition["type"] == "Ready" and condition["status"] == "True"
        for condition in node["status"].get("conditions") or ()
    )


Taken = Mapping[str, Mapping[str, Fraction]]
"""Node name → resource → the amount that pods take."""


def free_capacity(
    nodes: Iterable[Manifest], pods: Iterable[Manifest], taken: Taken = _NOTHING
) -> Capacity:
    """Return the free capacity of each node that can be reached.

    `pods` are bound and have not ended, or belong to released gangs and are not bound yet; the
    latter are placed on the first node with room. `taken` are the requests of all other pods.
    """
    rooms = Rooms(
        {
            node["metadata"]["name"]: Room(
                {
                    resource: parse(amount)
                    for resource, amount in (node["status"].get("allocatable") or {}).items()
                },
                gang.taints_of(node["spec"]),
            )
            for node in nodes
            if is_reachable(node)
        }
    )
    for name, amounts in taken.items():
        rooms.put_on(name, amounts)
    unbound = []
    for pod in pods:
        name = pod["spec"].get("nodeName")
        if name is None:
            unbound.append(pod)
        else:
            rooms.put_on(name, gang.requests(pod["spec"]))
    for pod in unbound:
        rooms.put(gang.requests(pod["spec"]), gang.tolerations_of(pod["spec"]))
    return rooms.left()


def add_requests(taken: dict[str, dict[str, Fraction]], pod: Manifest) -> None:
    """Add the requests of a bound pod to its node."""
    amounts = taken.setdefault(pod["spec"]["nodeName"], {})
    for resource, amount in {_PODS: Fraction(1), **gang.requests(pod["spec"])}.items():
        amounts[resource] = amounts.get(resource, Fraction(0)) + amount


@dataclass(frozen=True)
class _Bound:
    """The requests of bound pods when they were listed.

    Attributes:
        known: UIDs of our pods that were bound by then: they are counted, or had ended.
        until: When the list expires, by the monotonic clock in seconds.
    """

    taken: Mapping[str, Mapping[str, Fraction]]
    known: frozenset[str]
    until: float


class CapacityLock:
    """The free capacity of the nodes, for one gang at a time."""

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
        """Return the free capacity of each node, without what is reserved for other jobs."""
        bound = self._bound
        if bound is None or time.monotonic() >= bound.until:
            until = time.monotonic() + MAX_AGE_SECONDS
            known = {stored.uid for stored in self._pods.all() if stored.node is not None}
            taken: dict[str, dict[str, Fraction]] = {}
            async for page in self._client.pages(
                objects.POD.path(), fieldSelector=_BOUND_AND_RUNNING
            ):
                for pod in page["items"]:
                    add_requests(taken, pod)
                    known.add(pod["metadata"]["uid"])
            bound = self._bound = _Bound(taken, frozenset(known), until)
        now = time.monotonic()
        self._reserved = {job: item for job, item in self._reserved.items() if now < item[0]}
        reserved = [pod for job, (_, pods) in self._reserved.items() if job != key for pod in pods]
        # Our pods that the list does not hold: those that wait, or were bound since.
        unlisted = (
            stored.manifest() for stored in self._pods.all() if stored.uid not in bound.known
        )
        pods = [*filter(_takes_capacity, unlisted), *reserved]
        return free_capacity((node.manifest() for node in self._nodes.all()), pods, bound.taken)


def _takes_capacity(pod: Manifest) -> bool:
    """Whether a pod takes capacity: it is bound, or only the scheduler has to bind it."""
    spec, phase = pod["spec"], pod["status"].get("phase")
    if spec.get("nodeName"):
        return phase not in _ENDED
    is_released = phase == "Pending" and not spec.get("schedulingGates")
    return is_released and "deletionTimestamp" not in pod["metadata"]
