"""A delay of a known length lands in its phase of `status.time`, and in no other.

The reconciles are the real ones. The world stands still for the length of the delay.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from imagenet_operator.reconcile.sample import Sample
from imagenet_operator.reconcile.types import Decision
from imagenet_spec.resource.time_status import PHASES, WORKER_PHASES, seconds_of
from support.job_stories import is_running, make, names, play
from support.job_table import FETCHED, manifest
from support.simulated_cluster import SimulatedCluster
from support.simulated_queue import QueuedCluster

NO_ROOM = {"a": 0}
SECONDS = 7
"""Less than any back-off or timeout."""


def with_job(step: str) -> SimulatedCluster:
    """A job whose Job of a step of the preparation runs."""
    cluster = SimulatedCluster(manifest(dataset={"source": FETCHED}), NO_ROOM)
    return play(cluster, lambda found: f"digits-{step}" in names(found, "Job"))


def with_pods() -> SimulatedCluster:
    """A job whose pods no node has room for."""
    return play(make(NO_ROOM), lambda found: bool(found.members()))


def in_a_queue() -> SimulatedCluster:
    """A job whose index Job is held by Kueue."""
    return play(QueuedCluster(NO_ROOM), lambda found: found.status.phase == "Queued")


def with_nodes() -> SimulatedCluster:
    """A job whose pods have nodes, which pull their images."""
    cluster = with_pods()
    cluster.slots["a"] = 9
    for pod in cluster.pending():
        cluster.bind(pod)
    return cluster


def with_a_failed_worker() -> SimulatedCluster:
    """A job with a worker that has failed."""
    cluster = silent()
    cluster.exit(cluster.objects["Pod", "digits-r0-worker-1"], 1)
    return cluster


def suspended(cluster: SimulatedCluster) -> SimulatedCluster:
    """A job that was suspended, whose pods do not end for the present."""
    cluster.suspend(True)
    return cluster


def silent() -> SimulatedCluster:
    """A job that trains, without metrics."""
    return reporting(None)


def reporting(seconds: dict[str, float] | None) -> SimulatedCluster:
    """A job that trains, whose rank 0 reports this account; None is no report."""
    cluster = make()

    def sample() -> Sample | None:
        if seconds is None:
            return None
        return Sample(cluster.now, attempt=0, progressed_at=cluster.now, seconds=dict(seconds))

    cluster.sample = sample  # type: ignore[method-assign]
    return play(cluster, is_running)


def phases(decision: Decision) -> dict[str, float]:
    assert decision.status.time is not None
    return seconds_of(decision.status.time.phases)


def added(cluster: SimulatedCluster, delay: Callable[[], None]) -> dict[str, float]:
    """Return the seconds by phase that a delay adds to the account."""
    cluster.reconcile()
    before = phases(cluster.reconcile())
    delay()
    after = phases(cluster.reconcile())
    grown = {name: after.get(name, 0.0) - before.get(name, 0.0) for name in PHASES}
    return {name: round(seconds, 1) for name, seconds in grown.items() if seconds}


JOB_DELAYS = {
    "no quota": ("queued", in_a_queue),
    "nodes without room": ("queueing", with_pods),
    "slow fetch": ("fetching", lambda: with_job("fetch")),
    "slow index": ("preparing", lambda: with_job("index")),
    "slow pack": ("preparing", lambda: with_job("pack")),
    "slow seal": ("preparing", lambda: with_job("seal")),
    "slow pull": ("pulling", with_nodes),
    "silent worker": ("unreported", silent),
    "back-off": ("restarting", with_a_failed_worker),
    "suspended preparation": ("suspended", lambda: suspended(with_job("pack"))),
    "suspended training": ("suspended", lambda: suspended(silent())),
}


@pytest.mark.parametrize(("phase", "scene"), JOB_DELAYS.values(), ids=JOB_DELAYS)
def test_a_delay_lands_in_its_phase(phase: str, scene: Callable[[], SimulatedCluster]) -> None:
    cluster = scene()

    def delay() -> None:
        cluster.now += timedelta(seconds=SECONDS)

    assert added(cluster, delay) == {phase: SECONDS}


@pytest.mark.parametrize("phase", WORKER_PHASES)
def test_a_delay_that_rank_0_reports_lands_in_its_phase(phase: str) -> None:
    reported: dict[str, float] = {}
    cluster = reporting(reported)

    def delay() -> None:
        cluster.now += timedelta(seconds=SECONDS)
        reported[phase] = reported.get(phase, 0.0) + SECONDS

    assert added(cluster, delay) == {phase: SECONDS}


def test_the_table_has_every_phase() -> None:
    assert {phase for phase, _ in JOB_DELAYS.values()} | {*WORKER_PHASES} == {*PHASES}
