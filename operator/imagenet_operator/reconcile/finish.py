"""The end of a job: clean up by policy, and delete the job itself when its time is over.

Runs in the passes after the one that recorded success or failure, and only adds what is still to
be done, so it may be repeated for as long as the job exists.
"""

from __future__ import annotations

from imagenet_operator.reconcile.draft import Draft
from imagenet_operator.reconcile.policies import cleanup, retention, ttl
from imagenet_operator.reconcile.types import Reference


def finish(draft: Draft) -> None:
    """Delete what nobody needs any more of a job that has succeeded or failed."""
    policy, metadata = draft.job.spec.run_policy, draft.job.metadata
    draft.delete(cleanup.leftovers(policy.clean_pod_policy, draft.observed))
    changes = retention.patches(draft.job, draft.observed.claims.values())
    draft.patch(changes)
    if draft.deletes_something or cleanup.is_held_up(policy.clean_pod_policy, draft.observed):
        draft.look_again(draft.now + draft.settings.patience)
    deletion = ttl.deletion_time(draft.job)
    if deletion is None or draft.now < deletion:
        draft.look_again(deletion)
    elif changes and policy.retention_policy == "Retain":
        # Claims that still name the job as their owner would be deleted with it.
        draft.look_again(draft.now + draft.settings.patience)
    else:
        draft.delete([Reference("ImageNetJob", metadata.name, metadata.uid)])
