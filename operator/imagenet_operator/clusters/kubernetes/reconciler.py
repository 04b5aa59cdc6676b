"""The reconcile of one job on Kubernetes: observe, decide, apply, with one write of its status.

`loop` calls `Reconciler.reconcile` with a job's key. If a decision asks for another one at once,
that follows before other jobs are reconciled.

The first decision is made from the caches, which may lag. If it needs a live read
(`read_consistency`), it is made again from live reads before any part of it is applied. In both
cases the job is read before its children.
"""

import asyncio
import contextlib
import logging
import re
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from imagenet_operator.api import ImageNetJob, Manifest, validation
from imagenet_operator.clusters.apply import apply, writes_status
from imagenet_operator.clusters.interface import ClusterError, Conflict, JobKey
from imagenet_operator.clusters.kubernetes import metrics, stored_job
from imagenet_operator.clusters.kubernetes.cache import Stored
from imagenet_operator.clusters.kubernetes.client import NOT_FOUND, ApiError
from imagenet_operator.clusters.kubernetes.cluster import (
    UNPROCESSABLE,
    Invalid,
    KubernetesCluster,
    key_of,
)
from imagenet_operator.clusters.kubernetes.read_consistency import ReadConsistency, required
from imagenet_operator.clusters.kubernetes.stored_job import Unreadable
from imagenet_operator.manifests import volumes
from imagenet_operator.reconcile import observe, rejection
from imagenet_operator.reconcile.context import EVENT_MAXIMUM
from imagenet_operator.reconcile.decide import decide, is_finished, is_resuming
from imagenet_operator.reconcile.policies import gang
from imagenet_operator.reconcile.sample import Sample
from imagenet_operator.reconcile.types import Capacity, Decision, Event, ReconcileSettings

LOGGER = logging.getLogger(__name__)

MAX_ROUNDS: Final = 8
"""How many decisions in a row one reconcile may make before other jobs have their turn."""

AT_ONCE = timedelta(0)

_NAMES_AND_NUMBERS: Final = re.compile(r'"[^"]*"|[0-9]+')


@dataclass(frozen=True)
class _NamedClaims:
    """The claims that a job names before it starts, and those of them that exist."""

    names: frozenset[str]
    found: list[Manifest]

    @property
    def absent(self) -> frozenset[str]:
        """The names without a claim."""
        return self.names - {item["metadata"]["name"] for item in self.found}


@dataclass(frozen=True)
class _View:
    """A job and its surroundings at one moment.

    Attributes:
        stored: The job, as the API server stores it.
        children: Its children, and other objects with names that it needs.
        unreachable: Nodes of its pods that are not ready, gone or out of service.
        absent: Claims that it names and that do not exist.
    """

    stored: Stored
    children: list[Manifest]
    unreachable: frozenset[str]
    absent: frozenset[str] = frozenset()


@dataclass(frozen=True)
class _Room:
    """The free capacity, for a job that waits for it."""

    free: Capacity | None


def now() -> datetime:
    """Return the time, with its zone."""
    return datetime.now(UTC)


class Reconciler:
    """Reconciles jobs.

    Args:
        cluster: What is observed and acted upon.
        settings: The settings of the decisions.
        latest: Returns the newest sample of the job with a key and a UID, or None.
        clock: The time.
    """

    def __init__(
        self,
        cluster: KubernetesCluster,
        settings: ReconcileSettings,
        latest: Callable[[JobKey, str], Sample | None],
        clock: Callable[[], datetime] = now,
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._latest = latest
        self._clock = clock
        self._reported: dict[JobKey, set[str]] = {}

    def forget(self, key: JobKey) -> None:
        """Drop what is known of a job that is gone."""
        self._reported.pop(key, None)

    async def reconcile(self, key: JobKey) -> timedelta | None:
        """Reconcile a job until no decision follows at once.

        Returns:
            When to reconcile again without an event; None for never.

        Raises:
            ClusterError: The API server refused something, did not answer, or the caches lagged.
        """
        await self._cluster.recheck_foreign(key)
        consistency, named = ReadConsistency.CACHED, None
        for _ in range(MAX_ROUNDS):
            stored = self._cluster.jobs.get(*key)
            if stored is None or not stored_job.is_ours_to_run(stored.manifest()):
                return None
            try:
                job = stored_job.read(stored)
            except Unreadable as error:
                requeue_after = await self._fail_unreadable(key, stored, error)
                if requeue_after != AT_ONCE:
                    return requeue_after
                continue
            if not (_is_new(job) or is_resuming(job)):
                named = None
            elif named is None or named.names != _claims_of(job):
                named = await self._read_before_start(key, job)
                consistency = ReadConsistency.LIVE_JOB
                continue
            view = await self._observe(job, stored, named)
            consistency, requeue_after = await self._round(key, job, view, consistency)
            if requeue_after != AT_ONCE:
                return requeue_after
        return AT_ONCE

    async def _observe(
        self, job: ImageNetJob, stored: Stored, named: _NamedClaims | None = None
    ) -> _View:
        children = await self._cluster.observe(job)
        unreachable = await self._cluster.unreachable_nodes(job)
        if named is None:
            return _View(stored, children, unreachable)
        return _View(stored, [*children, *named.found], unreachable, named.absent)

    async def _read_before_start(self, key: JobKey, job: ImageNetJob) -> _NamedClaims:
        """Read the job and the claims that it names, at once, before it starts or resumes.

        More workers may need more of the claims after a suspension.
        """
        names = _claims_of(job)
        found, _ = await asyncio.gather(
            self._cluster.named_claims.read(key[0], names), self._cluster.refresh_job(key)
        )
        return _NamedClaims(names, found)

    async def _round(
        self, key: JobKey, job: ImageNetJob, view: _View, consistency: ReadConsistency
    ) -> tuple[ReadConsistency, timedelta | None]:
        """Decide, and apply the decision if the view is consistent enough for it.

        Returns:
            The consistency of the next view, and when to reconcile again.
        """
        async with self._room(job, view) as room:
            if room is None:
                return consistency, self._settings.requeue_interval
            decision = self._decide(job, view, room.free)
            wanted = required(job.status, decision)
            if wanted <= consistency:
                decision = await self._apply(key, job, decision)
                return _after(job, decision), decision.requeue_after
        await self._refresh(key, wanted)
        return wanted, AT_ONCE

    @contextlib.asynccontextmanager
    async def _room(self, job: ImageNetJob, view: _View) -> AsyncIterator[_Room | None]:
        """Give a waiting gang the free capacity; None if too many others wait for it."""
        if not stored_job.waits_for_room(job, view.children):
            yield _Room(None)
            return
        async with self._cluster.capacity_lock.acquire(key_of(job)) as is_held:
            yield _Room(await self._cluster.free_capacity()) if is_held else None

    def _decide(self, job: ImageNetJob, view: _View, free: Capacity | None) -> Decision:
        time = self._clock()
        if _is_new(job):
            problems = validation.validate(view.stored.manifest())
            if problems:
                reason, message = rejection.reason_of(problems), stored_job.in_words(problems)
                return rejection.reject(job, reason, message, time, self._settings)
        observed = observe.sort(
            job,
            view.children,
            unreachable_nodes=view.unreachable,
            absent=view.absent,
            free=free,
        )
        return decide(
            job, observed, self._latest(key_of(job), view.stored.uid), time, self._settings
        )

    async def _refresh(self, key: JobKey, wanted: ReadConsistency) -> None:
        if wanted is ReadConsistency.LIVE_ALL:
            await self._cluster.refresh(key)
        else:
            await self._cluster.refresh_job(key)

    async def _apply(self, key: JobKey, job: ImageNetJob, decision: Decision) -> Decision:
        """Apply a decision, or one that fails the job; return the one that was applied."""
        try:
            applied = await apply(self._cluster, job, decision)
        except Invalid as error:
            # The template is invalid, and the API server will always refuse it.
            decision = rejection.reject(
                job, "InvalidTemplate", str(error), self._clock(), self._settings
            )
            applied = await apply(self._cluster, job, decision)
        except Conflict:
            await self._cluster.refresh_job(key)
            raise
        except ApiError as error:
            if error.code == NOT_FOUND:
                await self._cluster.refresh_job(key)
            else:
                await self._report(key, job, error)
            raise
        _log_and_count(key, job, decision)
        if applied.refused:
            return await self._retry_later(key, job, applied.refused, decision)
        if not _is_cut_off(decision):
            self._reported.pop(key, None)
        return decision

    async def _retry_later(
        self, key: JobKey, job: ImageNetJob, refused: Iterable[ClusterError], decision: Decision
    ) -> Decision:
        """Report refused patches, and reconcile again soon: no event says when to retry."""
        for failure in refused:
            LOGGER.warning("%s/%s: %s", *key, failure)
            if isinstance(failure, ApiError):
                await self._report(key, job, failure)
        interval = self._settings.requeue_interval
        requeue_after = decision.requeue_after
        soon = interval if requeue_after is None else min(requeue_after, interval)
        return replace(decision, requeue_after=soon)

    async def _report(self, key: JobKey, job: ImageNetJob, error: ApiError) -> None:
        """Record an event about a refusal, such as an exceeded quota, once."""
        reported = self._reported.setdefault(key, set())
        gist = _gist(error.message)
        if 400 <= error.code < 500 and gist not in reported:
            reported.add(gist)
            event = Event("Warning", "ApiServerRefused", error.message[:EVENT_MAXIMUM])
            await self._cluster.record_event(job, event)

    async def _fail_unreadable(
        self, key: JobKey, stored: Stored, error: Unreadable
    ) -> timedelta | None:
        """Fail a job that cannot be read, and delete its children; return when to reconcile again.

        If its status cannot be written nothing is deleted: a deletion has to be recorded first.
        """
        LOGGER.error("%s/%s: cannot be reconciled: %s", *key, error)
        if error.status is None:
            return None
        job = stored_job.stub(stored, error.status)
        if is_finished(job.status):
            view = await self._observe(job, stored)
            observed = observe.sort(job, view.children, unreachable_nodes=view.unreachable)
            decision = decide(job, observed, None, self._clock(), self._settings)
            decision = replace(decision, status=job.status)
            return (await self._apply(key, job, decision)).requeue_after
        reason, message = error.reason, str(error)
        status = rejection.rejected_status(
            job.status, error.generation, reason, message, self._clock()
        )
        due = Event("Warning", reason, message[:EVENT_MAXIMUM])
        try:
            await self._apply(key, job, Decision(status, events=(due,)))
        except ApiError as refused:
            if refused.code != UNPROCESSABLE:
                raise
            LOGGER.error("%s/%s: its status cannot be written: %s", *key, refused)
            return None
        return AT_ONCE


def _is_new(job: ImageNetJob) -> bool:
    return job.status.start_time is None and not is_finished(job.status)


def _claims_of(job: ImageNetJob) -> frozenset[str]:
    return frozenset(item.claim for item in volumes.existing(job))


def _after(job: ImageNetJob, decision: Decision) -> ReadConsistency:
    """Return the consistency after a decision: a status write returns the live job."""
    return ReadConsistency.LIVE_JOB if writes_status(job, decision) else ReadConsistency.CACHED


def _is_cut_off(decision: Decision) -> bool:
    """Whether a decision ends an attempt because some of its objects could not be created.

    Such a decision only deletes; it does not show that the API server now accepts the objects.
    """
    training = decision.status.training
    outcome = None if training is None else training.outcome
    return outcome is not None and outcome.reason == gang.CUT_OFF.reason


def _gist(message: str) -> str:
    """Return a refusal without names and numbers, which change with the attempt."""
    return _NAMES_AND_NUMBERS.sub("", message)


def _log_and_count(key: JobKey, job: ImageNetJob, decision: Decision) -> None:
    """Log and count the changes of a decision."""
    before, after = job.status, decision.status
    if before.phase != after.phase:
        LOGGER.info("%s/%s: %s", *key, after.phase)
    for event in decision.events:
        level = logging.INFO if event.type == "Normal" else logging.WARNING
        LOGGER.log(level, "%s/%s: %s: %s", *key, event.reason, event.message)
    if after.restarts > before.restarts or after.disruptions > before.disruptions:
        # The end of a suspended attempt, or of one without capacity, is not a restart.
        outcome = None if after.training is None else after.training.outcome
        metrics.count_restart(*key, "Unknown" if outcome is None else outcome.reason)
