"""One pass over one job: observe, decide, apply, and once more where the decision asks for it.

The decision is made from the caches first. Where it hangs on something that is not there
(`certainty`), it is made again from live reads before any of it is done.
"""

import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
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
"""How many decisions in a row one pass may make before other jobs have their turn."""

AT_ONCE = timedelta(0)


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
        """Make a pass over a job.

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
                await self._give_up(key, view, error)
                return None
            if job.status.start_time is None and not is_finished(job.status):
                # Others' claims are in no cache; what they allow is recorded when the job starts.
                named = await self._named_claims(key, job) if named is None else named
                view = replace(view, children=[*view.children, *named])
            async with self._room(job, view) as free:
                decision = self._decide(key, job, view, free)
                wanted = needed(job.status, decision)
                if wanted <= certainty:
                    decision = await self._apply(key, job, view, decision)
                    certainty = _after(job, decision)
                    if decision.again_after != AT_ONCE:
                        return decision.again_after
                    continue
            await self._make_certain(key, wanted)
            certainty = wanted
        return AT_ONCE

    async def _named_claims(self, key: JobKey, job: ImageNetJob) -> list[Manifest]:
        names = {item.claim for item in volumes.existing(job)}
        return await self._cluster.claims(key[0], names)

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
        if job.status.start_time is None and not is_finished(job.status):
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

    async def _give_up(self, key: JobKey, view: View, error: Unreadable) -> None:
        """Fail a job that cannot be read, as far as its status can be."""
        LOGGER.error("%s/%s: cannot be worked on: %s", *key, error)
        if error.status is None or is_finished(error.status):
            return
        status = refusal.refused(
            error.status, error.generation, error.reason, str(error), self._clock()
        )
        try:
            await self._cluster.write_status(key, view.job, status.to_manifest())
        except ApiError as refused:
            LOGGER.error("%s/%s: nor can its status say so: %s", *key, refused)


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
    former = None if before.training is None else before.training.outcome
    outcome = None if after.training is None else after.training.outcome
    if outcome is not None and outcome != former:
        metrics.RESTARTS.labels(*key, outcome.reason).inc()
