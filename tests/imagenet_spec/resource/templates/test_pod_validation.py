"""A template that every API server rejects is an error with its path; others are accepted."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from imagenet_spec.resource.templates.pod_validation import unstorable
from imagenet_spec.validate import validate
from support import job_table

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


def sentences(template: Any) -> list[str]:
    return [str(problem) for problem in unstorable(template, "t")]


REFUSED = [
    (
        {"nodeSelector": {"pool": "gpu"}},
        "t.nodeSelector: is not a field of a pod template; write it under spec",
    ),
    (
        {"metadata": {}, "spec": {}, "tolerations": None},
        "t.tolerations: is not a field of a pod template; write it under spec",
    ),
    (
        {"annotations": {"a": "b"}},
        "t.annotations: is not a field of a pod template; write it under metadata",
    ),
    ({"Spec": {}}, "t.Spec: is not a field of a pod template; did you mean spec?"),
    (
        {"nodeselector": {"pool": "gpu"}},
        "t.nodeselector: is not a field of a pod template; did you mean spec.nodeSelector?",
    ),
    (
        {"template": {"spec": {}}},
        "t.template: is not a field of a pod template; remove it: a template has metadata and spec",
    ),
    (
        {"example.com/pool": "gpu"},
        "t.example.com/pool: is not a field of a pod template; remove it: a template has metadata "
        "and spec",
    ),
    (
        pod(containers=[{"name": "trainer", "resources": {"limits": {"cpu": "4"}}}]),
        "t.spec.containers[0].image: is required: only the program's container, main, has a "
        "default; write it, or name the container main",
    ),
    (
        pod(containers=[PROXY, {"name": "proxy", "image": None}]),
        "t.spec.containers[1].image: is required: only the program's container, main, has a "
        "default; write it, or name the container main",
    ),
    (
        pod(containers=[{"name": "proxy", "$patch": "delete"}, {"name": "proxy", "image": ""}]),
        "t.spec.containers[1].image: is required: only the program's container, main, has a "
        "default; write it, or name the container main",
    ),
    (
        main(image=None),
        "t.spec.containers[0].image: cannot be removed: the program needs one; remove it, or "
        "write an image",
    ),
    (
        pod(containers=[{**PROXY, "name": None}]),
        "t.spec.containers[0].name: is required; write its name",
    ),
    (
        pod(initContainers=[{"name": "fetch"}]),
        "t.spec.initContainers[0].image: is required; write it",
    ),
    (
        pod(initContainers=[{"image": "registry.example.com/fetch:1"}]),
        "t.spec.initContainers[0].name: is required; write its name",
    ),
    (
        pod(initContainers=[FETCH, PROXY, FETCH]),
        't.spec.initContainers[2].name: "fetch" is also the name of initContainers[0]; write '
        "another name",
    ),
    (
        pod(containers=[{"name": "main"}, PROXY], initContainers=[PROXY]),
        't.spec.initContainers[0].name: "proxy" is also the name of containers[1]; write another '
        "name",
    ),
    (
        pod(initContainers=[{**FETCH, "name": "main"}]),
        't.spec.initContainers[0].name: "main" is also the name of the program\'s container; write '
        "another name",
    ),
    (
        pod(containers=[{**PROXY, "name": "log_shipper"}]),
        't.spec.containers[0].name: "log_shipper" is not a DNS label; write lowercase letters, '
        "digits and hyphens",
    ),
    (
        pod(initContainers=[{**FETCH, "name": "f" * 64}]),
        "t.spec.initContainers[0].name: has 64 characters; write at most 63",
    ),
    (
        pod(volumes=[{"name": "Cache", "emptyDir": {}}]),
        't.spec.volumes[0].name: "Cache" is not a DNS label; write lowercase letters, digits and '
        "hyphens",
    ),
    (
        resources({"cpu": "500m"}, {"cpu": 2}),
        "t.spec.containers[0].resources.requests.cpu: is 2, more than its limit of 500m; write at "
        "most 500m, or a higher limit",
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
        "t.spec.initContainers[0].resources.requests.ephemeral-storage: is 1Gi, more than its "
        "limit of 1G; write at most 1G, or a higher limit",
    ),
    (
        resources({"rdma/hca": 2}, {"rdma/hca": 1}),
        "t.spec.containers[0].resources.requests[rdma/hca]: is 1, and its limit 2: they must be "
        "equal for this resource; remove it",
    ),
    (
        resources({"hugepages-2Mi": "4Mi"}, {"hugepages-2Mi": "2Mi"}),
        "t.spec.containers[0].resources.requests.hugepages-2Mi: is 2Mi, and its limit 4Mi: they "
        "must be equal for this resource; remove it",
    ),
    (
        toleration(key="gpu", operator="Exist"),
        't.spec.tolerations[0].operator: "Exist" is not possible; write Exists or Equal',
    ),
    (
        toleration(operator="Equal", value="a"),
        "t.spec.tolerations[0].operator: must be Exists without a key; write Exists, or a key",
    ),
    (
        toleration(effect="NoSchedule"),
        "t.spec.tolerations[0].operator: must be Exists without a key; write Exists, or a key",
    ),
    (
        toleration(key="gpu", operator="Exists", value="true"),
        "t.spec.tolerations[0].value: cannot be given with the operator Exists; remove it, or "
        "write Equal",
    ),
    (
        toleration(key="gpu", operator="Exists", effect="NoSchedule", tolerationSeconds=60),
        "t.spec.tolerations[0].tolerationSeconds: cannot be given with another effect than "
        "NoExecute; remove it, or write NoExecute",
    ),
]


@pytest.mark.parametrize(("template", "sentence"), REFUSED)
def test_what_no_api_server_stores_is_told_with_its_place(
    template: dict[str, Any], sentence: str
) -> None:
    assert sentences(template) == [sentence]


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
    assert sentences(template) == []


def test_a_template_without_its_spec_is_told_field_by_field() -> None:
    job = job_table.manifest()
    job["spec"]["training"]["workers"]["template"] = {
        "nodeSelector": {"pool": "gpu"},
        "containers": [{"name": "main", "resources": {"limits": {"cpu": "4"}}}],
    }

    assert [str(problem) for problem in validate(job)] == [
        f"{PATH}.{name}: is not a field of a pod template; write it under spec"
        for name in ("nodeSelector", "containers")
    ]


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
