"""What a user's template can and cannot do to a built pod."""

import copy
from typing import Any

import pytest

from imagenet_operator.manifests import template
from imagenet_spec.errors import InvalidTemplate

PATH = "spec.training.workers.template"
BUILT: dict[str, Any] = {
    "metadata": {"labels": {"training.imagenet.dev/job-name": "digits"}},
    "spec": {
        "restartPolicy": "Never",
        "containers": [
            {
                "name": "main",
                "image": "built:1",
                "env": [{"name": "POD_NAME", "value": "a"}],
                "resources": {"limits": {"nvidia.com/gpu": "1"}},
            }
        ],
    },
}


def merged(user: dict[str, Any] | None) -> dict[str, Any]:
    before = copy.deepcopy((BUILT, user))
    result = template.merge(BUILT, user, PATH)
    assert (BUILT, user) == before
    return result


def of_program(**fields: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "main", **fields}]}}


def test_no_template_leaves_the_pod_as_built() -> None:
    result = merged(None)
    assert result == BUILT
    result["spec"]["containers"][0]["env"].clear()
    assert BUILT["spec"]["containers"][0]["env"]


def test_what_the_template_adds_is_there_beside_what_was_built() -> None:
    result = merged(
        {
            "metadata": {"annotations": {"team": "vision"}},
            "spec": {
                "nodeSelector": {"gpu": "a100"},
                "containers": [{"name": "main", "env": [{"name": "NCCL_DEBUG", "value": "INFO"}]}],
            },
        }
    )
    assert result["metadata"] == {**BUILT["metadata"], "annotations": {"team": "vision"}}
    assert result["spec"]["nodeSelector"] == {"gpu": "a100"}
    names = {variable["name"] for variable in result["spec"]["containers"][0]["env"]}
    assert names == {"POD_NAME", "NCCL_DEBUG"}


def test_the_program_stays_the_first_container() -> None:
    sidecars = [{"name": "logs", "image": "l"}, {"name": "proxy", "image": "p"}]
    result = merged({"spec": {"containers": sidecars}})
    assert [item["name"] for item in result["spec"]["containers"]] == ["main", "logs", "proxy"]


def test_the_operators_variables_come_first_so_that_others_may_refer_to_them() -> None:
    own = [{"name": "CACHE", "value": "$(POD_NAME)/a"}, {"name": "LOG", "value": "$(CACHE)/log"}]
    order = [{"name": "LOG"}, {"name": "CACHE"}, {"name": "POD_NAME"}]
    for fields in ({"env": own}, {"env": own[::-1], "$setElementOrder/env": order}):
        env = merged(of_program(**fields))["spec"]["containers"][0]["env"]
        assert env[0] == {"name": "POD_NAME", "value": "a"}
        assert env[1:] == fields["env"]


@pytest.mark.parametrize("kind", ["limits", "requests"])
@pytest.mark.parametrize(
    ("cores", "threads", "cpus"),
    [
        ("4", "4", "4"),
        (4, "4", "4"),
        ("3500m", "3", "4"),
        ("500m", "1", "1"),
        (2.5, "2", "3"),
        ("1k", "1000", "1000"),
    ],
)
def test_threads_follow_the_cpu_limit_or_the_request(
    kind: str, cores: str | float, threads: str, cpus: str
) -> None:
    env = merged(of_program(resources={kind: {"cpu": cores}}))["spec"]["containers"][0]["env"]
    assert {"name": "OMP_NUM_THREADS", "value": threads} in env
    assert {"name": "IMAGENET_CPUS", "value": cpus} in env


def test_the_limit_counts_before_the_request() -> None:
    both = {"limits": {"cpu": "4"}, "requests": {"cpu": "2"}}
    env = merged(of_program(resources=both))["spec"]["containers"][0]["env"]
    assert {"name": "IMAGENET_CPUS", "value": "4"} in env


@pytest.mark.parametrize(
    "fields",
    [
        {"resources": {"limits": {"memory": "4Gi"}}},
        {"resources": {"requests": {"cpu": "0"}}},
        {"resources": None},
        {},
    ],
)
def test_threads_are_left_alone_without_cores(fields: dict[str, Any]) -> None:
    env = merged(of_program(**fields))["spec"]["containers"][0]["env"]
    assert env == [{"name": "POD_NAME", "value": "a"}]


def test_threads_that_the_template_sets_are_kept() -> None:
    own = {"name": "OMP_NUM_THREADS", "value": "3"}
    result = merged(of_program(resources={"limits": {"cpu": "8"}}, env=[own]))
    env = result["spec"]["containers"][0]["env"]
    assert [item for item in env if item["name"] == "OMP_NUM_THREADS"] == [own]


@pytest.mark.parametrize(
    ("user", "path"),
    [
        ({"spec": {"containers": [{"image": "x"}]}}, f"{PATH}.spec.containers[0]"),
        (
            of_program(resources={"limits": {"cpu": "four"}}),
            f"{PATH}.spec.containers[0].resources.limits.cpu",
        ),
        (of_program(resources={"limits": ["4"]}), f"{PATH}.spec.containers[0].resources.limits"),
        (of_program(resources="4"), f"{PATH}.spec.containers[0].resources"),
        ({"spec": {"restartPolicy": "Always"}}, f"{PATH}.spec.restartPolicy"),
        (of_program(command=["sh"]), f"{PATH}.spec.containers[0].command"),
        ({"metadata": {"name": "mine"}}, f"{PATH}.metadata.name"),
        (
            of_program(**{"$deleteFromPrimitiveList/args": ["--lr"]}),
            f"{PATH}.spec.containers[0].$deleteFromPrimitiveList/args",
        ),
        (
            of_program(
                securityContext={"capabilities": {"$deleteFromPrimitiveList/drop": ["ALL"]}}
            ),
            f"{PATH}.spec.containers[0].securityContext.capabilities.$deleteFromPrimitiveList/drop",
        ),
    ],
)
def test_a_template_without_meaning_is_refused(user: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidTemplate) as caught:
        merged(user)
    assert caught.value.path == path
