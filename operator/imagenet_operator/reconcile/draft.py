"""The decision in the making: what the steps of one pass write into.

The steps of `decide` (preparation, training, the finish) read the job and the buckets here, and
add to the lists; the status is a value that is replaced, never changed in place, and starts as
the one that the job has.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from imagenet_operator.api import ImageNetJob
from imagenet_operator.api.status import ConditionType, Status, TrainingStatus
from imagenet_operator.reconcile.policies import clock, conditions, phase, replicas
from imagenet_operator.reconcile.sample import Sample
from imagenet_operator.reconcile.types import (
    Decision,
    Event,
    Manifest,
    Observed,
    Patch,
    Reference,
    Settings,
)

_UNTIL_THE_END: tuple[ConditionType, ...] = ("Running", "Restarting", "Suspended")
"""Conditions that can hold of an unfinished job only."""

EVENT_MAXIMUM = 1024
"""Characters of an event's message; the API server refuses a longer one."""


class Draft:
    """One pass: its inputs, and what has been decided so far.

    Attributes:
        job: The job as it was read, with the status that is recorded.
        observed: The buckets.
        sample: The newest sample, if there is one.
        now: The time of the pass, in whole seconds as a status keeps times.
        settings: The operator's.
        status: The new status so far.
    """

    def __init__(
        self,
        job: ImageNetJob,
        observed: Observed,
        sample: Sample | None,
        now: datetime,
        settings: Settings,
    ) -> None:
        self.job = job
        self.observed = observed
        self.sample = sample
        self.now = now.astimezone(UTC).replace(microsecond=0)
        self.settings = settings
        self.status: Status = job.status
        self._create: list[Manifest] = []
        self._delete: list[Reference] = []
        self._patch: list[Patch] = []
        self._events: list[Event] = []
        self._again: list[datetime] = []

    @property
    def training(self) -> TrainingStatus:
        """The status of the attempt that is being looked at; there must be one."""
        assert self.status.training is not None
        return self.status.training

    @property
    def described(self) -> ImageNetJob:
        """The job with the new status so far, from which attempts are built."""
        return self.job.model_copy(update={"status": self.status})

    @property
    def is_prepared(self) -> bool:
        """Whether the job's dataset was prepared by another."""
        return self.job.spec.dataset.source.prepared is not None

    @property
    def deletes_something(self) -> bool:
        """Whether an object is to be deleted so far."""
        return bool(self._delete)

    def update(self, **changes: Any) -> None:
        """Replace fields of the status."""
        self.status = self.status.model_copy(update=changes)

    def update_training(self, **changes: Any) -> None:
        """Replace fields of the attempt's status."""
        self.update(training=self.training.model_copy(update=changes))

    def holds(self, kind: ConditionType) -> bool:
        """Whether a condition is True in the new status so far."""
        return conditions.holds(self.status.conditions, kind)

    def state(self, kind: ConditionType, value: bool, reason: str, message: str = "") -> bool:
        """Set a condition; return whether its status or its reason is another than before."""
        former = conditions.find(self.status.conditions, kind)
        self.update(
            conditions=conditions.put(
                self.status.conditions,
                kind,
                value,
                reason,
                message,
                now=self.now,
                generation=self.job.metadata.generation,
            )
        )
        changed = conditions.find(self.status.conditions, kind)
        assert changed is not None
        return former is None or (former.status, former.reason) != (changed.status, changed.reason)

    def create(self, manifests: Iterable[Manifest]) -> None:
        """Have objects created, in this order, after those that were asked for before."""
        self._create += manifests

    def create_or_wait(self, kind: ConditionType, manifests: list[Manifest]) -> bool:
        """Have objects created, unless somebody else holds one of their names; return whether so.

        Args:
            kind: The condition that says for which names the job waits.
            manifests: The objects.
        """
        taken = [
            f"{item['kind']} {item['metadata']['name']} belongs to {whose}"
            for item in manifests
            if (whose := self.observed.foreign.get((item["kind"], item["metadata"]["name"])))
        ]
        if not taken:
            self.create(manifests)
            return True
        conflict = f"{'; '.join(taken)}; waiting until the name is free"
        if self.state(kind, False, "NameConflict", conflict):
            self.warn("NameConflict", conflict)
        self.look_again(self.now + self.settings.patience)
        return False

    def delete(self, references: Iterable[Reference]) -> None:
        """Have objects deleted."""
        self._delete += references

    def patch(self, patches: Iterable[Patch]) -> None:
        """Have objects patched."""
        self._patch += patches

    def tell(self, reason: str, message: str) -> None:
        """Record an event about something that went as it should."""
        self._events.append(Event("Normal", reason, message[:EVENT_MAXIMUM]))

    def warn(self, reason: str, message: str) -> None:
        """Record an event about something that somebody may want to look into."""
        self._events.append(Event("Warning", reason, message[:EVENT_MAXIMUM]))

    def look_again(self, at: datetime | None) -> None:
        """Have the job looked at again at a time, or before; None asks for nothing."""
        if at is not None:
            self._again.append(at)

    def look_at_once(self) -> None:
        """Have the job looked at again as soon as this decision is applied."""
        self._again.append(self.now)

    def fail(self, reason: str, message: str) -> None:
        """End the job: it has failed."""
        self.state("Failed", True, reason, message)
        self.end(reason, message)
        self.warn(reason, message)

    def end(self, reason: str, message: str) -> None:
        """Note that the job has ended, in whichever way; the cleanup follows in the next pass."""
        self.update(completion_time=self.now)
        for kind in _UNTIL_THE_END:
            if self.holds(kind):
                self.state(kind, False, reason, message)
        if self.status.preparation is not None:
            self.update(preparation=clock.stop(self.status.preparation, self.now))
        if self.status.training is not None:
            self.update_training(
                clock=clock.stop(self.training.clock, self.now),
                replica_statuses=replicas.settled(self.training.replica_statuses),
            )
        self.look_at_once()

    def decision(self) -> Decision:
        """Return what the pass decided."""
        self.update(observed_generation=self.job.metadata.generation, phase=phase.of(self.status))
        again = min(self._again, default=None)
        return Decision(
            status=self.status,
            create=tuple(self._create),
            delete=tuple(self._delete),
            patch=tuple(self._patch),
            events=tuple(self._events),
            again_after=None if again is None else max(timedelta(0), again - self.now),
        )
