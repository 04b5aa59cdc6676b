"""The reconcile of one job on Kubernetes: observe, decide, apply, with one write of its status.

`loop` calls `Reconciler.reconcile` with a job's key. If a decision asks for another one at once,
that follows before other jobs are reconciled.

The first decision is made from the caches, which lag a moment behind the API server. That is safe
for a decision about an object that is seen: every write names a UID or a resource version. It is
not safe for a decision about an object that is *not* seen: a pod that was just created looks as if
it had vanished. Such decisions are rare, and are made again from live reads before any part of them
is applied. In both cases the job is read before its children.

A refusal of the API server stays until a decision is applied whole: it is part of the next
`Observed`, so that a condition can say it, and an event of the job.
"""

import asyncio
import contextlib
import logging
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from typing import Final, NamedTuple

from imagenet_operator.clusters.apply import apply, writes_status
from imagenet_operator.clusters.interface import ClusterError, Conflict, JobKey, key_of
from imagenet_operator.clusters.kubernetes import metrics, objects, stored_jobs
from imagenet_operator.clusters.kubernetes.client import NOT_FOUND, ApiError
from imagenet_operator.clusters.kubernetes.cluster import Invalid, KubernetesCluster
from imagenet_operator.clusters.kubernetes.objects import Stored
from imagenet_operator.manifests import volumes
from imagenet_operator.reconcile import attempt_size, explanation, observe
from imagenet_operator.reconcile.context import EVENT_MAXIMUM
from imagenet_operator.reconcile.decide import (
    decide,
    is_finished,
    is_resuming,
    reject,
    rejection_reason,
)
from imagenet_operator.reconcile.policies import gang, job_status, version_skew
from imagenet_operator.reconcile.sample import Sample
from imagenet_operator.reconcile.types import (
    Capacity,
    Decision,
    Event,
    Observed,
    ReconcileSettings,
    Refusal,
)
from imagenet_spec.errors import Problem
from imagenet_spec.resource import ImageNetJob, Manifest
from imagenet_spec.resource.status import Clock, Status, TrainingStatus
from imagenet_spec.stored import StoredJob

LOGGER = logging.getLogger(__name__)

MAX_ROUNDS: Final = 8
"""How many decisions in a row one reconcile may make before other jobs have their turn."""

AT_ONCE = timedelta(0)

_NAMES_AND_NUMBERS: Final = re.compile(r'"[^"]*"|[0-9]+')

_PASSING: Final = frozenset({401, 404, 409, 429})
"""Codes that say nothing about what was sent."""


class ReadConsistency(IntEnum):
    """Where a view of a job was read from."""

    CACHED = 0
    """The job and its children are from the caches."""

    LIVE_JOB = 1
    """The job is from the API server, its children are from the caches."""

    LIVE_ALL = 2
    """The job and then its children are from the API server."""


def required(before: Status, decision: Decision) -> ReadConsistency:
    """Return the read consistency that a decision needs."""
    after = decision.status
    was_suspended = job_status.holds(before.conditions, "Suspended")
    former, training = before.training, after.training
    if (
        # The job, a step of its preparation, or an attempt ends, perhaps for an absence.
        (is_finished(after) and not is_finished(before))
        or before.dataset != after.dataset
        or (training is not None and _is_lost(former, training))
        # No pod of the job is left.
        or (job_status.holds(after.conditions, "Suspended") and not was_suspended)
        # An attempt starts while pods of an earlier one may exist.
        or (training is not None and training.attempt != (0 if former is None else former.attempt))
        or (any(item.kind == "Job" for item in decision.delete) and not is_finished(before))
    ):
        return ReadConsistency.LIVE_ALL
    # The API server refuses a second create of one name, but not children of an outdated job. A
    # delete cannot be undone, and the cached job may hold a shorter time to live.
    is_about_job = decision.create or any(item.kind == objects.JOB.name for item in decision.delete)
    return ReadConsistency.LIVE_JOB if is_about_job else ReadConsistency.CACHED


def _is_lost(former: TrainingStatus | None, training: TrainingStatus) -> bool:
    """Whether an attempt ends, or one of its members has vanished."""
    if training.outcome is not None and (former is None or former.outcome is None):
        return True
    known = {} if former is None else {member.name: member.phase for member in former.members}
    return any(
        member.phase == "Unknown" and known.get(member.name) != "Unknown"
        for member in training.members
    )


class Refusals:
    """The last refusal of each job."""

    def __init__(self) -> None:
        self.latest: dict[JobKey, Refusal] = {}
        self._episodes: dict[JobKey, int] = {}

    def note(self, key: JobKey, error: ApiError) -> Refusal | None:
        """Keep an error as the job's last refusal; None if the same request may be accepted later.

        A create that fails was sent several times. The refusal of a status cannot be in the status.
        """
        is_refused = 400 <= error.code < 500 or (
            error.code >= 500 and error.request.startswith("POST ")
        )
        if not is_refused or error.code in _PASSING or error.request.startswith("PUT "):
            return None
        self.latest[key] = Refusal(error.message)
        return self.latest[key]

    def end(self, key: JobKey) -> None:
        """End a job's refusals: a decision was applied whole. The next one begins a new series."""
        if self.latest.pop(key, None) is not None:
            self._episodes[key] = self._episodes.get(key, 0) + 1

    def forget(self, key: JobKey) -> None:
        self.latest.pop(key, None)
        self._episodes.pop(key, None)

    def event(self, key: JobKey, error: ApiError) -> Event | None:
        """Return the event about an error; None if it is not about what was sent."""
        if not 400 <= error.code < 500:
            return None
        series = f"{self._episodes.get(key, 0)} {_NAMES_AND_NUMBERS.sub('', error.message)}"
        return Event("Warning", "ApiServerRefused", error.message[:EVENT_MAXIMUM], series)


@dataclass(frozen=True)
class _NamedClaims:
    """The claims that a job names before it starts, and those of them that exist."""

    names: frozenset[str]
    found: list[Manifest]

    @property
    def absent(self) -> frozenset[str]:
        return self.names - {item["metadata"]["name"] for item in self.found}


@dataclass(frozen=True)
class _View:
    """A job and its surroundings at one moment, without free capacity and the last refusal."""

    stored: Stored
    found: StoredJob
    children: list[Manifest]
    observed: Observed


class _Room(NamedTuple):
    """Whether a job may be decided now, and the free capacity if it is known."""

    has_turn: bool
    free: Capacity | None = None


def now() -> datetime:
    """Return the time, with its zone."""
    return datetime.now(UTC)


class Reconciler:
    """Reconciles jobs."""

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
        self._refusals = Refusals()
        # Of new jobs, with the UID and generation that were judged.
        self._faults: dict[JobKey, tuple[str, int, list[Problem]]] = {}

    def forget(self, key: JobKey) -> None:
        self._refusals.forget(key)
        self._faults.pop(key, None)

    async def reconcile(self, key: JobKey) -> timedelta | None:
        """Reconcile a job until no decision follows at once; return when to reconcile it again."""
        await self._cluster.recheck_foreign(key)
        consistency, named = ReadConsistency.CACHED, None
        for _ in range(MAX_ROUNDS):
            stored = self._cluster.jobs.get(*key)
            if stored is None or not stored_jobs.is_ours_to_run(stored.manifest()):
                return None
            found = stored_jobs.read(stored)
            job = found.job
            if found.problems or not (_is_new(job) or is_resuming(job)):
                named = None
            elif named is None or named.names != _claims_of(job):
                # At once, before it starts or resumes: more workers may need more of the claims.
                names = _claims_of(job)
                claims, _ = await asyncio.gather(
                    self._cluster.named_claims.read(key[0], names), self._cluster.refresh_job(key)
                )
                named = _NamedClaims(names, claims)
                consistency = ReadConsistency.LIVE_JOB
                continue
            if named is not None and not _has_created(job):
                await self._try_pods(key, job)
            view = await self._observe(found, stored, named)
            consistency, requeue_after = await self._round(key, job, view, consistency)
            if requeue_after != AT_ONCE:
                return requeue_after
        return AT_ONCE

    async def _observe(self, found: StoredJob, stored: Stored, named: _NamedClaims | None) -> _View:
        """Read the surroundings of a job, Events included, before it may wait for the lock."""
        children = await self._cluster.observe(found.job)
        if named is not None:
            children = [*children, *named.found]
        observed = observe.sort(
            found.job,
            children,
            unreachable_nodes=await self._cluster.unreachable_nodes(found.job),
            absent=frozenset() if named is None else named.absent,
        )
        events = await self._cluster.object_events.read(
            key_of(found.job), observed.waiting, self._clock()
        )
        observed = replace(
            observed,
            unsupported=found.problems,
            events=events,
            sharers=self._cluster.sharers.find(found.job),
        )
        return _View(stored, found, children, observed)

    async def _try_pods(self, key: JobKey, job: ImageNetJob) -> None:
        """Have the pods of a job judged, before anything is created for this generation of it."""
        if self._cluster.dry_runs.verdict(job) is not None:
            return
        try:
            verdict = await self._cluster.dry_runs.run(job, self._settings.manifests)
        except ApiError as error:
            await self._report(key, job, error)
            await self._explain(key, job, error)
            raise
        for note in verdict.notes:
            event = Event("Warning", "DryRunSkipped", note[:EVENT_MAXIMUM])
            await self._cluster.record_event(job, event)

    async def _round(
        self, key: JobKey, job: ImageNetJob, view: _View, consistency: ReadConsistency
    ) -> tuple[ReadConsistency, timedelta | None]:
        """Decide, and apply the decision if the view is consistent enough for it.

        Returns the consistency of the next view, and when to reconcile again.
        """
        async with self._room(job, view) as room:
            if not room.has_turn:
                return consistency, self._settings.requeue_interval
            decision = self._decide(job, view, room.free)
            wanted = required(job.status, decision)
            if wanted <= consistency:
                if room.free is not None and attempt_size.grows(job, decision.status):
                    pods = attempt_size.further_pods(job, room.free, self._settings)
                    self._cluster.capacity_lock.reserve(key, pods)
                decision = await self._apply(key, job, decision)
                if not attempt_size.awaits_growth(job, decision.status):
                    self._cluster.capacity_lock.release(key)
                # A status write returns the live job.
                is_live = writes_status(job, decision)
                after = ReadConsistency.LIVE_JOB if is_live else ReadConsistency.CACHED
                return after, decision.requeue_after
        if wanted is ReadConsistency.LIVE_ALL:
            await self._cluster.refresh(key)
        else:
            await self._cluster.refresh_job(key)
        return wanted, AT_ONCE

    @contextlib.asynccontextmanager
    async def _room(self, job: ImageNetJob, view: _View) -> AsyncIterator[_Room]:
        """Give the free capacity to a waiting gang, and to a job that may change its workers.

        Too many others may wait for it; a job that trains need not wait for its growth.
        """
        starts = attempt_size.depends_on_capacity(job, view.observed)
        must_know = starts or stored_jobs.waits_for_room(job, view.children)
        if not (must_know or attempt_size.is_shrunk(job)):
            yield _Room(has_turn=True)
            return
        lock = self._cluster.capacity_lock
        async with lock.acquire(key_of(job)) as is_held:
            if not is_held:
                yield _Room(has_turn=not must_know)
                return
            if starts:
                # The list may still hold the pods of the attempt before.
                lock.invalidate()
            yield _Room(True, await self._cluster.free_capacity(job))

    def _decide(self, job: ImageNetJob, view: _View, free: Capacity | None) -> Decision:
        time = self._clock()
        if _is_new(job) and (faults := self._judge(view)):
            reason, message = rejection_reason(faults), stored_jobs.one_line(faults)
            return reject(job, reason, message, time, self._settings)
        is_tried = not is_finished(job.status) and not _has_created(job)
        verdict = self._cluster.dry_runs.verdict(job) if is_tried else None
        if verdict is not None and verdict.rejection is not None:
            return reject(job, *verdict.rejection, time, self._settings)
        key = key_of(job)
        observed = replace(
            view.observed,
            free=free,
            refusal=self._refusals.latest.get(key),
            # The pods that were tried are those of all manifests.
            is_built=verdict is not None,
        )
        return decide(job, observed, self._latest(key, view.stored.uid), time, self._settings)

    def _judge(self, view: _View) -> list[Problem]:
        """Return the faults of a new job, which are found once for each generation of it."""
        metadata = view.found.job.metadata
        key = key_of(view.found.job)
        uid, generation, faults = self._faults.get(key, ("", 0, []))
        # What is found when a job is read is not of its generation alone.
        if view.found.problems or (uid, generation) != (metadata.uid, metadata.generation):
            profile = self._settings.manifests.template_profile
            faults = stored_jobs.faults(view.found, view.stored.manifest(), profile)
            self._faults[key] = metadata.uid, metadata.generation, faults
        return faults

    async def _apply(self, key: JobKey, job: ImageNetJob, decision: Decision) -> Decision:
        """Apply a decision, or one that fails the job; return the one that was applied."""
        last_lines = await self._cluster.last_lines(job, decision.status)
        if last_lines is not None:
            decision = replace(decision, events=(*decision.events, last_lines))
        try:
            applied = await apply(self._cluster, job, decision)
        except Conflict:
            await self._cluster.refresh_job(key)
            raise
        except ApiError as error:
            # An upload after the end of a job does not change how it ended.
            if isinstance(error, Invalid) and not is_finished(job.status):
                # The template is invalid, and the API server will always refuse it.
                decision = reject(job, "InvalidTemplate", str(error), self._clock(), self._settings)
                applied = await apply(self._cluster, job, decision)
            else:
                if error.code == NOT_FOUND:
                    await self._cluster.refresh_job(key)
                else:
                    await self._report(key, job, error)
                    await self._explain(key, job, error)
                raise
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
        if applied.refused:
            # No event says when to retry refused patches.
            for failure in applied.refused:
                LOGGER.warning("%s/%s: %s", *key, failure)
                if isinstance(failure, ApiError):
                    await self._report(key, job, failure)
            interval = self._settings.requeue_interval
            requeue_after = decision.requeue_after
            soon = interval if requeue_after is None else min(requeue_after, interval)
            return replace(decision, requeue_after=soon)
        if not _is_cut_off(decision):
            self._refusals.end(key)
        return decision

    async def _report(self, key: JobKey, job: ImageNetJob, error: ApiError) -> None:
        """Record an event about a refusal, such as an exceeded quota."""
        event = self._refusals.event(key, error)
        if event is not None:
            await self._cluster.record_event(job, event)

    async def _explain(self, key: JobKey, job: ImageNetJob, error: ApiError) -> None:
        """Write into the status why a decision is not applied; only that, and only once."""
        refusal = self._refusals.note(key, error)
        if refusal is None:
            return
        decision = explanation.explain_refusal(job, refusal, self._clock(), self._settings)
        try:
            await apply(self._cluster, job, decision)
        except ClusterError as failure:
            LOGGER.debug("%s/%s: the refusal is not in the status yet: %s", *key, failure)


def _is_new(job: ImageNetJob) -> bool:
    return not version_skew.was_started(job.status) and not is_finished(job.status)


def _has_created(job: ImageNetJob) -> bool:
    """Whether objects were created for a job; a job that starts suspended has none."""
    status = job.status
    return status.training is not None or status.preparation not in (None, Clock())


def _claims_of(job: ImageNetJob) -> frozenset[str]:
    return frozenset(item.claim for item in volumes.existing(job))


def _is_cut_off(decision: Decision) -> bool:
    """Whether a decision ends an attempt because some of its objects could not be created.

    Such a decision only deletes; it does not show that the API server now accepts the objects.
    """
    training = decision.status.training
    outcome = None if training is None else training.outcome
    return outcome is not None and outcome.reason in (gang.CUT_OFF.reason, gang.OVER_QUOTA)
