"""What the status says of an attempt: figures, members, where it is."""

from __future__ import annotations

from imagenet_operator.reconcile.decide import decide
from imagenet_operator.reconcile.types import Observed
from support.job_stories import (
    condition_of,
    creating,
    is_running,
    make,
    running,
)
from support.samples import sample
from support.simulated_objects import condition
from support.simulated_world import START


def test_figures_of_the_newest_sample_are_in_the_status() -> None:
    cluster = running()
    heard = sample(
        taken_at=cluster.now,
        attempt=0,
        epoch=3,
        epochs=90,
        batch=10,
        batches_per_epoch=20,
        images_per_second=512.0,
        accuracy=0.25,
        progressed_at=cluster.now,
    )
    decision = decide(cluster.job, Observed(), heard, START)
    training = decision.status.training
    assert training is not None
    assert training.epoch == 3
    assert training.accuracy is not None
    assert training.accuracy.train == 0.25
    # The observation is empty, so the attempt ends here, and with it what was of now.
    assert training.outcome is not None
    assert (training.images_per_second, training.estimated_remaining_seconds) == (None, None)


def test_members_and_replicas_are_counted_as_they_come_and_go() -> None:
    cluster = running()
    cluster.exit(cluster.finishing_workers()[0], 0)
    cluster.reconcile()
    training = cluster.status.training
    assert training is not None
    counted = {role: found.to_manifest() for role, found in training.replica_statuses.items()}
    assert counted == {
        "scheduler": {"active": 1, "succeeded": 0, "failed": 0},
        "server": {"active": 2, "succeeded": 0, "failed": 0},
        "worker": {"active": 1, "succeeded": 1, "failed": 0},
    }
    cluster.settle()
    training = cluster.status.training
    assert training is not None
    assert sum(found.active for found in training.replica_statuses.values()) == 0


def test_running_says_where_an_attempt_stands() -> None:
    cluster = make()
    seen = []
    while not is_running(cluster):
        cluster.turn()
        cluster.reconcile()
        if (found := condition(cluster.status, "Running")) is not None:
            seen.append(found.reason)
    assert list(dict.fromkeys(seen)) == ["Scheduling", "AllMembersRunning"]

    cluster = creating()
    cluster.reconcile()
    for item in cluster.pending():
        cluster.bind(item)
    cluster.reconcile()
    assert condition_of(cluster.status, "Running") == (
        "False",
        "Starting",
        "all members have nodes; waiting for them to run",
    )
