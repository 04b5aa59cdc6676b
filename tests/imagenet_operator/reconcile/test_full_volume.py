"""Attempts that find the output volume full: one charge, a wait for room, and a limit."""

from __future__ import annotations

from datetime import timedelta

from imagenet_operator.reconcile.types import ReconcileSettings
from imagenet_spec.names import EXIT_VOLUME_FULL
from support.job_stories import (
    ROOMY,
    condition_of,
    ended_well,
    is_in_attempt,
    is_over,
    play,
    pod,
    reasons,
)
from support.job_table import manifest
from support.sentences import assert_says
from support.simulated_cluster import SimulatedCluster

LACKS = "r0/checkpoints/epoch-0002: a checkpoint needs 5,000 bytes and 77 are free"


def make(backoff_limit: int, limit: int = 24) -> SimulatedCluster:
    settings = ReconcileSettings(full_volume_limit=limit)
    return SimulatedCluster(manifest(run_policy={"backoffLimit": backoff_limit}), ROOMY, settings)


def find_it_full(cluster: SimulatedCluster, number: int) -> None:
    """Let an attempt find the volume full."""
    play(cluster, is_in_attempt(number))
    cluster.exit(pod(cluster, f"digits-r{number}-worker-0"), EXIT_VOLUME_FULL, LACKS)
    cluster.reconcile()


def test_only_the_first_of_a_row_is_charged_and_the_condition_says_what_is_lacking() -> None:
    cluster = make(backoff_limit=1)
    for number in range(3):
        find_it_full(cluster, number)
        assert (cluster.status.restarts, cluster.status.full_volume_attempts) == (1, number + 1)
        assert cluster.status.training is not None
        assert cluster.status.training.outcome is not None
        assert cluster.status.training.outcome.charged is (number == 0)
        status, reason, message = condition_of(cluster.status, "Restarting")
        assert (status, reason) == ("True", "VolumeFull")
        assert_says(message, f"attempt {number}: ", "waiting for room", "output volume")
        assert message.endswith(f"digits-r{number}-worker-0 exited with 4: {LACKS}")
    cluster.settle()
    assert ended_well(cluster)


def test_the_wait_grows_to_ten_minutes() -> None:
    cluster = make(backoff_limit=1)
    waits = []
    for number in range(9):
        find_it_full(cluster, number)
        assert cluster.status.training is not None
        start = cluster.status.training.next_attempt_time
        assert start is not None
        waits.append(start - cluster.now)
    assert timedelta(seconds=7) < waits[0] <= timedelta(seconds=10)
    assert all(timedelta(seconds=450) <= wait <= timedelta(minutes=10) for wait in waits[6:])
    assert waits[:6] == sorted(waits[:6])


def test_the_job_fails_after_a_limit_and_repeats_what_is_lacking() -> None:
    cluster = make(backoff_limit=6, limit=2)
    for number in range(3):
        find_it_full(cluster, number)
    play(cluster, is_over)
    status, reason, message = condition_of(cluster.status, "Failed")
    assert (status, reason) == ("True", "VolumeFull")
    assert_says(message, "3 attempts in a row", "no room", "attempt 2")
    assert message.endswith(LACKS)
    assert reasons(cluster)[-1] == "VolumeFull"


def test_without_a_restart_left_the_first_one_fails_the_job() -> None:
    cluster = make(backoff_limit=0)
    find_it_full(cluster, 0)
    assert condition_of(cluster.status, "Failed")[1] == "BackoffLimitExceeded"


def test_an_attempt_that_fails_otherwise_has_found_room() -> None:
    cluster = make(backoff_limit=6)
    find_it_full(cluster, 0)
    play(cluster, is_in_attempt(1))
    cluster.exit(pod(cluster, "digits-r1-worker-0"), 1, "loss is NaN")
    cluster.reconcile()
    find_it_full(cluster, 2)
    assert (cluster.status.restarts, cluster.status.full_volume_attempts) == (3, 1)
