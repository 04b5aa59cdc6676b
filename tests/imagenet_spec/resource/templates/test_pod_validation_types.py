"""The types of a pod template's fields: what an API server could not read, and what it can."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from imagenet_spec.resource.templates.pod_validation import (
    misspelled,
    without_misspelled,
    wrong_types,
)
from imagenet_spec.validate import validate
from support import job_table
from support.pod_subset import REPOSITORY
from support.sentences import assert_says

PATH = "spec.training.workers.template"
MERGES = REPOSITORY / "tests" / "imagenet_spec" / "resource" / "templates"
MERGE_CORPUS = yaml.safe_load((MERGES / "merge_corpus.yaml").read_text())
MERGED = json.loads((MERGES / "merge_expected.json").read_text())
OF_ANOTHER_TYPE = {
    "a map in place of a scalar",
    "a scalar in place of a map",
    "a list in place of a map",
    "a map in place of a list",
}
"""What kubectl merges all the same: it asks the API server, which refuses the result."""


def main(**fields: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "main", **fields}]}}


def pod(**fields: Any) -> dict[str, Any]:
    return {"spec": fields}


def sentences(template: Any) -> list[str]:
    return [str(problem) for problem in wrong_types(template, "t")]


REFUSED: list[tuple[Any, str, tuple[str, ...]]] = [
    (
        main(env=[{"name": "A", "value": "1"}, {"name": "N", "value": 1}]),
        "t.spec.containers[0].env[1].value",
        ("text", "not 1", '"1" in quotes'),
    ),
    (
        main(env=[{"name": "N", "value": 0.5}]),
        "t.spec.containers[0].env[0].value",
        ("text", "not 0.5", '"0.5" in quotes'),
    ),
    (
        main(env=[{"name": True}]),
        "t.spec.containers[0].env[0].name",
        ("text", "not true", '"true" in quotes'),
    ),
    (
        main(env=[{"name": "N", "value": ["a"]}]),
        "t.spec.containers[0].env[0].value",
        ("text", "not a list", "write text"),
    ),
    (
        main(env=["N=1"]),
        "t.spec.containers[0].env[0]",
        ("an object", 'not "N=1"', "write an object", "NAME: VALUE"),
    ),
    (
        main(env={"N": "1"}),
        "t.spec.containers[0].env",
        ("a list", "not an object", "write a list", "a dash before each item"),
    ),
    (pod(nodeSelector={"gpu": True}), "t.spec.nodeSelector.gpu", ("text", '"true" in quotes')),
    (
        pod(nodeSelector={"example.com/gpu": 1}),
        "t.spec.nodeSelector[example.com/gpu]",
        ("text", "not 1", '"1" in quotes'),
    ),
    (
        {"metadata": {"annotations": {"a.example/b": False}}},
        "t.metadata.annotations[a.example/b]",
        ("text", "not false", '"false" in quotes'),
    ),
    ({"metadata": {"labels": {"team": 7}}}, "t.metadata.labels.team", ("text", '"7" in quotes')),
    (
        pod(tolerations="x"),
        "t.spec.tolerations",
        ("a list", 'not "x"', "write a list", "a dash before each item"),
    ),
    (
        pod(tolerations=[{"tolerationSeconds": "60"}]),
        "t.spec.tolerations[0].tolerationSeconds",
        ("an integer", 'not "60"', "60 without quotes"),
    ),
    (
        pod(terminationGracePeriodSeconds=1.5),
        "t.spec.terminationGracePeriodSeconds",
        ("an integer", "not 1.5", "write an integer"),
    ),
    (
        pod(hostNetwork="False"),
        "t.spec.hostNetwork",
        ("true or false", 'not "False"', "false without quotes"),
    ),
    (
        pod(automountServiceAccountToken=0),
        "t.spec.automountServiceAccountToken",
        ("true or false", "not 0", "write true or false"),
    ),
    (
        main(command="python train.py"),
        "t.spec.containers[0].command",
        ("a list", 'not "python train.py"', 'write ["python train.py"]'),
    ),
    (
        main(resources={"limits": {"memory": "16 GB"}}),
        "t.spec.containers[0].resources.limits.memory",
        ("a quantity", 'not "16 GB"', "such as 16Gi, 500m or 2"),
    ),
    (
        pod(volumes=[{"name": "v", "emptyDir": {"sizeLimit": True}}]),
        "t.spec.volumes[0].emptyDir.sizeLimit",
        ("a quantity", "not true", "such as 16Gi, 500m or 2"),
    ),
    (
        main(livenessProbe={"httpGet": {"port": 1.5}}),
        "t.spec.containers[0].livenessProbe.httpGet.port",
        ("a number or a name", "not 1.5", "the port's number", "or its name"),
    ),
    (pod(affinity={"nodeAffinity": 3}), "t.spec.affinity.nodeAffinity", ("an object", "not 3")),
    ({"spec": 3}, "t.spec", ("an object", "not 3", "write an object", "NAME: VALUE")),
    (pod(hostname={"a": 1}), "t.spec.hostname", ("text", "not an object", "write text")),
    (
        pod(nodeSelector="x" * 70),
        "t.spec.nodeSelector",
        ("an object", f'not "{"x" * 56}…;', "write an object"),
    ),
]


@pytest.mark.parametrize(("template", "path", "facts"), REFUSED)
def test_what_an_api_server_cannot_read_is_told_with_its_place(
    template: dict[str, Any], path: str, facts: tuple[str, ...]
) -> None:
    (problem,) = wrong_types(template, "t")
    assert problem.path == path
    assert_says(str(problem), path, "must be", *facts)


def test_every_wrong_type_is_told_at_once() -> None:
    template = {
        "metadata": {"annotations": {"a": False}},
        **pod(nodeSelector={"gpu": True}, initContainers=[{"name": "i", "args": [1, "2"]}]),
    }
    assert [item.partition(":")[0] for item in sentences(template)] == [
        "t.metadata.annotations.a",
        "t.spec.nodeSelector.gpu",
        "t.spec.initContainers[0].args[0]",
    ]


TAKEN = {
    "integers that are written with a point": pod(priority=8.0),
    "amounts as numbers": main(resources={"limits": {"cpu": 4, "nvidia.com/gpu": 0.5}}),
    "amounts as text": pod(overhead={"memory": "1Gi"}),
    "a port by its number": main(readinessProbe={"tcpSocket": {"port": 9091}}),
    "a port by its name": main(readinessProbe={"tcpSocket": {"port": "metrics"}}),
    "nulls": {
        "metadata": {"annotations": {"a": None}, "labels": None},
        "spec": {
            "nodeSelector": None,
            "tolerations": None,
            "containers": [{"name": "main", "env": [{"name": "A", "value": None}, None]}],
        },
    },
    "directives": {
        "metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]},
        "spec": {
            "$setElementOrder/containers": [{"name": "main"}],
            "nodeSelector": {"$patch": "replace", "$retainKeys": ["a"]},
            "volumes": [{"$patch": "replace"}, {"name": "a", "$patch": "delete"}],
        },
    },
    "fields of another Kubernetes": pod(fromTheFuture=[1, {"a": True}]),
}


@pytest.mark.parametrize("template", TAKEN.values(), ids=TAKEN)
def test_what_an_api_server_reads_is_no_problem(template: dict[str, Any]) -> None:
    assert sentences(template) == []


MISSPELLED = [
    (pod(nodeSelectr={"pool": "gpu"}), "t.spec.nodeSelectr", "nodeSelector"),
    (main(resurces={}), "t.spec.containers[0].resurces", "resources"),
    (main(resources={"limit": {"cpu": 1}}), "t.spec.containers[0].resources.limit", "limits"),
    (main(Image="a:1"), "t.spec.containers[0].Image", "image"),
    (main(env=[{"nam": "N"}]), "t.spec.containers[0].env[0].nam", "name"),
    (pod(tolerations=[{"efect": "NoExecute"}]), "t.spec.tolerations[0].efect", "effect"),
    ({"metadata": {"label": {}}}, "t.metadata.label", "labels"),
    (
        pod(affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecutio": {}}}),
        "t.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecutio",
        "requiredDuringSchedulingIgnoredDuringExecution",
    ),
    (
        pod(volumes=[{"name": "v", "emptyDir": {"sizelimit": "1Gi"}}]),
        "t.spec.volumes[0].emptyDir.sizelimit",
        "sizeLimit",
    ),
]


@pytest.mark.parametrize(("template", "path", "meant"), MISSPELLED)
def test_misspelled_field(template: dict[str, Any], path: str, meant: str) -> None:
    (found,) = misspelled(template, "t")
    assert (found.path, found.hint) == (path, f"did you mean {meant}?")
    assert not list(misspelled(without_misspelled(template), "t"))


@pytest.mark.parametrize("template", TAKEN.values(), ids=TAKEN)
def test_no_other_field_is_misspelled(template: dict[str, Any]) -> None:
    assert not list(misspelled(template, "t"))
    assert without_misspelled(template) == template


def test_names_of_the_users_are_not_fields() -> None:
    template = pod(nodeSelector={"nam": "x"}, containers=[{"name": "m", "resources": {}}])
    template["metadata"] = {"labels": {"annotation": "x"}, "annotations": {"label": "y"}}
    assert not list(misspelled(template, "t"))


def test_a_new_job_with_a_misspelled_field_is_invalid() -> None:
    job = job_table.manifest()
    job["spec"]["training"]["workers"]["template"] = pod(nodeSelectr={}, hostname=3)
    assert [item.path for item in validate(job)] == [
        f"{PATH}.spec.nodeSelectr",
        f"{PATH}.spec.hostname",
    ]


@pytest.mark.parametrize("name", [name for name, merged in MERGED.items() if merged is not None])
def test_what_kubectl_merges_is_refused_only_for_its_types(name: str) -> None:
    found = sentences(MERGE_CORPUS["cases"][name])
    assert bool(found) == (name in OF_ANOTHER_TYPE)


def test_a_whole_pod_is_as_it_should_be() -> None:
    assert sentences(MERGE_CORPUS["base"]) == []


@pytest.mark.parametrize(
    "security",
    [
        {"capabilities": {"add": 5}},
        {"capabilities": {"drop": [{}]}},
        {"seccompProfile": {"type": ["RuntimeDefault"]}},
    ],
)
def test_types_are_judged_before_what_is_the_operators(security: dict[str, Any]) -> None:
    job = job_table.manifest()
    job["spec"]["training"]["workers"]["template"] = main(securityContext=security)

    (problem,) = validate(job)

    assert problem.path.startswith(f"{PATH}.spec.containers[0].securityContext.")
    assert "must be" in problem.message
