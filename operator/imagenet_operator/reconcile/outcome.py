"""How attempts end, written into the draft: success, a restart, or the end of the job.

`training` finds out that an attempt has ended and why; here is what follows from it: the outcome
that is recorded, what it is charged to, and whether a limit is reached.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from imagenet_operator.api.status import AttemptOutcome
from imagenet_operator.reconcile.draft import Draft
from imagenet_operator.reconcile.policies import backoff, clock, figures, gang
from imagenet_operator.reconcile.types import Charge, End


def fail_if_out_of_time(draft: Draft) -> bool:
    """Fail the job if its attempts ran for activeDeadlineSeconds together; return whether so."""
    seconds = draft.job.spec.run_policy.active_deadline_seconds
    if not clock.is_over(draft.training.clock, seconds, draft.now):
        return False
    message = f"training took over {seconds} s"
    draft.update(training=figures.stilled(draft.training))
    draft.fail("DeadlineExceeded", message)
    return True


def succeed(draft: Draft) -> None:
    """End the job: every worker of the attempt exited with 0."""
    # The last worker may have ended while no operator was there to see it.
    _stop(draft, max(_ends_of(draft, "Succeeded"), default=draft.now))
    draft.update(training=figures.final(draft.training))
    number = draft.training.attempt
    message = f"all workers of attempt {number} exited with 0"
    draft.state("Running", False, "Succeeded", message)
    draft.state("Succeeded", True, "AllWorkersSucceeded", message)
    draft.end("Succeeded", message)
    draft.tell("Succeeded", message)


def _ends_of(draft: Draft, *phases: str) -> list[datetime]:
    """Return when members ended that are in one of some phases."""
    members = draft.training.members
    return [item.finished_at for item in members if item.phase in phases and item.finished_at]


def _stop(draft: Draft, at: datetime) -> None:
    """Still the clock and the figures of an attempt that has ended."""
    stilled = figures.stilled(draft.training)
    stopped = clock.stop(stilled.clock, min(at, draft.now))
    draft.update(training=stilled.model_copy(update={"clock": stopped}))


def end_attempt(draft: Draft, end: End) -> None:
    """Record how the attempt ended, and what follows: another one, or the end of the job."""
    # An attempt stands still from the loss of its first member on.
    _stop(draft, min(_ends_of(draft, "Failed", "Unknown"), default=draft.now))
    charged = end.charge in (Charge.FAILURE, Charge.PERMANENT)
    outcome = AttemptOutcome(
        time=draft.now, reason=end.reason, message=end.message, charged=charged
    )
    draft.update_training(outcome=outcome)
    draft.state("Running", False, end.reason, end.message)
    limit = _limit_reached(draft, end)
    if limit is not None:
        reason, message = limit
        draft.fail(reason, message)
        return
    delay = _charge(draft, end)
    draft.update_training(next_attempt_time=None if delay is None else draft.now + delay)
    draft.look_at_once()


def _limit_reached(draft: Draft, end: End) -> tuple[str, str] | None:
    """Return the reason and message with which the job fails, if this end was one too many."""
    last = f"attempt {draft.training.attempt}: {end.message}"
    backoff_limit = draft.job.spec.run_policy.backoff_limit
    if end.charge is Charge.PERMANENT:
        return end.reason, last
    if end.charge is Charge.FAILURE and draft.status.restarts >= backoff_limit:
        return "BackoffLimitExceeded", f"no restart is left of {backoff_limit}; {last}"
    if (
        end.charge is Charge.DISRUPTION
        and draft.status.disruptions >= draft.settings.disruption_limit
    ):
        return "DisruptionLimitExceeded", f"disrupted too often; {last}"
    return None


def _wait_after_cut_off(draft: Draft) -> timedelta:
    """Return how long this attempt waited because the creation of the former was cut off."""
    former = draft.job.status.training
    if former is None or former.outcome is None or former.next_attempt_time is None:
        return timedelta()
    was_cut_off = former.outcome.reason == gang.CUT_OFF.reason
    return former.next_attempt_time - former.outcome.time if was_cut_off else timedelta()


def _charge(draft: Draft, end: End) -> timedelta | None:
    """Count the end of an attempt, tell of it, and return how long the next one waits."""
    uid, number = draft.job.metadata.uid, draft.training.attempt
    message = f"attempt {number}: {end.message}"
    if end.charge is Charge.SUSPENSION:
        return None
    if end.charge is Charge.WITHDRAWAL:
        draft.warn(end.reason, message)
        policy = draft.job.spec.run_policy.scheduling_policy
        timeout = timedelta(seconds=policy.schedule_timeout_seconds)
        if end is not gang.CUT_OFF:
            return backoff.after_withdrawal(uid, number, timeout)
        # What cuts a creation off is brief (a restart of the operator), unless it comes again.
        brief = backoff.after_withdrawal(uid, number, min(timeout, draft.settings.patience))
        return max(brief, min(2 * _wait_after_cut_off(draft), timeout))
    if end.charge is Charge.DISRUPTION:
        draft.update(disruptions=draft.status.disruptions + 1)
        delay = backoff.after_disruption(uid, number, draft.settings)
    else:
        draft.update(restarts=draft.status.restarts + 1)
        delay = backoff.after_failure(uid, number, draft.status.restarts, draft.settings)
    draft.state("Restarting", True, end.reason, message)
    draft.warn("Restarting", f"{message}; next attempt in {delay.total_seconds():.0f} s")
    return delay
