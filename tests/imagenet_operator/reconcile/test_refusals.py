"""What the API server refuses to create, as the condition of the job says it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from imagenet_operator.reconcile import explanation
from imagenet_operator.reconcile.types import ObjectEvent, Refusal
from support.job_stories import condition_of, creating, decided, make, observed, running

QUOTA = Refusal('pods "digits-r0-worker-1" is forbidden: exceeded quota: small, used: pods=4')


def test_a_job_without_pods_says_what_the_event_says() -> None:
    cluster = make()
    cluster.reconcile()
    cluster.now += timedelta(seconds=30)
    seen = observed(cluster)
    (item,) = seen.waiting
    event = ObjectEvent("FailedCreate", "Error creating: pods is forbidden: exceeded quota: small")
    status = decided(cluster, replace(seen, events={item.uid: event})).status
    assert condition_of(status, "DatasetReady")[1] == "QuotaExceeded"


def test_a_refusal_is_explained_without_anything_else_of_the_decision() -> None:
    cluster = make()
    decision = explanation.explain_refusal(cluster.job, QUOTA, cluster.now, cluster.settings)
    assert (decision.create, decision.delete, decision.patch, decision.events) == ((), (), (), ())
    assert condition_of(decision.status, "DatasetReady")[:2] == ("False", "QuotaExceeded")
    assert decision.status.start_time is None

    cluster = creating()
    decision = explanation.explain_refusal(cluster.job, QUOTA, cluster.now, cluster.settings)
    assert condition_of(decision.status, "Running")[:2] == ("False", "QuotaExceeded")
    assert decision.status.training is None


def test_a_refusal_is_explained_without_the_generation_of_the_refused_spec() -> None:
    cluster = creating()
    former = cluster.status.observed_generation
    cluster.document["metadata"]["generation"] = 7
    decision = explanation.explain_refusal(cluster.job, QUOTA, cluster.now, cluster.settings)
    assert decision.status.observed_generation == former
    assert former != 7


def test_a_refusal_is_over_once_everything_is_created() -> None:
    cluster = creating()
    status = decided(cluster, replace(observed(cluster), refusal=QUOTA)).status
    assert condition_of(status, "Running")[1] == "Scheduling"


def test_a_refusal_stays_in_the_condition_between_attempts() -> None:
    cluster = creating()
    cluster.reconcile(cut_after=4)
    status = decided(cluster, replace(observed(cluster), refusal=QUOTA)).status
    assert condition_of(status, "Running")[:2] == ("False", "QuotaExceeded")
    assert status.training is not None
    assert status.training.outcome is not None
    assert status.training.outcome.reason == "CreationCutOff"

    cluster.document["status"] = status.to_manifest()
    assert condition_of(cluster.status, "Running")[1] == "QuotaExceeded"
    assert (
        condition_of(decided(cluster, observed(cluster)).status, "Running")[1] == "CreationCutOff"
    )


def test_a_refusal_counts_more_than_an_ended_pod_that_does_not_go() -> None:
    """As when Kueue is away: its webhook fails, and its finalizers stay."""
    cluster = running()
    for item in cluster.running():
        item["metadata"]["finalizers"] = ["kueue.x-k8s.io/managed"]
    cluster.exit(cluster.running()[0], 1)
    cluster.reconcile()
    cluster.reconcile()
    for item in cluster.terminating():
        cluster.save_and_exit(item)
    cluster.now += timedelta(minutes=5)
    assert decided(cluster, observed(cluster)).create, "the next attempt does not wait for them"
    cluster.reconcile(cut_after=1)

    status = decided(cluster, replace(observed(cluster), refusal=QUOTA)).status
    assert condition_of(status, "Running")[:2] == ("False", "QuotaExceeded")
