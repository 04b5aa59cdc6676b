"""The admission policy: whom it asks about what, and what it costs."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from imagenet_operator.generate import admission
from imagenet_spec.resource import sources
from imagenet_spec.resource.base import Model
from imagenet_spec.resource.fields import SecretName, Template
from imagenet_spec.resource.sources.fields import SourceFields
from imagenet_spec.resource.templates import template_fields
from support import job_table, secret_fields
from support.admission_policy import (
    CHECK_COST,
    EXPRESSION_LIMIT,
    LIMIT,
    Requester,
    Right,
    refusals,
)
from support.secret_fields import NAME
from support.sentences import assert_says

Manifest = dict[str, Any]

POLICY = admission.policy()
CREATES_PODS: Right = ("create", "pods", "")
NO_PODS = (
    "ann may not create pods in the namespace vision, as an ImageNetJob does; "
    "ask for a role with the verb create on pods"
)


def no_secret(name: str) -> str:
    return (
        f"ann may not get the Secret {name} in the namespace vision, which the job names; "
        "ask for a role with the verb get on it"
    )


def of_secret(name: str) -> Right:
    return ("get", "secrets", name)


def asked(
    job: Manifest, *rights: Right, stored: Manifest | None = None
) -> tuple[list[str], list[list[Right]]]:
    """Return the refusals, and the checks of each expression."""
    requester = Requester(rights=frozenset(rights))
    return refusals(POLICY, requester, job, stored), requester.asked


def denied(job: Manifest, *rights: Right, stored: Manifest | None = None) -> list[str]:
    return asked(job, *rights, stored=stored)[0]


def at(path: str, value: Any) -> Manifest:
    """Return a job with a value at a path, and no more than that needs."""
    job = job_table.manifest()
    *parents, last = path.split(".")
    place = job
    for name in parents:
        place = place.setdefault(name, {})
    place[last] = value
    return job


def pulling(*names: str) -> Manifest:
    return at("spec.training.imagePullSecrets", [{"name": name} for name in names])


def test_a_job_needs_the_right_to_create_pods() -> None:
    job = job_table.manifest()
    assert denied(job) == [NO_PODS]
    assert denied(job, CREATES_PODS) == []


@pytest.mark.parametrize("template", admission.places().templates)
@pytest.mark.parametrize("path", secret_fields.templates())
def test_every_secret_of_every_template_is_asked_about(template: str, path: str) -> None:
    job = at(template, secret_fields.templates()[path])
    assert denied(job, CREATES_PODS) == [no_secret(NAME)]
    assert denied(job, CREATES_PODS, of_secret("other")) == [no_secret(NAME)]
    assert denied(job, CREATES_PODS, of_secret(NAME)) == []
    assert denied(job, CREATES_PODS, of_secret("")) == []


def test_every_template_of_the_models_is_known() -> None:
    job = job_table.read(job_table.manifest())
    known = set(admission.places().templates)
    assert {path for path, _ in template_fields(job.spec, "spec")} <= known
    assert "spec.training.strategy.horovod.rendezvous.template" in known


def test_pull_secrets_are_asked_about() -> None:
    job = pulling("a", "b", "a")
    assert denied(job, CREATES_PODS) == [no_secret("a"), no_secret("b")]
    assert denied(job, CREATES_PODS, of_secret("b")) == [no_secret("a")]
    assert denied(job, CREATES_PODS, of_secret("a"), of_secret("b")) == []


class Login(Model):
    secret_name: SecretName | None = None


class Spec(Model):
    source: Login | None = None
    template: Template | None = None


class Server(Model):
    logins: tuple[Login, ...] = ()


def test_a_field_that_is_marked_is_asked_about() -> None:
    policy = admission.policy(Spec)
    for source, refused in (({}, []), ({"secretName": "a"}, [no_secret("a")])):
        job = {"spec": {"source": source}}
        assert refusals(policy, Requester(rights=frozenset({CREATES_PODS})), job) == refused


def test_a_list_that_no_expression_reads_is_an_error() -> None:
    with pytest.raises(TypeError, match=r"spec\.logins: the admission policy reads only names"):
        admission.places(Server)


@pytest.mark.parametrize("kind", sources.Source.kinds())
def test_a_source_with_a_secret_marks_its_field(kind: str) -> None:
    fields = sources.SOURCES[kind]
    place = f"spec.dataset.source.{kind}."
    marked = any(path.startswith(place) for path in admission.places().secrets)
    assert marked == (fields.secret is not SourceFields.secret)


@pytest.mark.parametrize(
    "template",
    [
        {},
        {"metadata": {"labels": {"a": "b"}}},
        {"spec": None},
        {"spec": ["a"]},
        {"spec": {"containers": None, "volumes": "v", "imagePullSecrets": [None, {}, "a"]}},
        {"spec": {"volumes": [{"secret": None}, {"projected": {"sources": None}}, {"csi": []}]}},
        {"spec": {"volumes": [{"csi": {"nodePublishSecretRef": "a"}}, {"secret": {"name": "a"}}]}},
        {
            "spec": {
                "initContainers": [1, {"env": 2, "envFrom": [None, {"secretRef": {"name": 3}}]}]
            }
        },
        {"spec": {"containers": [{"env": [{"valueFrom": None}, {"valueFrom": {}}, {}]}]}},
        {"spec": {"containers": [{"env": [{"valueFrom": {"secretKeyRef": {"name": None}}}]}]}},
    ],
    ids=str,
)
def test_a_template_of_any_shape_is_left_to_the_operator(template: Manifest) -> None:
    assert denied(at("spec.training.workers.template", template), CREATES_PODS) == []


def test_an_update_is_asked_about_if_it_changes_the_spec() -> None:
    stored = job_table.manifest()
    kept = copy.deepcopy(stored)
    kept["metadata"]["finalizers"] = ["foregroundDeletion"]
    kept["status"] = {"phase": "Running"}
    assert denied(kept, stored=stored) == []

    changed = pulling("a")
    assert denied(changed, stored=stored) == [NO_PODS, no_secret("a")]
    suspended = at("spec.runPolicy", {"suspend": True})
    assert denied(suspended, stored=stored) == [NO_PODS]
    assert denied(suspended, CREATES_PODS, stored=stored) == []


def test_the_status_is_no_matter_of_the_policy() -> None:
    (rule,) = POLICY["matchConstraints"]["resourceRules"]
    assert rule["resources"] == ["imagenetjobs"]
    assert rule["operations"] == ["CREATE", "UPDATE"]
    assert POLICY["failurePolicy"] == "Fail"


def test_many_secrets_need_the_right_to_all() -> None:
    names = [f"s{index}" for index in range(admission.MOST_SECRETS + 1)]
    rights = [CREATES_PODS, *map(of_secret, names)]
    assert denied(pulling(*names[:-1]), *rights) == []
    (refusal,) = denied(pulling(*names), *rights)
    facts = ("more than 16 Secrets", "ann may not get all", "namespace vision")
    assert_says(refusal, *facts, "name fewer", "role with the verb get on secrets")
    assert denied(pulling(*names), CREATES_PODS, of_secret("")) == []


def test_the_checks_stay_within_the_limits_of_cost() -> None:
    names = [f"s{index}" for index in range(admission.MOST_SECRETS + 1)]
    _, checks = asked(pulling(*names), CREATES_PODS, *map(of_secret, names))
    costs = [len(of_expression) * CHECK_COST for of_expression in checks]
    assert max(costs) < EXPRESSION_LIMIT / 2
    # A third of the whole is left for reading a job: some 8,000 references to Secrets.
    assert sum(costs) < LIMIT * 2 / 3
