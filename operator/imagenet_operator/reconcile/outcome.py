"""The end of an attempt, and what follows: success, a restart, or the end of the job.

`training` finds that an attempt has ended, and why. This module records the outcome and charges it.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from imagenet_operator.reconcile import attempt_size
from imagenet_operator.reconcile.context import ReconcileContext
from imagenet_operator.reconcile.policies import (
    backoff,
    cleanup,
    deadlines,
    gang,
    job_status,
    members,
    time_account,
    waiting,
)
from imagenet_operator.reconcile.types import Charge, End, MemberPod
from imagenet_spec.resource.status import AttemptOutcome

_REJECTING_MAXIMUM: Final = 16
"""How many rejecting nodes are remembered."""


def succeed(context: ReconcileContext) -> None:
    """End the job: every worker of the attempt exited with 0."""
    # The last worker may have ended while no operator ran.
    _stop(context, max(_ends_of(context, "Succeeded"), default=context.now))
    model = job_status.trained_model(context.job, context.training)
    context.update(training=job_status.with_result(context.training), model=model)
    number = context.training.attempt
    stop = job_status.early_stop(context.training)
    message = stop or f"all workers of attempt {number} exited with 0"
    context.set_condition("Running", False, "Succeeded", message)
    reason = "AllWorkersSucceeded" if stop is None else job_status.EARLY_STOPPED
    context.set_condition("Succeeded", True, reason, message)
    context.end("Succeeded", message)
    context.record_event("Succeeded", message)


def fail_if_out_of_time(context: ReconcileContext) -> bool:
    """Fail the job if its attempts ran for activeDeadlineSeconds in total; return whether so."""
    seconds = context.job.spec.run_policy.active_deadline_seconds
    if not deadlines.is_over(context.training.clock, seconds, context.now):
        return False
    message = f"training took over {seconds} s"
    context.update(training=job_status.stilled(context.training))
    context.fail("DeadlineExceeded", message)
    return True


def end_attempt(context: ReconcileContext, end: End) -> None:
    """Record the outcome, and plan the next attempt or fail the job."""
    # Training makes no progress after the loss of its first member.
    ended_at = min(_ends_of(context, "Failed", "Unknown"), default=context.now)
    _stop(context, ended_at)
    reported = time_account.with_report(context.training, context.sample, context.now)
    if backoff.ends_a_row(reported.seconds):
        context.update(consecutive_failures=0)
    since = context.training.running_time
    ran = timedelta() if since is None else ended_at - since
    if backoff.is_progress(reported.seconds, ran):
        context.update(
            consecutive_disruptions=0,
            progressed_attempt=context.training.attempt,
            rejecting_nodes=None,
        )
    rejecting = members.rejecting_nodes(context.training.members)
    if rejecting:
        nodes = dict.fromkeys([*(context.status.rejecting_nodes or ()), *rejecting])
        context.update(rejecting_nodes=tuple(nodes)[-_REJECTING_MAXIMUM:])
    charged = _is_charged(context, end)
    outcome = AttemptOutcome(
        time=context.now, reason=end.reason, message=end.message, charged=charged
    )
    context.update_training(outcome=outcome)
    running = job_status.reason_of(context.status.conditions, "Running")
    # The next attempt is likely to wait for the same.
    if not (end.reason == gang.TIMED_OUT and running in waiting.UNPLACED):
        context.set_condition("Running", False, end.reason, end.message)
    limit = limit_reached(context, end)
    is_failure = end.charge is Charge.FAILURE
    if limit is not None and is_failure and (suspects := _suspects(context)):
        # The charge is held until it is known whether a node is lost.
        checked = f"checking that no node is lost: {', '.join(suspects)}"
        message = f"{end.message}; no restart is left; {checked}"
        context.set_condition("Running", False, end.reason, message)
        context.update_training(next_attempt_time=None)
        context.requeue_now()
        return
    if limit is not None:
        context.fail(*limit)
        return
    delay = _charge(context, end)
    context.update_training(next_attempt_time=None if delay is None else context.now + delay)
    context.requeue_now()


def _stop(context: ReconcileContext, at: datetime) -> None:
    """Stop the clock of an attempt that has ended, and remove its present figures."""
    stilled = job_status.stilled(context.training)
    stopped = deadlines.stop_clock(stilled.clock, min(at, context.now))
    context.update(training=stilled.model_copy(update={"clock": stopped}))
    if context.holds("Straggling"):
        message = f"attempt {stilled.attempt} has ended"
        context.set_condition("Straggling", False, "AttemptEnded", message)


def _ends_of(context: ReconcileContext, *phases: str) -> list[datetime]:
    members = context.training.members
    return [item.finished_at for item in members if item.phase in phases and item.finished_at]


def _is_charged(context: ReconcileContext, end: End) -> bool:
    """Whether the end of an attempt counts towards backoffLimit."""
    if end.charge is Charge.FULL_VOLUME:
        return context.status.full_volume_attempts == 0
    return end.charge in (Charge.FAILURE, Charge.PERMANENT)


def limit_reached(context: ReconcileContext, end: End) -> tuple[str, str] | None:
    """Return the reason and message of the job's failure; None if another attempt may follow."""
    last = f"attempt {context.training.attempt}: {end.message}"
    backoff_limit = context.job.spec.run_policy.backoff_limit
    if end.charge is Charge.PERMANENT:
        return end.reason, last
    if end.charge is Charge.START_ERROR and _wait_to_start(context) is None:
        seconds = context.job.spec.run_policy.start_deadline_seconds
        return waiting.START_DEADLINE_EXCEEDED, f"programs could not start for {seconds} s; {last}"
    in_a_row = context.status.full_volume_attempts
    if _is_charged(context, end) and context.status.restarts >= backoff_limit:
        return "BackoffLimitExceeded", f"backoffLimit {backoff_limit} is reached; {last}"
    if end.charge is Charge.FULL_VOLUME and in_a_row >= context.settings.full_volume_limit:
        return end.reason, f"{in_a_row + 1} attempts in a row found no room; {last}"
    most = context.settings.disruption_limit
    if end.charge is Charge.DISRUPTION and context.status.disruptions_in_a_row >= most:
        message = f"disrupted more than {most} times; {last}"
        return "DisruptionLimitExceeded", message
    return None


def _charge(context: ReconcileContext, end: End) -> timedelta | None:
    """Count the end of an attempt, record an event, and return the wait before the next one."""
    uid, number = context.job.metadata.uid, context.training.attempt
    message = f"attempt {number}: {end.message}"
    if end.charge is Charge.SUSPENSION:
        return None
    if end.charge is Charge.START_ERROR:
        context.record_warning(end.reason, message)
        since = context.status.start_failures_since or context.now
        context.update(start_failures_since=since)
        return _wait_to_start(context)
    if end.charge in (Charge.GROWTH, Charge.QUEUE):
        context.record_event(end.reason, message)
        return timedelta()
    if end.charge is Charge.WITHDRAWAL:
        return _withdraw(context, end, message)
    in_a_row = context.status.full_volume_attempts + 1 if end.charge is Charge.FULL_VOLUME else 0
    if _is_charged(context, end):
        context.update(restarts=context.status.restarts + 1)
    context.update(full_volume_attempts=in_a_row)
    if end.charge is Charge.DISRUPTION:
        in_a_row = context.status.disruptions_in_a_row + 1
        is_first = in_a_row == 1 and context.status.progressed_attempt is not None
        context.update(disruptions=context.status.disruptions + 1, consecutive_disruptions=in_a_row)
        has_run = context.training.running_time is not None
        delay = (
            timedelta()
            if is_first
            else backoff.after_disruption(uid, number, context.settings, 1 if has_run else in_a_row)
        )
    elif end.charge is Charge.FULL_VOLUME:
        delay = backoff.after_full_volume(uid, number, in_a_row, context.settings)
    else:
        failures = context.status.consecutive_failures + 1
        context.update(consecutive_failures=failures)
        delay = backoff.after_failure(uid, number, failures, context.settings)
    context.set_condition("Restarting", True, end.reason, message)
    context.record_warning(
        "Restarting", f"{message}; next attempt in {delay.total_seconds():.0f} s"
    )
    return delay


def _withdraw(context: ReconcileContext, end: End, message: str) -> timedelta:
    """Record an event about an attempt that got no nodes, and return the wait before the next."""
    uid, number = context.job.metadata.uid, context.training.attempt
    context.record_warning(end.reason, message)
    limit = attempt_size.limit(context, context.training)
    timeout = timedelta(seconds=limit.seconds)
    if end is not gang.CUT_OFF:
        if limit.can_shrink:
            return backoff.after_disruption(uid, number, context.settings)
        return backoff.after_withdrawal(uid, number, timeout)
    # The cause is usually brief (the operator restarts). If it recurs, the wait doubles.
    delay = backoff.after_withdrawal(uid, number, min(timeout, context.settings.requeue_interval))
    former = context.job.status.training
    outcome = None if former is None else former.outcome
    start = None if former is None else former.next_attempt_time
    if outcome is not None and start is not None and outcome.reason == gang.CUT_OFF.reason:
        delay = max(delay, min(2 * (start - outcome.time), timeout))
    return delay


def _wait_to_start(context: ReconcileContext) -> timedelta | None:
    """Return the wait after an attempt whose programs could not start; None at the deadline."""
    since = context.status.start_failures_since or context.now
    seconds = context.job.spec.run_policy.start_deadline_seconds
    wait = backoff.after_start_error(since, context.now, seconds, context.settings)
    if wait is None and waiting.is_worth_a_wait(context.job, context.status):
        return context.settings.restart_delay_limit
    return wait


def review_charge(context: ReconcileContext) -> bool:
    """Move the last charge if a node is lost since; return whether another attempt may follow."""
    training = context.training
    outcome = training.outcome
    if outcome is None or not outcome.charged or outcome.reason == members.FULL_VOLUME:
        return True
    # A charge that is held has planned no attempt.
    is_held = training.next_attempt_time is None
    is_over = members.is_charge_final(outcome, context.now)
    seen = members.by_name(context.attempt.members)
    lost = members.lost_member(training.members, seen, context.observed.unreachable_nodes)
    if lost is not None and not is_over:
        message = f"{lost} is on a node that cannot be reached; {outcome.message}"
        return _refund(context, End("NodeLost", message, Charge.DISRUPTION), is_held=is_held)
    end = End(outcome.reason, outcome.message, Charge.FAILURE)
    limit = limit_reached(context, end) if is_held else None
    if is_held and limit is None:
        # The limit was raised since.
        delay = _charge(context, end)
        assert delay is not None
        context.update_training(next_attempt_time=context.now + delay)
        return True
    if limit is not None and not is_over and _suspects(context):
        if context.job.spec.run_policy.clean_pod_policy != "None":
            context.delete(cleanup.running(context.observed.attempts.values()))
        context.requeue_at(outcome.time + members.REFUND_WINDOW)
        context.requeue_later()
    elif limit is not None:
        context.fail(*limit)
    return not is_held


def _suspects(context: ReconcileContext) -> dict[str, MemberPod]:
    """Return the nodes whose loss may have ended the attempt, each with one of its pods."""
    seen = members.by_name(context.attempt.members)
    return members.suspect_nodes(context.training.members, seen)


def _refund(context: ReconcileContext, end: End, *, is_held: bool) -> bool:
    """Count the end of an attempt as a disruption; return whether another attempt may follow."""
    limit = limit_reached(context, end)
    if limit is not None:
        if is_held:
            context.fail(*limit)
        return not is_held
    restarts, planned = context.status.restarts, context.training.next_attempt_time
    outcome = AttemptOutcome(time=context.now, reason=end.reason, message=end.message)
    context.update_training(outcome=outcome)
    if not is_held:
        failures = max(0, context.status.consecutive_failures - 1)
        context.update(restarts=restarts - 1, consecutive_failures=failures)
    start = context.now + (_charge(context, end) or timedelta())
    context.update_training(next_attempt_time=start if planned is None else min(start, planned))
    return True
