"""A template that every API server rejects is an error with its path; others are accepted."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from imagenet_spec.resource.templates.pod_validation import unstorable
from imagenet_spec.validate import validate
from support import job_table
from support.sentences import assert_says

PATH = "spec.training.workers.template"
PROXY = {"name": "proxy", "image": "registry.example.com/proxy:1"}
FETCH = {"name": "fetch", "image": "registry.example.com/fetch:1"}


def pod(**fields: Any) -> dict[str, Any]:
    return {"spec": fields}


def main(**fields: Any) -> dict[str, Any]:
    return pod(containers=[{"name": "main", **fields}])


def resources(limits: Any, requests: Any) -> dict[str, Any]:
    return main(resources={"limits": limits, "requests": requests})


def toleration(**fields: Any) -> dict[str, Any]:
    return pod(tolerations=[fields])


REFUSED: list[tuple[Any, str, tuple[str, ...]]] = [
    (
        {"nodeSelector": {"pool": "gpu"}},
        "t.nodeSelector",
        ("is not a field", "pod template", "write it under spec"),
    ),
    (
        {"metadata": {}, "spec": {}, "tolerations": None},
        "t.tolerations",
        ("is not a field", "write it under spec"),
    ),
    (
        {"annotations": {"a": "b"}},
        "t.annotations",
        ("is not a field", "write it under metadata"),
    ),
    ({"Spec": {}}, "t.Spec", ("is not a field", "did you mean spec?")),
    (
        {"nodeselector": {"pool": "gpu"}},
        "t.nodeselector",
        ("is not a field", "did you mean spec.nodeSelector?"),
    ),
    (
        {"template": {"spec": {}}},
        "t.template",
        ("is not a field", "remove it", "metadata and spec"),
    ),
    (
        {"example.com/pool": "gpu"},
        "t.example.com/pool",
        ("is not a field", "remove it", "metadata and spec"),
    ),
    (
        pod(containers=[{"name": "trainer", "resources": {"limits": {"cpu": "4"}}}]),
        "t.spec.containers[0].image",
        ("is required", "only", "main", "a default", "write it", "name the container main"),
    ),
    (
        pod(containers=[PROXY, {"name": "proxy", "image": None}]),
        "t.spec.containers[1].image",
        ("is required", "write it"),
    ),
    (
        pod(containers=[{"name": "proxy", "$patch": "delete"}, {"name": "proxy", "image": ""}]),
        "t.spec.containers[1].image",
        ("is required", "write it"),
    ),
    (
        main(image=None),
        "t.spec.containers[0].image",
        ("cannot be removed", "remove it", "or write an image"),
    ),
    (
        pod(containers=[{**PROXY, "name": None}]),
        "t.spec.containers[0].name",
        ("is required", "write"),
    ),
    (
        pod(initContainers=[{"name": "fetch"}]),
        "t.spec.initContainers[0].image",
        ("is required", "write"),
    ),
    (
        pod(initContainers=[{"image": "registry.example.com/fetch:1"}]),
        "t.spec.initContainers[0].name",
        ("is required", "write"),
    ),
    (
        pod(initContainers=[FETCH, PROXY, FETCH]),
        "t.spec.initContainers[2].name",
        ('"fetch"', "name of initContainers[0]", "another name"),
    ),
    (
        pod(containers=[{"name": "main"}, PROXY], initContainers=[PROXY]),
        "t.spec.initContainers[0].name",
        ('"proxy"', "name of containers[1]", "another name"),
    ),
    (
        pod(initContainers=[{**FETCH, "name": "main"}]),
        "t.spec.initContainers[0].name",
        ('"main"', "the program's container", "another name"),
    ),
    (
        pod(containers=[{**PROXY, "name": "log_shipper"}]),
        "t.spec.containers[0].name",
        ('"log_shipper" is not a DNS label', "lowercase letters, digits and hyphens"),
    ),
    (
        pod(initContainers=[{**FETCH, "name": "f" * 64}]),
        "t.spec.initContainers[0].name",
        ("64 characters", "at most 63"),
    ),
    (
        pod(volumes=[{"name": "Cache", "emptyDir": {}}]),
        "t.spec.volumes[0].name",
        ('"Cache" is not a DNS label', "lowercase letters, digits and hyphens"),
    ),
    (
        resources({"cpu": "500m"}, {"cpu": 2}),
        "t.spec.containers[0].resources.requests.cpu",
        ("is 2", "more than", "limit of 500m", "at most 500m", "a higher limit"),
    ),
    (
        pod(
            initContainers=[
                {
                    **FETCH,
                    "resources": {
                        "limits": {"ephemeral-storage": "1G"},
                        "requests": {"ephemeral-storage": "1Gi"},
                    },
                }
            ]
        ),
        "t.spec.initContainers[0].resources.requests.ephemeral-storage",
        ("is 1Gi", "more than", "limit of 1G;", "at most 1G,", "a higher limit"),
    ),
    (
        resources({"rdma/hca": 2}, {"rdma/hca": 1}),
        "t.spec.containers[0].resources.requests[rdma/hca]",
        ("is 1", "limit 2", "must be equal", "remove it"),
    ),
    (
        resources({"hugepages-2Mi": "4Mi"}, {"hugepages-2Mi": "2Mi"}),
        "t.spec.containers[0].resources.requests.hugepages-2Mi",
        ("is 2Mi", "limit 4Mi", "must be equal", "remove it"),
    ),
    (
        toleration(key="gpu", operator="Exist"),
        "t.spec.tolerations[0].operator",
        ('"Exist" is not possible', "write Exists or Equal"),
    ),
    (
        toleration(operator="Equal", value="a"),
        "t.spec.tolerations[0].operator",
        ("must be Exists", "without a key", "write Exists, or a key"),
    ),
    (
        toleration(effect="NoSchedule"),
        "t.spec.tolerations[0].operator",
        ("must be Exists", "without a key", "write Exists, or a key"),
    ),
    (
        toleration(key="gpu", operator="Exists", value="true"),
        "t.spec.tolerations[0].value",
        ("cannot be given", "operator Exists", "remove it", "or write Equal"),
    ),
    (
        toleration(key="gpu", operator="Exists", effect="NoSchedule", tolerationSeconds=60),
        "t.spec.tolerations[0].tolerationSeconds",
        ("cannot be given", "another effect than NoExecute", "remove it", "or write NoExecute"),
    ),
]


@pytest.mark.parametrize(("template", "path", "facts"), REFUSED)
def test_what_no_api_server_stores_is_told_with_its_place(
    template: dict[str, Any], path: str, facts: tuple[str, ...]
) -> None:
    (problem,) = unstorable(template, "t")
    assert problem.path == path
    assert_says(str(problem), path, *facts)


TAKEN = {
    "nothing": {},
    "directives at the top": {"$setElementOrder/containers": [], "$patch": "replace"},
    "the operator's own container": main(env=[{"name": "A", "value": "b"}]),
    "the program's image": main(image="registry.example.com/own:1"),
    "containers of the user's": pod(containers=[PROXY], initContainers=[FETCH]),
    "an init container that stays": pod(initContainers=[{**FETCH, "restartPolicy": "Always"}]),
    "an item that comes again is merged": pod(containers=[{"name": "proxy"}, PROXY]),
    "items that are taken away": pod(
        containers=[{"name": "proxy", "$patch": "delete"}],
        initContainers=[{"name": "proxy", "$patch": "delete"}, {"$patch": "replace"}, PROXY],
    ),
    "what the merge says": pod(containers=[{"image": "registry.example.com/own:1"}]),
    "a label that begins with a digit": pod(volumes=[{"name": "0-cache", "emptyDir": {}}]),
    "requests within their limits": resources(
        {"cpu": 2, "memory": "1Gi", "rdma/hca": "2"},
        {"cpu": "2000m", "memory": "1000M", "rdma/hca": 2},
    ),
    "a resource of Kubernetes' own": resources(
        {"example.kubernetes.io/slots": 2}, {"example.kubernetes.io/slots": 1}
    ),
    "requests without limits": resources({}, {"cpu": 2, "memory": None}),
    "a limit that is taken away": resources({"cpu": None}, {"cpu": 2}),
    "limits that are taken away": resources(None, {"cpu": 2}),
    "limits that are replaced": resources({"cpu": 1, "$patch": "replace"}, {"cpu": 2}),
    "resources that are replaced": main(
        resources={"limits": {"cpu": 1}, "requests": {"cpu": 2}, "$patch": "replace"}
    ),
    "limits that come later": pod(
        containers=[
            {"name": "main", "resources": {"limits": {"cpu": 1}, "requests": {"cpu": 2}}},
            {"name": "main", "resources": {"limits": {"cpu": 2}}},
        ]
    ),
    "tolerations": pod(
        tolerations=[
            {"operator": "Exists"},
            {"key": "gpu", "value": "true"},
            {"key": "gpu", "operator": "", "value": "true", "effect": None},
            {"key": "gpu", "operator": "Exists", "value": ""},
            {"key": "gpu", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60},
        ]
    ),
    "an operator of newer versions": toleration(key="sla", operator="Gt", value="950"),
    "a toleration that directs": toleration(operator="Exist", **{"$patch": "delete"}),
}


@pytest.mark.parametrize("template", TAKEN.values(), ids=TAKEN)
def test_what_some_api_server_stores_is_no_problem(template: dict[str, Any]) -> None:
    assert not list(unstorable(template, "t"))


def test_a_template_without_its_spec_is_told_field_by_field() -> None:
    job = job_table.manifest()
    job["spec"]["training"]["workers"]["template"] = {
        "nodeSelector": {"pool": "gpu"},
        "containers": [{"name": "main", "resources": {"limits": {"cpu": "4"}}}],
    }

    problems = validate(job)
    assert [item.path for item in problems] == [f"{PATH}.nodeSelector", f"{PATH}.containers"]
    for problem in problems:
        assert_says(str(problem), "is not a field", "pod template", "write it under spec")


NAMES = (
    "metadata spec containers initContainers name image resources limits requests cpu tolerations"
    " key operator value effect tolerationSeconds $patch"
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["", "main", "Exists", "2Gi"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(NAMES.split()), inner, max_size=3)
    ),
    max_leaves=12,
)


@settings(deadline=None)
@given(JSON, JSON)
def test_no_template_is_too_odd_to_be_judged(odd: object, odder: object) -> None:
    """Guards the builders, which may get templates without validation."""
    container = {"name": odd, "image": odder, "resources": odd}
    amounts = {"name": "main", "resources": {"limits": odd, "requests": odder}}
    for spec in (
        odd,
        {"containers": odd, "initContainers": odder, "tolerations": odd, "volumes": odd},
        {"containers": [container, amounts], "initContainers": [container, container]},
        {"tolerations": [{"key": odd, "operator": odder, "value": odd, "effect": odder}]},
    ):
        for problem in unstorable({"spec": spec}, PATH):
            assert problem.path.startswith(PATH) and problem.hint and problem.stage == "operator"
