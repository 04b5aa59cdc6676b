"""Passes over one job: observe, decide, apply, with at most one write of its status.

Where a decision asks for another at once, that is made before other jobs have their turn.

The decision is made from the caches first. Where it hangs on something that is not there
(`certainty`), it is made again from live reads before any of it is done.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from imagenet_operator.api import ImageNetJob, Manifest, validation
from imagenet_operator.clusters.apply import apply_at_once, writes_status
from imagenet_operator.clusters.kubernetes import metrics, stored_job
from imagenet_operator.clusters.kubernetes.cache import JobKey
from imagenet_operator.clusters.kubernetes.certainty import Certainty, needed
from imagenet_operator.clusters.kubernetes.client import ApiError
from imagenet_operator.clusters.kubernetes.cluster import (
    CONFLICT,
    NOT_FOUND,
    UNPROCESSABLE,
    KubernetesCluster,
    Refused,
    View,
)
from imagenet_operator.clusters.kubernetes.stored_job import Unreadable
from imagenet_operator.manifests import volumes
from imagenet_operator.reconcile import observe, refusal
from imagenet_operator.reconcile.decide import decide, is_finished
from imagenet_operator.reconcile.draft import EVENT_MAXIMUM
from imagenet_operator.reconcile.sample import Sample
from imagenet_operator.reconcile.types import Capacity, Decision, Event, Settings

LOGGER = logging.getLogger(__name__)

MOST_ROUNDS: Final = 8
"""How many passes in a row one job may have before others have their turn."""

AT_ONCE = timedelta(0)


@dataclass(frozen=True)
class _NamedClaims:
    """The claims that a job that has not started names, and those of them that there are."""

    names: frozenset[str]
    found: list[Manifest]


class Reconciler:
    """Makes passes.

    Args:
        cluster: What is observed and acted upon.
        settings: Of the decisions.
        latest: The newest sample of a job, if there is one.
        clock: The time.
    """

    def __init__(
        self,
        cluster: KubernetesCluster,
        settings: Settings,
        latest: Callable[[JobKey, str], Sample | None],
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._latest = latest
        self._clock = clock
        self._complaints: dict[JobKey, str] = {}

    def forget(self, key: JobKey) -> None:
        """Drop what is known of a job that is gone."""
        self._complaints.pop(key, None)

    async def look(self, key: JobKey) -> timedelta | None:
        """Make a pass over a job, and those that are wanted right after it.

        Returns:
            When to look again even if nothing happens; None for never.

        Raises:
            ApiError: The API server refused something, or did not answer.
            NameTaken: The cluster was not as the caches said; they are right now.
        """
        await self._cluster.recheck_foreign(key)
        certainty, named = Certainty.CACHED, None
        for _ in range(MOST_ROUNDS):
            view = self._cluster.view(key)
            if view is None or not stored_job.is_ours_to_run(view.job.manifest()):
                return None
            try:
                job = stored_job.read(view.job)
            except Unreadable as error:
                again_after = await self._give_up(key, view, error)
                if again_after != AT_ONCE:
                    return again_after
                continue
            if _is_new(job):
                if named is None or named.names != _claims_of(job):
                    named, certainty = await self._read_before_start(key, job), Certainty.JOB
                    continue
                view = replace(view, children=[*view.children, *named.found])
            certainty, again_after = await self._round(key, job, view, certainty)
            if again_after != AT_ONCE:
                return again_after
        return AT_ONCE

    async def _read_before_start(self, key: JobKey, job: ImageNetJob) -> _NamedClaims:
        """Read what a start hangs on, all of it at once: the claims that a job names, and itself.

        Others' claims are in no cache; what they allow is recorded when the job starts.
        """
        names = _claims_of(job)
        found, _ = await asyncio.gather(
            self._cluster.claims(key[0], names), self._cluster.refresh_job(key)
        )
        return _NamedClaims(names, found)

    async def _round(
        self, key: JobKey, job: ImageNetJob, view: View, certainty: Certainty
    ) -> tuple[Certainty, timedelta | None]:
        """Decide, and do what was decided if the view is certain enough for it.

        Returns:
            How certain the next view is, and when to look again.
        """
        async with self._room(job, view) as free:
            decision = self._decide(key, job, view, free)
            wanted = needed(job.status, decision)
            if wanted <= certainty:
                decision = await self._apply(key, job, view, decision)
                return _after(job, decision), decision.again_after
        await self._make_certain(key, wanted)
        return wanted, AT_ONCE

    @contextlib.asynccontextmanager
    async def _room(self, job: ImageNetJob, view: View) -> AsyncIterator[Capacity | None]:
        """Give what nodes have left to a gang that waits for it, and to one at a time."""
        if not stored_job.waits_for_room(job, view.children):
            yield None
            return
        async with self._cluster.gang_lock:
            yield await self._cluster.free_capacity()

    def _decide(self, key: JobKey, job: ImageNetJob, view: View, free: Capacity | None) -> Decision:
        now = self._clock()
        if _is_new(job):
            problems = validation.validate(view.job.manifest())
            if problems:
                reason, message = refusal.reason_of(problems), stored_job.in_words(problems)
                return refusal.refuse(job, reason, message, now, self._settings)
        observed = observe.sort(job, view.children, unreachable_nodes=view.unreachable, free=free)
        return decide(job, observed, self._latest(key, view.job.uid), now, self._settings)

    async def _make_certain(self, key: JobKey, wanted: Certainty) -> None:
        if wanted is Certainty.ALL:
            await self._cluster.refresh(key)
        else:
            await self._cluster.refresh_job(key)

    async def _apply(
        self, key: JobKey, job: ImageNetJob, view: View, decision: Decision
    ) -> Decision:
        """Carry out a decision, or what follows from its being refused; return which it was."""
        actions = self._cluster.acting_for(key, view.job)
        try:
            await apply_at_once(actions, job, decision)
        except Refused as error:
            # Built from the job's template; what the API server refuses today it refuses for ever.
            decision = refusal.refuse(
                job, "InvalidTemplate", str(error), self._clock(), self._settings
            )
            await apply_at_once(actions, job, decision)
        except ApiError as error:
            if error.code in (CONFLICT, NOT_FOUND):
                await self._cluster.refresh_job(key)
            elif 400 <= error.code < 500 and self._complaints.get(key) != error.message:
                # A full quota, say: whoever asked for the job can do something about it.
                self._complaints[key] = error.message
                event = Event("Warning", "ApiServerRefused", error.message[:EVENT_MAXIMUM])
                await actions.record_event(job, event)
            raise
        self._complaints.pop(key, None)
        _tell(key, job, decision)
        return decision

    async def _give_up(self, key: JobKey, view: View, error: Unreadable) -> timedelta | None:
        """Fail a job that cannot be read, and clean up behind it; return when to look again.

        Where its status cannot say so nothing is touched: what goes has to be recorded before.
        """
        LOGGER.error("%s/%s: cannot be worked on: %s", *key, error)
        if error.status is None:
            return None
        job = stored_job.remains(view.job, error.status)
        if is_finished(job.status):
            observed = observe.sort(job, view.children, unreachable_nodes=view.unreachable)
            decision = decide(job, observed, None, self._clock(), self._settings)
            await self._apply(key, job, view, replace(decision, status=job.status))
            return decision.again_after
        reason, message = error.reason, str(error)
        status = refusal.refused(job.status, error.generation, reason, message, self._clock())
        told = Event("Warning", reason, message[:EVENT_MAXIMUM])
        try:
            await self._apply(key, job, view, Decision(status, events=(told,)))
        except ApiError as refused:
            if refused.code != UNPROCESSABLE:
                raise
            LOGGER.error("%s/%s: nor can its status say so: %s", *key, refused)
            return None
        return AT_ONCE


def _is_new(job: ImageNetJob) -> bool:
    return job.status.start_time is None and not is_finished(job.status)


def _claims_of(job: ImageNetJob) -> frozenset[str]:
    return frozenset(item.claim for item in volumes.existing(job))


def _after(job: ImageNetJob, decision: Decision) -> Certainty:
    """How sure the view is right after a decision: our own write returned the job as it is now."""
    return Certainty.JOB if writes_status(job, decision) else Certainty.CACHED


def _tell(key: JobKey, job: ImageNetJob, decision: Decision) -> None:
    """Log and count what a decision has changed."""
    before, after = job.status, decision.status
    if before.phase != after.phase:
        LOGGER.info("%s/%s: %s", *key, after.phase)
    for event in decision.events:
        level = logging.INFO if event.type == "Normal" else logging.WARNING
        LOGGER.log(level, "%s/%s: %s: %s", *key, event.reason, event.message)
    if after.restarts > before.restarts or after.disruptions > before.disruptions:
        # No other end of an attempt is a restart: that of a suspended one, of one without room, …
        outcome = None if after.training is None else after.training.outcome
        metrics.count_restart(*key, "Unknown" if outcome is None else outcome.reason)
