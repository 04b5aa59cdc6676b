"""The second half of a job: attempts to train, one after the other.

An attempt is live until an outcome is recorded for it. While it is live its members are watched
and nothing of it is deleted; once it has an outcome everything of it is deleted, and the next
attempt starts when no pod of it is left that could still run. What ends an attempt is decided by
the policies in a fixed order; what has to be known of its members is recorded by the same write
that records the outcome.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from imagenet_operator.api import own_program
from imagenet_operator.api.status import Clock, TrainingStatus
from imagenet_operator.manifests import attempt as builder
from imagenet_operator.reconcile import outcome
from imagenet_operator.reconcile.draft import Draft
from imagenet_operator.reconcile.policies import (
    cleanup,
    clock,
    conditions,
    figures,
    gang,
    members,
    progress,
    replicas,
    restart,
    success,
    suspend,
)
from imagenet_operator.reconcile.types import Attempt, End, Manifest, Member

_SCHEDULING = "Scheduling"
"""The reason of Running while not all members have nodes."""

_WAITING = "waiting for nodes for all members"
"""Its message, but for a gang that is held back until there is room."""


def train(draft: Draft) -> None:
    """Bring training one step nearer to its end."""
    is_adopted = _adopt(draft)
    training = draft.status.training
    if training is None or training.outcome is not None:
        _between_attempts(draft)
        return
    seen = _take_note(draft)
    is_whole = seen.keys() == {member.name for member in training.members}
    if is_adopted and not (is_whole and _is_of_this_spec(draft, seen)):
        outcome.end_attempt(draft, gang.CUT_OFF)
    elif success.achieved(draft.training.members):
        outcome.succeed(draft)
    elif (end := _verdict(draft, seen)) is not None:
        outcome.end_attempt(draft, end)
    elif not outcome.fail_if_out_of_time(draft):
        _go_on(draft, seen)


def _adopt(draft: Draft) -> bool:
    """Take over an attempt that was created before the status could tell of it, if there is one."""
    newest = max(draft.observed.attempts, default=None)
    training = draft.status.training
    if newest is None or (training is not None and newest <= training.attempt):
        return False
    _begin(draft, newest, builder.build(draft.described, newest, draft.settings.manifests))
    return True


def _is_of_this_spec(draft: Draft, seen: Mapping[str, Member]) -> bool:
    """Whether an attempt that is taken over was made from the job as it is now.

    Before its start is recorded, and while it is suspended, a job may have changed in between.
    """
    return all(member.generation == draft.job.metadata.generation for member in seen.values())


def _begin(draft: Draft, number: int, manifests: list[Manifest]) -> None:
    """Record an attempt that starts."""
    former = draft.status.training
    waits = draft.job.spec.run_policy.scheduling_policy.gang == "Wait"
    planned = members.planned(manifests)
    started = TrainingStatus(
        attempt=number,
        start_time=draft.now,
        schedulable_time=None if waits else draft.now,
        members=planned,
        replica_statuses=replicas.count(planned),
        clock=Clock() if former is None else former.clock,
        accuracy=None if former is None else former.accuracy,
    )
    draft.update(training=started)
    draft.state("Running", False, _SCHEDULING, _WAITING)
    draft.tell("AttemptStarted", f"attempt {number}: {len(planned)} pods")
    # Nothing has to happen to pods for which there is no room.
    draft.look_again(gang.deadline(started, draft.job.spec.run_policy.scheduling_policy))


def _take_note(draft: Draft) -> Mapping[str, Member]:
    """Record what is seen of the attempt's members, and return that by name."""
    attempt = draft.observed.attempts.get(draft.training.attempt, Attempt(draft.training.attempt))
    seen = members.by_name(attempt.members)
    recorded = members.recorded(draft.training.members, seen, draft.now)
    draft.update_training(members=recorded, replica_statuses=replicas.count(recorded))
    if draft.training.schedulable_time is None and not gang.is_held_back(seen):
        draft.update_training(schedulable_time=draft.now)
    if draft.training.bound_time is None and gang.is_bound(recorded, seen):
        draft.update_training(bound_time=draft.now)
    if draft.training.running_time is None and all(
        member.phase in ("Running", "Succeeded") for member in recorded
    ):
        draft.update_training(
            running_time=draft.now, clock=clock.run(draft.training.clock, draft.now)
        )
    batch_size = draft.job.spec.training.batch_size
    draft.update(training=figures.carried(draft.training, draft.sample, batch_size))
    return seen


def _verdict(draft: Draft, seen: Mapping[str, Member]) -> End | None:
    """Return why the attempt has to end, if it has to: the first policy that objects."""
    policy, training = draft.job.spec.run_policy, draft.training
    end = (
        restart.verdict(
            training.members,
            seen,
            draft.settings.farewell,
            draft.now,
            own_program=own_program.has_command(draft.job.spec.training.workers.template),
        )
        or (suspend.END if policy.suspend else None)
        or progress.verdict(training, draft.sample, policy.progress_deadline_seconds, draft.now)
        or gang.verdict(training, policy.scheduling_policy, draft.now)
    )
    return None if end is None else restart.excused(end, training.members, seen)


def _go_on(draft: Draft, seen: Mapping[str, Member]) -> None:
    """Do what a live attempt needs: what it shares, lifted gates, conditions, deadlines."""
    policy, training = draft.job.spec.run_policy, draft.training
    if not _has_what_it_shares(draft):
        return
    draft.delete(cleanup.attempts(_strays(draft)))
    waiting = _seek_room(draft, seen)
    if training.running_time is not None:
        message = f"all members of attempt {training.attempt} run"
        if draft.state("Running", True, "AllMembersRunning", message):
            draft.tell("Running", message)
        if draft.holds("Restarting"):
            draft.state("Restarting", False, "Running", message)
    elif training.bound_time is not None:
        draft.state("Running", False, "Starting", "all members have nodes; waiting for them to run")
    else:
        draft.state("Running", False, _SCHEDULING, waiting)
    for deadline in (
        clock.ends_at(training.clock, policy.active_deadline_seconds),
        progress.next_look(
            training,
            draft.sample,
            policy.progress_deadline_seconds,
            draft.now,
            draft.settings.patience,
        ),
        gang.deadline(training, policy.scheduling_policy),
        restart.deadline(training.members, draft.settings.farewell),
    ):
        draft.look_again(deadline)
    if gang.is_held_back(seen):
        draft.look_again(draft.now + draft.settings.patience)


def _seek_room(draft: Draft, seen: Mapping[str, Member]) -> str:
    """Let the gang go once all of it fits; return in words for people for what it waits."""
    missing = gang.missing(seen, draft.observed.free)
    if missing is None:
        draft.patch(gang.lift(seen))
        return _WAITING
    found = f"waiting until all members fit: {missing}"
    former = conditions.find(draft.status.conditions, "Running")
    # Others come and go; that one node more or less is full is not worth a write.
    if former is not None and _without_numbers(former.message) == _without_numbers(found):
        return former.message
    return found


def _without_numbers(text: str) -> str:
    return re.sub(r"[0-9]+", "", text)


def _strays(draft: Draft) -> list[Attempt]:
    """What came of former attempts after they were cleared away.

    A request to create a pod may be on its way for longer than the operator that made it lives.
    """
    current = draft.training.attempt
    return [found for number, found in draft.observed.attempts.items() if number != current]


def _has_what_it_shares(draft: Draft) -> bool:
    """Create again what somebody deleted of what members share; return whether all is had."""
    number = draft.training.attempt
    attempt = draft.observed.attempts.get(number, Attempt(number))
    present = {item.kind for item in attempt.shared}
    wanted = builder.shared(draft.described, number, draft.settings.manifests)
    return draft.create_or_wait("Running", [item for item in wanted if item["kind"] not in present])


def _between_attempts(draft: Draft) -> None:
    """Clear away what is left of former attempts, then start the next one when it is time."""
    draft.delete(cleanup.attempts(draft.observed.attempts.values()))
    if any(attempt.present for attempt in draft.observed.attempts.values()):
        draft.look_again(draft.now + draft.settings.patience)
        return
    training = draft.status.training
    start = None if training is None else training.next_attempt_time
    if draft.job.spec.run_policy.suspend:
        return
    if start is not None and draft.now < start:
        draft.look_again(start)
        return
    if training is not None and outcome.fail_if_out_of_time(draft):
        return
    number = 0 if training is None else training.attempt + 1
    manifests = builder.build(draft.described, number, draft.settings.manifests)
    if draft.create_or_wait("Running", manifests):
        _begin(draft, number, manifests)
