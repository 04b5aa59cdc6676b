"""Who may connect to whom, by a model of NetworkPolicies; and what may be moved."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagenet_operator.manifests import attempt, dataset, protection
from imagenet_operator.manifests.settings import Settings
from imagenet_spec.resource import ImageNetJob
from support.job_table import JOBS, members
from support.network_policies import Endpoint, allows, matches
from support.random_jobs import jobs

Manifest = dict[str, Any]

SCRAPERS: Manifest = {
    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}},
    "podSelector": {"matchLabels": {"app": "prometheus"}},
}
OPERATOR: Manifest = {
    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "imagenet"}},
    "podSelector": {"matchLabels": {"app": "operator"}},
}
OPEN = Settings(metrics_from=(OPERATOR, SCRAPERS))
SHUT = Settings()
JOB = JOBS["defaults"]
METRICS, ROOT, MEMBER, ANY = 9090, 9091, 9092, 40_000


def endpoint(template: Manifest, namespace: str = JOB.metadata.namespace) -> Endpoint:
    labels = {"kubernetes.io/metadata.name": namespace}
    return Endpoint(namespace, template["metadata"]["labels"], labels)


def member(role: str, number: int = 0, job: ImageNetJob = JOB) -> Endpoint:
    return next(
        endpoint(pod) for pod in members(job, number) if f"-{role}-" in pod["metadata"]["name"]
    )


def preparing(role: str) -> Endpoint:
    assert JOB.status.dataset is not None
    job = (
        dataset.index_job(JOB)
        if role == "index"
        else getattr(dataset, f"{role}_job")(JOB, JOB.status.dataset)
    )
    return endpoint(job["spec"]["template"])


def stranger(namespace: str, **labels: str) -> Endpoint:
    return Endpoint(namespace, labels, {"kubernetes.io/metadata.name": namespace})


def policies(job: ImageNetJob = JOB, settings: Settings = OPEN, *numbers: int) -> list[Manifest]:
    built = protection.of_preparation(job, settings)
    for number in numbers or (0,):
        built += attempt.build(job, number, settings)
    return [item for item in built if item["kind"] == "NetworkPolicy"]


OTHERS_JOB = JOB.model_copy(
    update={"metadata": JOB.metadata.model_copy(update={"name": "digits-2"})}
)
PROMETHEUS = stranger("monitoring", app="prometheus")
THE_OPERATOR = stranger("imagenet", app="operator")
OUTSIDERS = {
    "a pod of the namespace": stranger("vision", app="web"),
    "a pod without labels": stranger("vision"),
    "a pod of another namespace": stranger("elsewhere", app="web"),
    "a pod with a member's labels elsewhere": replace(member("worker"), namespace="elsewhere"),
    "a member of another job": member("worker", 0, OTHERS_JOB),
    "a member of an earlier attempt": member("worker", 1),
    "a pod that packs": preparing("pack"),
    "a namesake of the scraper": stranger("vision", app="prometheus"),
    "another pod beside the scraper": stranger("monitoring", app="grafana"),
    "an address outside": Endpoint(address="203.0.113.9"),
}


@pytest.mark.parametrize("target", ["scheduler", "server", "worker"])
@pytest.mark.parametrize("source", ["scheduler", "server", "worker"])
@pytest.mark.parametrize("port", [METRICS, ROOT, MEMBER, ANY])
@pytest.mark.parametrize("settings", [OPEN, SHUT], ids=["open", "shut"])
def test_members_of_an_attempt_reach_each_other(
    target: str, source: str, port: int, settings: Settings
) -> None:
    assert allows(policies(JOB, settings), member(source), member(target), port)


@pytest.mark.parametrize("outsider", OUTSIDERS.values(), ids=OUTSIDERS)
@pytest.mark.parametrize("settings", [OPEN, SHUT], ids=["open", "shut"])
@pytest.mark.parametrize("port", [METRICS, ROOT, MEMBER, ANY])
def test_nobody_else_reaches_a_member(outsider: Endpoint, settings: Settings, port: int) -> None:
    enforced = policies(JOB, settings, 0, 1) + policies(OTHERS_JOB, settings)
    for role in ("scheduler", "server", "worker"):
        assert not allows(enforced, outsider, member(role), port)


@pytest.mark.parametrize("source", [PROMETHEUS, THE_OPERATOR], ids=["scraper", "operator"])
@pytest.mark.parametrize(
    ("port", "protocol", "settings", "allowed"),
    [
        (METRICS, "TCP", OPEN, True),
        (METRICS, "UDP", OPEN, False),
        (ROOT, "TCP", OPEN, False),
        (MEMBER, "TCP", OPEN, False),
        (METRICS, "TCP", SHUT, False),
        (METRICS, "TCP", replace(OPEN, metrics_port=9999), False),
        (9999, "TCP", replace(OPEN, metrics_port=9999), True),
    ],
)
def test_the_metrics_are_for_those_that_the_operator_names(
    source: Endpoint, port: int, protocol: str, settings: Settings, allowed: bool
) -> None:
    enforced = policies(JOB, settings)
    targets = [member(role) for role in ("scheduler", "server", "worker")]
    targets += [preparing(role) for role in ("index", "pack", "seal")]
    for target in targets:
        assert allows(enforced, source, target, port, protocol) is allowed


@pytest.mark.parametrize("role", ["index", "pack", "seal"])
@pytest.mark.parametrize("port", [METRICS, ANY])
def test_nobody_else_reaches_the_preparation(role: str, port: int) -> None:
    others = [preparing("pack"), member("worker"), *OUTSIDERS.values()]
    for settings in (OPEN, SHUT):
        for source in others:
            assert not allows(policies(JOB, settings), source, preparing(role), port)


def test_without_the_policies_everybody_is_let_in() -> None:
    settings = Settings(network_policy=False, metrics_from=(SCRAPERS,))
    assert policies(JOB, settings) == []
    assert allows(policies(JOB, settings), OUTSIDERS["an address outside"], member("server"), 9092)


@given(job=jobs(), number=st.integers(0, 99))
def test_a_policy_selects_all_pods_of_its_attempt_and_no_others(
    job: ImageNetJob, number: int
) -> None:
    before, during = policies(job, OPEN, number)
    mine = [pod["metadata"]["labels"] for pod in members(job, number)]
    others = [pod["metadata"]["labels"] for pod in members(job, number + 1)]
    assert all(matches(during["spec"]["podSelector"], labels) for labels in mine)
    assert not any(matches(during["spec"]["podSelector"], labels) for labels in others)
    assert not any(matches(before["spec"]["podSelector"], labels) for labels in mine + others)
    for policy in (before, during):
        assert policy["apiVersion"] == "networking.k8s.io/v1"
        assert policy["metadata"]["ownerReferences"][0]["uid"] == job.metadata.uid
        labels = policy["metadata"]["labels"]
        assert labels["training.imagenet.dev/job-name"] == job.metadata.name
        assert labels["app.kubernetes.io/managed-by"] == "imagenet-operator"
        assert policy["spec"]["policyTypes"] == ["Ingress"]


@given(job=jobs(), number=st.integers(0, 99))
def test_a_budget_keeps_every_member(job: ImageNetJob, number: int) -> None:
    settings = Settings(pod_disruption_budget=True)
    (budget,) = (
        item
        for item in attempt.build(job, number, settings)
        if item["kind"] == "PodDisruptionBudget"
    )
    pods = members(job, number)
    assert budget["apiVersion"] == "policy/v1"
    assert budget["metadata"]["name"] == f"{job.metadata.name}-r{number}"
    # Without a controller that scales, neither maxUnavailable nor a percentage means anything.
    assert budget["spec"].keys() == {"minAvailable", "selector"}
    assert budget["spec"]["minAvailable"] == len(pods)
    assert all(matches(budget["spec"]["selector"], pod["metadata"]["labels"]) for pod in pods)


def test_a_budget_is_made_only_where_the_operator_wants_it() -> None:
    kinds = [item["kind"] for item in attempt.shared(JOB, 0, 5)]
    assert kinds == ["Service", "NetworkPolicy"]


@pytest.mark.parametrize(
    ("peer", "source", "allowed"),
    [
        ({"ipBlock": {"cidr": "203.0.113.0/24"}}, Endpoint(address="203.0.113.9"), True),
        (
            {"ipBlock": {"cidr": "203.0.113.0/24", "except": ["203.0.113.8/29"]}},
            Endpoint(address="203.0.113.9"),
            False,
        ),
        ({"namespaceSelector": {}}, stranger("elsewhere"), True),
        ({"namespaceSelector": {}}, Endpoint(address="203.0.113.9"), False),
        ({"podSelector": {}}, stranger("vision"), True),
        ({"podSelector": {}}, stranger("elsewhere"), False),
        (
            {"podSelector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}},
            stranger("vision", a="b"),
            True,
        ),
        (
            {
                "podSelector": {
                    "matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["b"]}]
                }
            },
            stranger("vision", a="b"),
            False,
        ),
    ],
)
def test_peers_of_every_kind_may_be_configured(
    peer: Manifest, source: Endpoint, allowed: bool
) -> None:
    enforced = policies(JOB, Settings(metrics_from=(peer,)))
    assert allows(enforced, source, member("worker"), METRICS) is allowed
    assert not allows(enforced, source, member("worker"), MEMBER)
