"""The operator: creates and runs caches, reflectors, the loop and its helpers.

`handlers` runs beside it and reports the events of the jobs. No reconcile starts before all caches
are synced, because a job whose pods are not known yet looks as if it had lost them. Nor does one
start before this process is the leader: until then it only keeps its caches warm. If it loses the
lease, it ends.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import orjson

from imagenet_operator.clusters.interface import JobKey
from imagenet_operator.clusters.kubernetes import health, metrics, objects
from imagenet_operator.clusters.kubernetes.client import NOT_FOUND, ApiError, Client
from imagenet_operator.clusters.kubernetes.cluster import MANAGED, KubernetesCluster
from imagenet_operator.clusters.kubernetes.leader_election import LeaderElection, LeaseLost
from imagenet_operator.clusters.kubernetes.objects import Stored
from imagenet_operator.clusters.kubernetes.reconciler import Reconciler, now
from imagenet_operator.clusters.kubernetes.recorder import Recorder
from imagenet_operator.clusters.kubernetes.reflector import Reflector
from imagenet_operator.clusters.kubernetes.watch_liveness import WatchLiveness
from imagenet_operator.clusters.loop import Loop
from imagenet_operator.clusters.sampler import Sampler
from imagenet_operator.configuration import Configuration
from imagenet_operator.reconcile.explanation import WAITING_REASONS
from imagenet_operator.reconcile.sample import Sample
from imagenet_spec.resource.base import Manifest

LOGGER = logging.getLogger(__name__)

DENIED_AGAIN: Final = timedelta(seconds=30)
"""The time to the next reconcile of a job whose namespace the operator may not read."""

DEFINITION_SECONDS: Final = 5.0
"""The time between two looks for the definition of the jobs."""

NOT_DEFINED: Final = (
    f"the definition {objects.JOB.plural}.{objects.JOB.group} is missing; install it with the chart"
)

FLUSH_TIMEOUT_SECONDS: Final = 0.5
"""How long the end may wait for events to be sent."""


class Operator:
    """All parts of the operator but kopf; the client is entered.

    The election makes it the leader before it acts; None for the only operator of a cluster.
    """

    def __init__(
        self,
        client: Client,
        configuration: Configuration,
        clock: Callable[[], datetime] = now,
        election: LeaderElection | None = None,
    ) -> None:
        namespaces = configuration.namespaces or (None,)
        self.loop = Loop(self._reconcile, metrics.measure_reconcile)
        self._election = election
        self._recorder = Recorder(client, clock)
        self.cluster = KubernetesCluster(client, self._recorder, self._child_changed)
        self._sampler: Sampler | None = None
        if configuration.sampler.enabled:
            self._sampler = Sampler(
                self.cluster,
                configuration.sampler.interval_seconds,
                configuration.sampler.timeout_seconds,
                lambda key: self.loop.enqueue(key, low_priority=True),
            )
        self._reconciler = Reconciler(self.cluster, configuration.settings, self._latest, clock)
        self._children = [
            Reflector(client, cache.kind, cache, namespace=namespace, selector=MANAGED)
            for cache in self.cluster.children.values()
            for namespace in namespaces
        ]
        self._nodes = Reflector(client, objects.NODE, self.cluster.nodes)
        self.watch_liveness = WatchLiveness(client, self.cluster.jobs, namespaces, self._gone)
        self._client = client
        self._is_defined = False
        self._unwatched = {objects.JOB.path(namespace): namespace for namespace in namespaces}
        self._began = time.monotonic()
        self._is_at_work = False

    # ------------------------------------------------------------------ events from kopf

    def job_event(self, kind: str | None, job: Manifest) -> None:
        """Handle an event of a job; its kind is None for a job that was only listed."""
        metadata = job["metadata"]
        key = (metadata["namespace"], metadata["name"])
        if kind == "DELETED":
            self.cluster.jobs.delete(job)
            if self.cluster.jobs.get(*key) is None:
                self._gone(key)
            return
        before = self.cluster.jobs.get(*key)
        if self.cluster.jobs.put(job) and _needs_reconcile(before, job) and self._is_at_work:
            self.loop.enqueue(key, low_priority=kind is None and _has_begun(job))

    def watch_began(self, path: str) -> None:
        """Handle that kopf watches the jobs, which it does once it has listed them.

        The path of the request may have a prefix of the API server.
        """
        began = [known for known in self._unwatched if path.endswith(known)]
        for known in began:
            del self._unwatched[known]

    def _gone(self, key: JobKey) -> None:
        LOGGER.info("%s/%s: deleted", *key)
        self.loop.forget(key)
        metrics.forget_job(*key)
        self.cluster.forget(key)
        self._reconciler.forget(key)
        if self._sampler is not None:
            self._sampler.forget(key)

    # ------------------------------------------------------------------ tasks

    async def run(self) -> None:
        """Run until cancelled; raise LeaseLost if this process may not act any more."""
        try:
            async with asyncio.TaskGroup() as tasks:
                await self._fill_caches(tasks)
                if self._election is not None:
                    await self._election.acquire()
                    tasks.create_task(self._election.hold(), name="lease")
                self.begin()
                tasks.create_task(self._recorder.run(), name="events")
                if self._sampler is not None:
                    tasks.create_task(self._sampler.run(), name="sampler")
                tasks.create_task(self.loop.run(), name="loop")
        except BaseExceptionGroup as failures:
            if lost := failures.subgroup(LeaseLost):
                raise lost.exceptions[0] from None
            raise

    async def find_definition(self) -> None:
        """Wait until the API server serves the jobs; kopf never watches what it does not find."""
        while await self.lacks_definition() is not False:
            LOGGER.warning("%s", NOT_DEFINED)
            await asyncio.sleep(DEFINITION_SECONDS)
        self._is_defined = True

    async def lacks_definition(self) -> bool | None:
        """Ask the API server whether it does not serve the jobs; None if it does not answer."""
        try:
            found = await self._client.get(f"/apis/{objects.JOB.api_version}")
        except ApiError as error:
            LOGGER.debug("the definition of the jobs cannot be read: %s", error)
            return True if error.code == NOT_FOUND else None
        return objects.JOB.plural not in [item["name"] for item in found.get("resources") or ()]

    async def _fill_caches(self, tasks: asyncio.TaskGroup) -> None:
        """Start the watches, and wait until all caches are synced."""
        for reflector in (*self._children, self._nodes):
            tasks.create_task(reflector.run(), name=f"watch of {reflector.name}")
        tasks.create_task(self._follow_nodes(), name="nodes")
        tasks.create_task(self.watch_liveness.run(), name="watch liveness")
        for reflector in self._children:
            # A namespace that is denied must not hold up the others.
            is_only_one = reflector.namespace is None
            await (reflector.synced if is_only_one else reflector.answered).wait()
        # A waiting gang must not be released only because the nodes are not known yet.
        await self._nodes.answered.wait()
        self.cluster.knows_nodes = self._nodes.synced.is_set()
        LOGGER.info(
            "caches are synced: %d children of jobs after %.1f s",
            sum(len(cache) for cache in self.cluster.children.values()),
            time.monotonic() - self._began,
        )

    def begin(self) -> None:
        """Have every known job reconciled; those that have not begun go first."""
        self._is_at_work = True
        for stored in self.cluster.jobs.all():
            if stored.job is not None:
                self.loop.enqueue(stored.job, low_priority=_has_begun(orjson.loads(stored.text)))

    async def close(self) -> None:
        """Send the waiting events and release the lease, within a short time; after `run`."""
        if self._election is not None and not self._election.is_leader:
            return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._recorder.flush(), FLUSH_TIMEOUT_SECONDS)
        if self._election is not None:
            await self._election.release()

    async def _follow_nodes(self) -> None:
        """Use the cache of nodes once it is synced, if the operator may list nodes."""
        await self._nodes.synced.wait()
        self.cluster.knows_nodes = True

    async def _reconcile(self, key: JobKey) -> timedelta | None:
        children = (item for item in self._children if item.namespace in (None, key[0]))
        if not all(item.synced.is_set() for item in children):
            return DENIED_AGAIN
        return await self._reconciler.reconcile(key)

    def _latest(self, key: JobKey, uid: str) -> Sample | None:
        return None if self._sampler is None else self._sampler.latest(key, uid)

    def _child_changed(self, key: JobKey, debounce: bool) -> None:
        if not self._is_at_work or self.cluster.jobs.get(*key) is None:
            return
        if debounce:
            self.loop.enqueue_debounced(key)
        else:
            self.loop.enqueue(key)

    # ------------------------------------------------------------------ health

    def troubles(self) -> Iterator[str]:
        # The operator may lack the right to list nodes. Until that is known, every reconcile waits
        # for them, and once they are listed, reconciles rely on them.
        counts = self.cluster.knows_nodes or not self._nodes.answered.is_set()
        nodes = [self._nodes] if counts else []
        for reflector in (*self._children, *nodes):
            if reflector.namespace not in self.watch_liveness.denied and health.is_silent(
                reflector.heard_at
            ):
                yield f"the watch of {reflector.name} is dead"
        if self.watch_liveness.missed:
            yield f"the watch of {objects.JOB.plural} is dead: {sorted(self.watch_liveness.missed)}"
        if self._is_defined and health.is_silent(self.watch_liveness.heard_at or self._began):
            yield f"{objects.JOB.plural} cannot be listed"
        if self.loop.is_stuck:
            yield "a reconcile hangs"

    def pending(self) -> Iterator[str]:
        if not self._is_defined:
            yield NOT_DEFINED
        for reflector in self._children:
            is_denied = reflector.namespace in self.watch_liveness.denied
            if not reflector.synced.is_set() and not is_denied:
                yield f"{reflector.name} are not listed yet"
        if not self._nodes.answered.is_set():
            yield f"{self._nodes.name} are not listed yet"
        if self.watch_liveness.heard_at is None:
            yield f"{objects.JOB.plural} are not listed yet"
        if set(self._unwatched.values()) - self.watch_liveness.denied:
            yield f"{objects.JOB.plural} are not watched yet"
        if self._election is not None and self._election.trouble:
            yield self._election.trouble

    def has_heard(self, version: int) -> bool:
        """Whether the caches have all changes of children and nodes up to a resource version."""
        return all(item.version >= version for item in (*self._children, self._nodes))

    def is_idle(self, version: int) -> bool:
        """Whether all changes up to a resource version are reconciled."""
        return (
            self._is_at_work
            and self.has_heard(version)
            and self.loop.is_idle
            and self._recorder.is_idle
        )

    def measure(self) -> None:
        """Update the metrics that are computed on each scrape."""
        metrics.QUEUE_DEPTH.set(len(self.loop.queue))
        for reflector in (*self._children, self._nodes):
            is_up = reflector.synced.is_set() and not health.is_silent(reflector.heard_at)
            metrics.WATCH_UP.labels(reflector.kind.plural, reflector.namespace or "").set(is_up)
        is_up = self.watch_liveness.heard_at is not None and not self.watch_liveness.missed
        metrics.WATCH_UP.labels(objects.JOB.plural, "").set(is_up)
        # Another operator is at work otherwise, and exports the same series.
        if not self._is_at_work:
            return
        jobs = [_summary(job) for job in self.cluster.jobs.all()]
        metrics.count_jobs((job.namespace, job.phase) for job in jobs)
        metrics.set_waiting((job.namespace, job.name, job.waits) for job in jobs if job.waits)
        metrics.set_time((job.namespace, job.name, job.time) for job in jobs if job.time)
        metrics.set_stragglers(
            (job.namespace, job.name, item) for job in jobs for item in job.stragglers
        )


@dataclass(frozen=True)
class _Summary:
    """What the metrics show of a job; if it does not start, `waits` is the reason."""

    namespace: str
    name: str
    phase: str
    waits: str | None
    time: Manifest | None
    stragglers: list[Manifest]


def _summary(job: Stored) -> _Summary:
    manifest = orjson.loads(job.text)
    metadata, status = manifest["metadata"], manifest.get("status") or {}
    phase = status.get("phase") or metrics.NO_PHASE
    reason = None
    if "completionTime" not in status:
        # A later condition of a job is that of a later step.
        conditions = status.get("conditions") or ()
        reasons = [item["reason"] for item in conditions if item["status"] == "False"]
        reason = next((item for item in reversed(reasons) if item in WAITING_REASONS), None)
    found = (status.get("training") or {}).get("stragglers") or []
    return _Summary(
        metadata["namespace"], metadata["name"], phase, reason, status.get("time"), found
    )


def _has_begun(job: Manifest) -> bool:
    """Whether an operator has reconciled a job before."""
    return bool((job.get("status") or {}).get("startTime"))


def _needs_reconcile(before: Stored | None, job: Manifest) -> bool:
    """Whether more than the status of a job has changed."""
    if before is None or before.uid != job["metadata"]["uid"]:
        return True
    former = orjson.loads(before.text)["metadata"]
    return any(
        former.get(name) != job["metadata"].get(name)
        for name in ("generation", "deletionTimestamp")
    )
