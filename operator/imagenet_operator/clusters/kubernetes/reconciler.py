"""Passes over one job: observe, decide, apply, with at most one write of its status.

Where a decision asks for another at once, that is made before other jobs have their turn.

The decision is made from the caches first. Where it hangs on something that is not there
(`certainty`), it is made again from live reads before any of it is done.
"""

import asyncio
import contextlib
import logging
import re
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
    Actions,
    KubernetesCluster,
    Refused,
    View,
)
from imagenet_operator.clusters.kubernetes.stored_job import Unreadable
from imagenet_operator.manifests import volumes
from imagenet_operator.reconcile import observe, refusal
from imagenet_operator.reconcile.decide import decide, is_finished
from imagenet_operator.reconcile.draft import EVENT_MAXIMUM
from imagenet_operator.reconcile.policies import gang
from imagenet_operator.reconcile.sample import Sample
from imagenet_operator.reconcile.types import Capacity, Decision, Event, Settings

LOGGER = logging.getLogger(__name__)

MOST_ROUNDS: Final = 8
"""How many passes in a row one job may have before others have their turn."""

AT_ONCE = timedelta(0)

_NAMES_AND_NUMBERS: Final = re.compile(r'"[^"]*"|[0-9]+')


@dataclass(frozen=True)
class _NamedClaims:
    """The claims that a job that has not started names, and those of them that there are."""

    names: frozenset[str]
    found: list[Manifest]

    @property
    def absent(self) -> frozenset[str]:
        """Those of them that there are not."""
        return self.names - {item["metadata"]["name"] for item in self.found}


@dataclass(frozen=True)
class _Room:
    """What nodes have left, for whom it matters and as far as that is known."""

    free: Capacity | None


def now() -> datetime:
    """Return the time, with its zone."""
    return datetime.now(UTC)


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
        clock: Callable[[], datetime] = now,
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._latest = latest
        self._clock = clock
        self._complaints: dict[JobKey, set[str]] = {}

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
                children = [*view.children, *named.found]
                view = replace(view, children=children, absent=named.absent)
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
        async with self._room(key, job, view) as room:
            if room is None:
                return certainty, self._settings.patience
            decision = self._decide(key, job, view, room.free)
            wanted = needed(job.status, decision)
            if wanted <= certainty:
                decision = await self._apply(key, job, view, decision)
                return _after(job, decision), decision.again_after
        await self._make_certain(key, wanted)
        return wanted, AT_ONCE

    @contextlib.asynccontextmanager
    async def _room(self, key: JobKey, job: ImageNetJob, view: View) -> AsyncIterator[_Room | None]:
        """Give what nodes have left to a gang that waits for it, but None if others are first."""
        if not stored_job.waits_for_room(job, view.children):
            yield _Room(None)
            return
        async with self._cluster.gang_room.turn(key) as is_its_turn:
            yield _Room(await self._cluster.free_capacity()) if is_its_turn else None

    def _decide(self, key: JobKey, job: ImageNetJob, view: View, free: Capacity | None) -> Decision:
        time = self._clock()
        if _is_new(job):
            problems = validation.validate(view.job.manifest())
            if problems:
                reason, message = refusal.reason_of(problems), stored_job.in_words(problems)
                return refusal.refuse(job, reason, message, time, self._settings)
        observed = observe.sort(
            job,
            view.children,
            unreachable_nodes=view.unreachable,
            absent=view.absent,
            free=free,
        )
        return decide(job, observed, self._latest(key, view.job.uid), time, self._settings)

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
            else:
                await self._complain(key, job, actions, error)
            raise
        _tell(key, job, decision)
        if actions.refused:
            return await self._insist(key, job, actions, decision)
        if not _is_cut_off(decision):
            self._complaints.pop(key, None)
        return decision

    async def _insist(
        self, key: JobKey, job: ImageNetJob, actions: Actions, decision: Decision
    ) -> Decision:
        """Tell what was refused of a decision that was carried out, and have it tried again."""
        for failure in actions.refused:
            LOGGER.warning("%s/%s: %s", *key, failure)
            await self._complain(key, job, actions, failure)
        # No event may tell that it would be taken by now.
        patience = self._settings.patience
        again_after = decision.again_after
        soon = patience if again_after is None else min(again_after, patience)
        return replace(decision, again_after=soon)

    async def _complain(
        self, key: JobKey, job: ImageNetJob, actions: Actions, error: ApiError
    ) -> None:
        """Tell of a refusal, but not again and again.

        A full quota, say: whoever asked for the job can do something about it.
        """
        told = self._complaints.setdefault(key, set())
        gist = _gist(error.message)
        if 400 <= error.code < 500 and gist not in told:
            told.add(gist)
            event = Event("Warning", "ApiServerRefused", error.message[:EVENT_MAXIMUM])
            await actions.record_event(job, event)

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
            decision = replace(decision, status=job.status)
            return (await self._apply(key, job, view, decision)).again_after
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


def _is_cut_off(decision: Decision) -> bool:
    """Whether a decision follows from an attempt of which not all could be made.

    It says no more than that there is something to be cleared away: what was refused still is, as
    far as is known, until an attempt is made whole.
    """
    training = decision.status.training
    outcome = None if training is None else training.outcome
    return outcome is not None and outcome.reason == gang.CUT_OFF.reason


def _gist(message: str) -> str:
    """What stays the same of a refusal while names and numbers in it change with the attempt."""
    return _NAMES_AND_NUMBERS.sub("", message)


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
