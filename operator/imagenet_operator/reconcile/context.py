"""The decision in the making: what the steps of one reconcile write into.

The steps of `decide` read the job and the buckets here, and add actions. The status is replaced,
never changed in place. It starts as the recorded one.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from imagenet_operator.reconcile.policies import deadlines, job_status, members, time_account
from imagenet_operator.reconcile.sample import Sample
from imagenet_operator.reconcile.types import (
    Attempt,
    Decision,
    Event,
    Manifest,
    Observed,
    Patch,
    ReconcileSettings,
    Reference,
)
from imagenet_spec.errors import Problem
from imagenet_spec.resource import ImageNetJob, member_groups, templates
from imagenet_spec.resource.status import ConditionType, Status, TrainingStatus

_UNTIL_THE_END: tuple[ConditionType, ...] = (
    "Running",
    "Restarting",
    "Straggling",
    "Suspended",
)
"""Conditions that are True only of an unfinished job."""

EVENT_MAXIMUM = 1024
"""Characters of an event's message; the API server refuses a longer one."""


class ReconcileContext:
    """One reconcile: its inputs, and the decision so far.

    `now` is in whole seconds as in a status. `status` is the new one so far.
    """

    def __init__(
        self,
        job: ImageNetJob,
        observed: Observed,
        sample: Sample | None,
        now: datetime,
        settings: ReconcileSettings,
    ) -> None:
        self.job = job
        self.observed = observed
        self.sample = sample
        self.now = now.astimezone(UTC).replace(microsecond=0)
        self.settings = settings
        self.status: Status = job.status
        self.created: list[Manifest] = []
        self.deleted: list[Reference] = []
        self._patch: list[Patch] = []
        self._events: list[Event] = []
        self._requeue_times: list[datetime] = []

    @property
    def training(self) -> TrainingStatus:
        """The status of the current attempt; there must be one."""
        assert self.status.training is not None
        return self.status.training

    @property
    def attempt(self) -> Attempt:
        """The observed children of the current attempt; it may have none."""
        number = self.training.attempt
        return self.observed.attempts.get(number, Attempt(number))

    @property
    def described(self) -> ImageNetJob:
        """The job with the new status so far; attempts are built from it."""
        return self.job.model_copy(update={"status": self.status})

    @property
    def is_prepared(self) -> bool:
        """Whether the job trains on a dataset that was prepared before."""
        return self.job.spec.dataset.is_sealed

    @property
    def verifies(self) -> bool:
        """Whether the checksums of a dataset that was sealed before are compared."""
        return self.job.spec.dataset.verify == "Checksums"

    @property
    def is_ready_at_once(self) -> bool:
        """Whether the job has a dataset without a Job that prepares or verifies it."""
        return self.is_prepared and not self.verifies

    @property
    def was_suspended(self) -> bool:
        """Whether the recorded status says that the job was suspended."""
        return job_status.holds(self.job.status.conditions, "Suspended")

    @property
    def unsupported(self) -> tuple[Problem, ...]:
        """Fields of the spec that this version does not accept: nothing may be built from it."""
        return self.observed.unsupported

    def update(self, **changes: Any) -> None:
        self.status = self.status.model_copy(update=changes)

    def update_training(self, **changes: Any) -> None:
        self.update(training=self.training.model_copy(update=changes))

    def holds(self, kind: ConditionType) -> bool:
        return job_status.holds(self.status.conditions, kind)

    def set_condition(
        self, kind: ConditionType, value: bool, reason: str, message: str = ""
    ) -> bool:
        """Set a condition; return whether its status or its reason changed."""
        former = self.status.conditions
        new = job_status.put(
            former,
            kind,
            value,
            reason,
            message,
            now=self.now,
            generation=self.job.metadata.generation,
        )
        self.update(conditions=new)
        marks = {(item.type, item.status, item.reason) for item in former}
        return any((item.type, item.status, item.reason) not in marks for item in new)

    def create(self, manifests: Iterable[Manifest]) -> None:
        self.created += manifests

    def create_or_wait(self, kind: ConditionType, manifests: list[Manifest]) -> bool:
        """Have objects created, unless others hold one of their names; return whether so.

        The message of the condition lists the names that the job waits for.
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
        if self.set_condition(kind, False, "NameConflict", conflict):
            self.record_warning("NameConflict", conflict)
        self.requeue_later()
        return False

    def delete(self, references: Iterable[Reference]) -> None:
        self.deleted += references

    def patch(self, patches: Iterable[Patch]) -> None:
        self._patch += patches

    def record_event(self, reason: str, message: str) -> None:
        self._events.append(Event("Normal", reason, message[:EVENT_MAXIMUM]))

    def record_warning(self, reason: str, message: str) -> None:
        self._events.append(Event("Warning", reason, message[:EVENT_MAXIMUM]))

    def warn_of_misspelled_fields(self) -> None:
        """Record which fields of the templates are left out of the pods that are created now."""
        if misspelled := templates.misspelled_fields(self.job):
            words = "; ".join(map(str, misspelled))
            self.record_warning("UnknownField", f"left out of the pods: {words}")

    def requeue_at(self, *times: datetime | None) -> None:
        """Have the job reconciled again at the first of some times, or before; None is ignored."""
        self._requeue_times += [time for time in times if time is not None]

    def requeue_later(self) -> None:
        """Have the job reconciled again after the interval for changes that have no event."""
        self.requeue_at(self.now + self.settings.requeue_interval)

    def requeue_now(self) -> None:
        self._requeue_times.append(self.now)

    def fail(self, reason: str, message: str) -> None:
        go_on = job_status.checkpoint_advice(self.job, self.status.training)
        said = job_status.with_advice(message, go_on, job_status.MESSAGE_MAXIMUM)
        self.set_condition("Failed", True, reason, said)
        self.end(reason, message)
        self.record_warning(reason, job_status.with_advice(message, go_on, EVENT_MAXIMUM))

    def end(self, reason: str, message: str) -> None:
        """Record that the job has ended; the cleanup follows in the next reconcile."""
        self.update(completion_time=self.now, metrics_left_out=None)
        for kind in _UNTIL_THE_END:
            if self.holds(kind):
                self.set_condition(kind, False, reason, message)
        if self.status.preparation is not None:
            self.update(preparation=deadlines.stop_clock(self.status.preparation, self.now))
        if self.status.training is not None:
            self.update_training(
                clock=deadlines.stop_clock(self.training.clock, self.now),
                replica_statuses=members.without_active(self.training.replica_statuses),
            )
        self.requeue_now()

    def decision(self) -> Decision:
        if self.status.training is not None:
            self.update_training(members=member_groups.bounded(self.training.members))
        self.update(
            observed_generation=self.job.metadata.generation,
            phase=job_status.phase(self.status, self.job.spec.run_policy.suspend),
            reason=job_status.reason(self.status),
        )
        self.status = time_account.counted(self.job, self.status, self.sample, self.now)
        again = min(self._requeue_times, default=None)
        return Decision(
            status=self.status,
            create=tuple(self.created),
            delete=tuple(self.deleted),
            patch=tuple(self._patch),
            events=tuple(self._events),
            requeue_after=None if again is None else max(timedelta(0), again - self.now),
        )
