"""Suspension of the preparation's Jobs, and when a job has no pod left."""

from __future__ import annotations

import pytest

from imagenet_operator.manifests.labels import of_suspended_job
from imagenet_operator.reconcile.policies import suspend
from imagenet_operator.reconcile.types import Attempt, Observed, Patch, PreparationJob
from support.attempt_members import seen


def test_suspension_reaches_jobs_that_may_still_run() -> None:
    jobs = [
        PreparationJob("index", "digits-index", "uid-i", complete=True),
        PreparationJob("pack", "digits-pack", "uid-p"),
        PreparationJob("seal", "digits-seal", "uid-s", terminating=True),
    ]
    change = {"metadata": {"labels": of_suspended_job()}, "spec": {"suspend": True}}
    suspended = suspend.patches(jobs, True, was_suspended=False)
    assert suspended == (Patch("Job", "digits-pack", "uid-p", change),)
    assert suspend.patches(jobs, False, was_suspended=True) == ()


def test_only_what_the_operator_has_suspended_is_resumed_by_it() -> None:
    own = PreparationJob("pack", "digits-pack", "uid-p", suspended=True)
    held = PreparationJob(
        "index", "digits-index", "uid-i", suspended=True, suspended_by_others=True
    )
    (patch,) = suspend.patches([own, held], False, was_suspended=False)
    assert (patch.name, patch.merge["spec"]) == ("digits-pack", {"suspend": False})
    assert patch.merge["metadata"]["labels"] == dict.fromkeys(of_suspended_job())
    assert suspend.patches([own, held], True, was_suspended=False) == ()
    assert suspend.withdrawn([own, held], was_suspended=False) == (held.reference,)


def test_a_job_in_a_queue_is_kueues_to_suspend_and_is_withdrawn_instead() -> None:
    held = PreparationJob("pack", "digits-pack", "uid-p", suspended=True, queued=True)
    done = PreparationJob("index", "digits-index", "uid-i", complete=True, queued=True)
    for is_suspended in (True, False):
        assert suspend.patches([held, done], is_suspended, was_suspended=True) == ()
    assert suspend.withdrawn([held, done], was_suspended=True) == (held.reference,)


def test_what_an_earlier_release_has_suspended_is_resumed_with_its_job() -> None:
    without_label = PreparationJob("pack", "p", "u", suspended=True, suspended_by_others=True)
    (patch,) = suspend.patches([without_label], False, was_suspended=True)
    assert patch.merge["spec"] == {"suspend": False}
    assert suspend.withdrawn([without_label], was_suspended=True) == ()


@pytest.mark.parametrize(
    ("observed", "quiet"),
    [
        (Observed(), True),
        (Observed(jobs={"pack": PreparationJob("pack", "p", "u", active=1)}), False),
        (Observed(jobs={"pack": PreparationJob("pack", "p", "u")}), True),
        (Observed(attempts={0: Attempt(0, (seen("worker-0", terminating=True),))}), False),
        (Observed(attempts={0: Attempt(0, (seen("worker-0", gone=True),))}), True),
    ],
)
def test_a_job_is_quiet_without_pods(observed: Observed, quiet: bool) -> None:
    assert suspend.is_quiet(observed) is quiet
