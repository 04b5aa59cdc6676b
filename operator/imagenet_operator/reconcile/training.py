"""The second half of a job: attempts to train, one after the other.

An attempt is live until an outcome is recorded for it. While it is live its members are watched,
and none is deleted. Once it has an outcome, all of it is deleted. The next attempt starts when no
pod is left that may still run. The write that records the outcome also records how the members
ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from imagenet_operator.manifests import attempt as builder
from imagenet_operator.reconcile import attempt_size, outcome
from imagenet_operator.reconcile.context import ReconcileContext
from imagenet_operator.reconcile.policies import (
    cleanup,
    data_wait,
    deadlines,
    gang,
    job_status,
    members,
    stragglers,
    suspend,
    version_skew,
    waiting,
)
from imagenet_operator.reconcile.types import End, MemberPod
from imagenet_spec.resource.status import Clock, MemberStatus, TrainingStatus
from imagenet_spec.resource.templates import own_program

_SCHEDULING = "Scheduling"
"""The reason of Running until all members have nodes."""

_WAITING = "waiting for nodes for all members"
"""Its message, except for a gang that waits until all of it fits."""


def train(context: ReconcileContext) -> None:
    """Take the next step of training."""
    is_adopted = _adopt(context)
    training = context.status.training
    if training is None or training.outcome is not None:
        between_attempts(context)
        return
    seen = _record(context)
    is_whole = seen.keys() == {member.name for member in training.members}
    # The spec may change before the job's start is recorded, and while the job is suspended.
    generation = context.job.metadata.generation
    is_of_this_spec = all(member.generation == generation for member in seen.values())
    if is_adopted and not (is_whole and is_of_this_spec):
        _end(context, attempt_size.cut_off(context), seen)
    elif members.succeeded(context.training.members):
        if (no_result := members.no_result(context.training)) is None:
            outcome.succeed(context)
        else:
            outcome.end_attempt(context, no_result)
    elif (end := _verdict(context, seen)) is not None:
        _end(context, end, seen)
    elif not outcome.fail_if_out_of_time(context):
        _go_on(context, seen)


def between_attempts(context: ReconcileContext) -> None:
    """Delete the former attempts, then start the next one when its time has come."""
    if context.status.training is not None and not outcome.review_charge(context):
        return
    policy, former = context.job.spec.run_policy, context.status.training
    if _is_charged(context.job.status.training) and not _is_charged(former):
        # The start of the next attempt may be cut off, and then only its pods would be known.
        context.requeue_now()
        return
    # Suspended means that no pod is left.
    keeps = policy.clean_pod_policy == "None" and not policy.suspend
    kept = former.attempt if former is not None and keeps and _is_charged(former) else None
    context.delete(cleanup.attempts(context.observed.attempts.values(), kept))
    if any(attempt.unfinished for attempt in context.observed.attempts.values()):
        context.requeue_later()
        return
    if policy.suspend:
        return
    start = None if former is None else former.next_attempt_time
    if start is not None and context.now < start:
        context.requeue_at(start)
        return
    if former is not None and outcome.fail_if_out_of_time(context):
        return
    if context.unsupported:
        context.set_condition("Running", False, *version_skew.why_unsupported(context.unsupported))
        return
    number = 0 if former is None else former.attempt + 1
    if not attempt_size.is_recorded(context):
        attempt_size.choose(context, number)
        return
    workers = attempt_size.recorded(context)
    manifests = builder.build(context.described, number, context.settings.manifests, workers)
    if context.create_or_wait("Running", manifests):
        begin(context, number, members.planned(manifests))
        context.warn_of_misspelled_fields()


def _is_charged(training: TrainingStatus | None) -> bool:
    return training is not None and training.outcome is not None and training.outcome.charged


def begin(context: ReconcileContext, number: int, planned: tuple[MemberStatus, ...]) -> None:
    """Record the start of an attempt."""
    former = context.status.training
    waits = context.job.spec.run_policy.scheduling_policy.gang == "Wait"
    started = TrainingStatus(
        attempt=number,
        start_time=context.now,
        schedulable_time=None if waits else context.now,
        members=planned,
        replica_statuses=members.replica_statuses(planned),
        clock=Clock() if former is None else former.clock,
        accuracy=None if former is None else former.accuracy,
        checkpoint_epoch=None if former is None else former.checkpoint_epoch,
        unsaved_seconds=None if former is None else former.unsaved_seconds,
        **attempt_size.started(context, planned),
    )
    context.update(training=started)
    has_timed_out = (
        former is not None
        and former.outcome is not None
        and former.outcome.reason == gang.TIMED_OUT
    )
    if waits or not has_timed_out or not _is_unplaced(context):
        context.set_condition("Running", False, _SCHEDULING, _WAITING)
    words = attempt_size.fewer_workers(context, planned)
    context.record_event("AttemptStarted", f"attempt {number}: {len(planned)} pods{words}")
    # Pods for which there is no room may have no event, and neither have pods with gates.
    context.requeue_at(gang.deadline(started, attempt_size.limit(context, started)))
    if waits:
        context.requeue_now()


def _record(context: ReconcileContext) -> Mapping[str, MemberPod]:
    training, now = context.training, context.now
    seen = members.by_name(context.attempt.members)
    recorded = members.recorded(training.members, seen, now)
    changes: dict[str, Any] = {
        "members": recorded,
        "replica_statuses": members.replica_statuses(recorded),
        "expects_result": training.expects_result
        or any(pod.leaves_result for pod in seen.values()),
    }
    if gang.is_held_by_another(seen.values()):
        changes["schedulable_time"] = None
    elif training.schedulable_time is None and not gang.is_held_back(seen):
        changes["schedulable_time"] = now
    if training.bound_time is None and gang.is_bound(recorded, seen):
        changes["bound_time"] = now
    if training.running_time is None and all(
        member.phase in ("Running", "Succeeded") for member in recorded
    ):
        changes |= {"running_time": now, "clock": deadlines.start_clock(training.clock, now)}
        context.update(start_failures_since=None)
    global_batch_size = context.job.spec.training.batch_size
    updated = training.model_copy(update=changes)
    context.update(training=job_status.with_sample(updated, context.sample, global_batch_size))
    if context.training.compiled == 0 and training.compiled != 0:
        context.record_warning(
            "TrainingWithoutCompiledCode",
            "torch.compile failed or has no compiler, so the network trains without compiled code, "
            f"and is slower; kubectl logs {context.training.rank0_pod} says why. "
            "spec.training.compile: false leaves it out",
        )
    training = context.training
    found = data_wait.carried(training.data_wait, context.job, training.attempt, context.sample)
    context.update_training(data_wait=found)
    is_reported = training.data_wait_reported
    if found is not None and data_wait.is_worth_an_event(found) and not is_reported:
        context.update_training(data_wait_reported=True)
        reason = data_wait.REASON if data_wait.is_too_long(found) else data_wait.LAUNCHES_REASON
        context.record_event(reason, found.message)
    return seen


def _verdict(context: ReconcileContext, seen: Mapping[str, MemberPod]) -> End | None:
    policy, training = context.job.spec.run_policy, context.training
    errors, now = context.status.start_errors, context.now
    end = members.verdict(
        training.members,
        seen,
        context.settings.exit_grace_period,
        now,
        own_program=own_program.has_command(context.job.spec.training.workers.template),
    )
    if end is None and policy.suspend:
        end = suspend.END
    if end is None and not waiting.has_start_error(errors):
        waited = waiting.without_start_errors(training, errors)
        end = deadlines.no_progress(
            waited, context.sample, policy.progress_deadline_seconds, now
        ) or gang.verdict(waited, attempt_size.limit(context, waited), now)
    end = end or attempt_size.growth(context)
    return None if end is None else members.excused(end, training.members, seen)


def _end(context: ReconcileContext, end: End, seen: Mapping[str, MemberPod]) -> None:
    """Record the end of the attempt, with what the size of the next one depends on."""
    context.update_training(**attempt_size.ended(context, end, seen))
    outcome.end_attempt(context, end)


def _go_on(context: ReconcileContext, seen: Mapping[str, MemberPod]) -> None:
    """Do what a live attempt needs: its shared objects, lifted gates, conditions, deadlines."""
    policy, training, settings = context.job.spec.run_policy, context.training, context.settings
    if not context.unsupported:
        # Shared objects that were deleted are created again.
        present = {item.kind for item in context.attempt.shared}
        wanted = builder.shared(
            context.job, training.attempt, len(training.members), settings.manifests
        )
        missing = [item for item in wanted if item["kind"] not in present]
        if not context.create_or_wait("Running", missing):
            return
    # A request to create a pod may arrive after the operator that sent it has ended.
    attempts = context.observed.attempts
    late = [found for number, found in attempts.items() if number != training.attempt]
    context.delete(cleanup.attempts(late))
    _record_running(context, _lift_gates(context, seen))
    _record_stragglers(context)
    context.requeue_at(
        deadlines.ends_at(training.clock, policy.active_deadline_seconds),
        members.helper_deadline(training.members, settings.exit_grace_period),
    )
    if not waiting.has_start_error(context.status.start_errors):
        waited = waiting.without_start_errors(training, context.status.start_errors)
        context.requeue_at(
            deadlines.next_progress_check(
                waited,
                context.sample,
                policy.progress_deadline_seconds,
                context.now,
                settings.requeue_interval,
            ),
            gang.deadline(waited, attempt_size.limit(context, training)),
        )
    if gang.is_held_back(seen) or attempt_size.may_grow(context):
        context.requeue_later()


def _lift_gates(context: ReconcileContext, seen: Mapping[str, MemberPod]) -> str:
    """Lift the gates once all members fit; return what the gang waits for, for people."""
    if context.unsupported:
        return _WAITING
    missing = gang.missing(seen, context.observed.free)
    if missing is None:
        context.patch(gang.lift_gates(seen))
        return _WAITING
    found = f"waiting until all members fit: {missing}"
    former = job_status.message_of(context.status.conditions, "Running")
    # One node more or less that is full is not worth a write.
    return former if job_status.equal_without_numbers(found, former) else found


def _record_running(context: ReconcileContext, awaited: str) -> None:
    training = context.training
    if training.running_time is not None:
        words = attempt_size.fewer_workers(context, training.members)
        message = f"all members of attempt {training.attempt} run{words}"
        if context.set_condition("Running", True, "AllMembersRunning", message):
            context.record_event("Running", message)
        if context.holds("Restarting"):
            context.set_condition("Restarting", False, "Running", message)
    elif training.bound_time is not None:
        message = "all members have nodes; waiting for them to run"
        context.set_condition("Running", False, "Starting", message)
    else:
        # The attempt before was withdrawn because the scheduler did not place its pods, and this
        # one is too young to know. A condition that changed with each attempt would hide from an
        # alert how long the job waits.
        since = training.schedulable_time
        is_young = since is not None and context.now < since + waiting.EVENTS_AFTER
        if not (is_young and _is_unplaced(context)):
            context.set_condition("Running", False, _SCHEDULING, awaited)


def _is_unplaced(context: ReconcileContext) -> bool:
    """Whether the condition says that the scheduler does not place a pod."""
    return job_status.reason_of(context.status.conditions, "Running") in waiting.UNPLACED


def _record_stragglers(context: ReconcileContext) -> None:
    sample, former = context.sample, context.training
    if sample is None or sample.attempt != former.attempt:
        return
    if sample.comparison is None or not sample.comparison.factors:
        return  # as after a restart of the operator
    context.update_training(stragglers=stragglers.slowest(former, sample.comparison) or None)
    training = context.training
    if training.stragglers:
        message = stragglers.message(training)
        context.set_condition("Straggling", True, stragglers.REASON, message)
        if stragglers.new(former, training):
            context.record_warning("Straggling", message)
    elif context.holds("Straggling"):
        message = "no worker keeps the others waiting"
        context.set_condition("Straggling", False, "Recovered", message)
        context.record_event("StragglerRecovered", message)


def _adopt(context: ReconcileContext) -> bool:
    """Take over an attempt that was created but not recorded, if there is one."""
    newest = max(context.observed.attempts, default=None)
    training = context.status.training
    if newest is None or (training is not None and newest <= training.attempt):
        return False
    if context.unsupported:
        # A newer operator has created it, and what it planned is not known.
        existing = version_skew.existing(context.observed.attempts[newest].members)
        if existing:
            begin(context, newest, existing)
        return False
    workers = attempt_size.recorded(context)
    manifests = builder.build(context.described, newest, context.settings.manifests, workers)
    begin(context, newest, members.planned(manifests))
    return True
