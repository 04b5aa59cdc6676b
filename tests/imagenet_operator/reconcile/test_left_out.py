"""Which pods are left out of the metrics: said of the current attempt, and not after the end."""

from __future__ import annotations

from datetime import timedelta

import pytest

from imagenet_operator.reconcile.decide import decide
from imagenet_operator.reconcile.observe import sort
from imagenet_operator.reconcile.sample import Sample
from imagenet_spec.resource.status import Status
from support.asynchronous import run_now
from support.job_stories import is_running, make, play
from support.simulated_cluster import SimulatedCluster


def decided(cluster: SimulatedCluster, asked: int | None) -> Status:
    """Return the status after a sample of an attempt of which no pod answered."""
    sample = Sample(taken_at=cluster.now, asked=asked, left_out="worker-1: compressed")
    seen = sort(cluster.job, run_now(cluster.observe(cluster.job)))
    return decide(cluster.job, seen, sample, cluster.now, cluster.settings).status


@pytest.mark.parametrize(("asked", "words"), [(0, "worker-1: compressed"), (1, None), (None, None)])
def test_only_a_sample_of_the_current_attempt_counts(asked: int | None, words: str | None) -> None:
    assert decided(play(make(), is_running), asked).metrics_left_out == words


def test_a_job_that_is_over_names_no_pods() -> None:
    cluster = play(make(activeDeadlineSeconds=100), is_running)
    cluster.now += timedelta(seconds=100)
    status = decided(cluster, 0)
    assert status.completion_time is not None
    assert status.metrics_left_out is None
