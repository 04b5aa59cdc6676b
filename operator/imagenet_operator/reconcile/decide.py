"""The decision of one pass: (job, observed, sample, now) → what to do.

Pure and level-triggered: nothing is remembered outside the job's status and its children, so that
a pass may be repeated, skipped, or cut off between any two of its actions. Three rules make it so:

- What may vanish is recorded before anything relies on it or deletes it. The status is written
  last, so acting on a record means: in the next pass (which is asked for at once).
- Names are deterministic and an attempt's number is never used again, so that what was created by
  a pass that was cut off is recognised, and creating it again changes nothing.
- Nothing is deleted but what is this job's, by UID.

The caller reads the job first and its children after it, both from the API server and not from a
cache: children that are older than the status would look as if they had vanished.
"""

from __future__ import annotations

from datetime import datetime

from imagenet_operator.api import ImageNetJob
from imagenet_operator.api.run_policy import MANAGER
from imagenet_operator.api.status import Status
from imagenet_operator.errors import InvalidJob, InvalidTemplate
from imagenet_operator.reconcile import refusal, rehearsal
from imagenet_operator.reconcile.draft import Draft
from imagenet_operator.reconcile.finish import finish
from imagenet_operator.reconcile.policies import access, conditions, retention, suspend
from imagenet_operator.reconcile.preparation import prepare
from imagenet_operator.reconcile.sample import Sample
from imagenet_operator.reconcile.training import train
from imagenet_operator.reconcile.types import DEFAULTS, Decision, Observed, Settings


def decide(
    job: ImageNetJob,
    observed: Observed,
    sample: Sample | None,
    now: datetime,
    settings: Settings = DEFAULTS,
) -> Decision:
    """Return what is to be done about a job.

    Args:
        job: With the status that is recorded; not older than what `observed` was made from.
        observed: Its children, sorted.
        sample: What its members last said of themselves, or None.
        now: The time, with a time zone.
        settings: The operator's.
    """
    if job.metadata.deletion_timestamp is not None or not is_managed(job):
        return Decision(status=job.status)
    draft = Draft(job, observed, sample, now, settings)
    if is_finished(job.status):
        finish(draft)
        return draft.decision()
    try:
        _step(draft)
    except InvalidTemplate as error:
        return refusal.refuse(job, "InvalidTemplate", str(error), now, settings)
    except InvalidJob as error:
        reason = refusal.reason_of(error.problems)
        return refusal.refuse(job, reason, str(error), now, settings)
    return draft.decision()


def is_managed(job: ImageNetJob) -> bool:
    """Whether this operator is to work on the job; nothing of another's is ever touched."""
    return job.spec.run_policy.managed_by in (None, MANAGER)


def is_finished(status: Status) -> bool:
    """Whether the job has succeeded or failed, after which it is only cleaned up."""
    return conditions.holds(status.conditions, "Succeeded") or conditions.holds(
        status.conditions, "Failed"
    )


def _step(draft: Draft) -> None:
    """Take the step that is next, and keep to the policies of all steps."""
    if draft.status.start_time is None and not _start(draft):
        _tell_of_suspension(draft)
        return
    was_ready = draft.holds("DatasetReady")
    if not was_ready:
        prepare(draft)
    # What was prepared before cannot vanish by being made; nothing has to be recorded first.
    if was_ready or (draft.is_prepared and draft.holds("DatasetReady")):
        train(draft)
    _tell_of_suspension(draft)
    draft.patch(retention.patches(draft.job, draft.observed.claims.values()))
    draft.look_again(draft.now + draft.settings.heartbeat)


def _start(draft: Draft) -> bool:
    """Begin the work of a job that can be, once the claims that it names are there.

    Raises:
        InvalidJob: What one of them allows is not enough.
    """
    rehearsal.rehearse(draft.job, draft.settings)
    seen = draft.observed.access
    if found := access.problems(draft.job, seen):
        raise InvalidJob(found)
    if (missing := access.missing(draft.job, draft.observed.absent)) is not None:
        if draft.state("Created", False, "ClaimNotFound", missing):
            draft.warn("ClaimNotFound", missing)
        draft.look_again(draft.now + draft.settings.patience)
        return False
    claims = access.single_node(draft.job, seen)
    draft.update(start_time=draft.now, single_node_claims=claims or None)
    draft.state("Created", True, "JobAccepted", "the job is valid and its work has begun")
    return True


def _tell_of_suspension(draft: Draft) -> None:
    """Say Suspended once no pod of the job is left, and no longer when it is resumed."""
    if not draft.job.spec.run_policy.suspend:
        if draft.holds("Suspended"):
            draft.state("Suspended", False, "Resumed", "the job goes on")
            draft.tell("Resumed", "the job goes on")
    elif (
        suspend.is_quiet(draft.observed)
        and not is_finished(draft.status)
        and draft.state("Suspended", True, "Suspended", "no pod of the job is left")
    ):
        draft.tell("Suspended", "no pod of the job is left")
