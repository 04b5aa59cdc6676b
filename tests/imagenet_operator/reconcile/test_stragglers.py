"""Stragglers, from the pods' answers to the condition; nothing is ended because of them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from imagenet_operator.reconcile.decide import decide
from imagenet_operator.reconcile.observe import sort
from imagenet_operator.reconcile.policies import stragglers
from imagenet_operator.reconcile.sample import Asked, Sample
from imagenet_operator.reconcile.types import Decision
from imagenet_spec import metrics
from imagenet_spec.resource.status import TrainingStatus
from support.asynchronous import run_now
from support.job_stories import condition_of, is_in_attempt, is_running, make, play, pod
from support.member_metrics import INTERVAL, NOW, worker
from support.samples import parse_sample
from support.sentences import assert_says
from support.simulated_cluster import SimulatedCluster

PODS = ("digits-r0-worker-0", "digits-r0-worker-1")
ASKED = {name: Asked("worker", 0) for name in PODS}


class Members:
    """Two workers that answer every 15 seconds, with 30 exchanges between two answers."""

    def __init__(self, attempt: int = 0) -> None:
        self.attempt, self.number = attempt, 0
        self.seconds = [0.0, 0.0]
        self.sample: Sample | None = None

    def train(self, *seconds: float, silent: int | None = None) -> Sample:
        """Train until the next sample, with so many seconds before each exchange."""
        self.number += 1
        self.seconds = [
            total + 30 * each for total, each in zip(self.seconds, seconds, strict=True)
        ]
        texts = {
            pod: worker(rank, attempt=self.attempt)
            .counter(metrics.TRAIN_BEFORE_EXCHANGE.name, self.seconds[rank])
            .counter(metrics.TRAIN_EXCHANGES.name, 30 * self.number)
            .text
            for rank, pod in enumerate(PODS)
            if rank != silent
        }
        now = NOW + self.number * INTERVAL
        self.sample = parse_sample(texts, self.sample, now, ASKED)
        return self.sample


def named(sample: Sample) -> set[str]:
    assert sample.comparison is not None
    found = stragglers.slowest(TrainingStatus(), sample.comparison)
    return {item.name for item in found}


def test_a_worker_that_is_slow_in_three_windows_is_named() -> None:
    members = Members()
    found = [named(members.train(1, 2)) for _ in range(5)]
    assert found == [set(), set(), set(), {PODS[1]}, {PODS[1]}]


def test_a_window_goes_on_while_a_worker_does_not_answer() -> None:
    members = Members()
    members.train(1, 2)
    for _ in range(3):
        assert named(members.train(1, 2, silent=0)) == set()
    found = [named(members.train(1, 2)) for _ in range(3)]
    assert found == [set(), set(), {PODS[1]}]


def test_the_next_attempt_is_compared_anew() -> None:
    members = Members()
    for _ in range(5):
        former = members.train(1, 2)
    later = Members(attempt=1)
    later.sample = former
    assert named(later.train(1, 2)) == set()


def decided(cluster: SimulatedCluster, sample: Sample) -> Decision:
    """Reconcile with a sample, and take over the status."""
    seen = sort(cluster.job, run_now(cluster.observe(cluster.job)))
    sample = replace(sample, taken_at=cluster.now, progressed_at=cluster.now)
    decision = decide(cluster.job, seen, sample, cluster.now, cluster.settings)
    cluster.document["status"] = decision.status.to_manifest()
    assert not (decision.create or decision.delete or decision.patch)
    return decision


def sample_of(*seconds: float, samples: int = 5) -> Sample:
    members = Members()
    return [members.train(*seconds) for _ in range(samples)][-1]


def test_a_straggler_is_named_once_and_nothing_is_ended() -> None:
    cluster = play(make(), is_running)
    node = pod(cluster, PODS[1])["spec"]["nodeName"]
    first = decided(cluster, sample_of(1, 2))
    *state, message = condition_of(first.status, "Straggling")
    assert state == ["True", stragglers.REASON]
    assert_says(message, f"worker 1 (pod {PODS[1]} on node {node})", "2 times as long")
    assert_says(message, "exchange of gradients", "median of 2 workers")
    assert first.status.phase == "Running"
    (event,) = first.events
    assert (event.type, event.reason, event.message) == ("Warning", "Straggling", message)
    again = decided(cluster, sample_of(1, 2, samples=9))
    assert again.status.conditions == first.status.conditions
    assert again.events == ()


def test_a_straggler_that_recovers_is_named_no_more() -> None:
    cluster = play(make(), is_running)
    decided(cluster, sample_of(1, 2))
    decision = decided(cluster, sample_of(1, 1))
    assert condition_of(decision.status, "Straggling")[:2] == ("False", "Recovered")
    assert [event.reason for event in decision.events] == ["StragglerRecovered"]
    assert decision.status.training is not None
    assert decision.status.training.stragglers is None
    assert decided(cluster, sample_of(1, 1)).events == ()


def test_a_job_without_stragglers_has_no_such_condition() -> None:
    cluster = play(make(), is_running)
    kinds = {item.type for item in decided(cluster, sample_of(1, 1)).status.conditions}
    assert "Straggling" not in kinds


@pytest.mark.parametrize("samples", [1, 2, 3])
def test_after_a_restart_of_the_operator_the_condition_stays_until_more_is_known(
    samples: int,
) -> None:
    cluster = play(make(), is_running)
    before = decided(cluster, sample_of(1, 2)).status
    assert decided(cluster, sample_of(1, 1, samples=samples)).status.conditions == before.conditions


def test_a_sample_of_a_former_attempt_names_no_one() -> None:
    cluster = play(make(), is_running)
    sample = replace(sample_of(1, 2), attempt=7)
    assert "Straggling" not in {item.type for item in decided(cluster, sample).status.conditions}


def test_with_the_attempt_ends_the_condition() -> None:
    cluster = play(make(), is_running)
    decided(cluster, sample_of(1, 2))
    cluster.exit(pod(cluster, PODS[0]), 1)
    cluster.reconcile()
    assert condition_of(cluster.status, "Straggling") == (
        "False",
        "AttemptEnded",
        "attempt 0 has ended",
    )
    assert cluster.status.training is not None
    assert cluster.status.training.stragglers is None
    play(cluster, is_in_attempt(1))
    assert condition_of(cluster.status, "Straggling")[0] == "False"


def test_a_job_that_is_over_has_no_stragglers() -> None:
    cluster = play(make(activeDeadlineSeconds=100), is_running)
    decided(cluster, sample_of(1, 2))
    cluster.now += timedelta(seconds=200)
    cluster.reconcile()
    assert cluster.status.phase == "Failed"
    assert condition_of(cluster.status, "Straggling")[:2] == ("False", "DeadlineExceeded")
    assert cluster.status.training is not None
    assert cluster.status.training.stragglers is None
