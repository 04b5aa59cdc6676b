"""What the operator may do: what it does, and nothing else."""

from __future__ import annotations

import pytest

from imagenet_operator.clusters.kubernetes import leader_election, objects
from support import chart
from support.chart import Manifest, granted

KINDS = {"Role", "ClusterRole"}
LEASES = f"{chart.RELEASE}-leases"
KUEUE = {"kueue": {"enabled": True}}


def roles(values: Manifest) -> list[Manifest]:
    """Return the roles that a set of values installs."""
    return [item for item in chart.render(values) if item["kind"] in KINDS]


def of_operator(values: Manifest) -> list[Manifest]:
    """Return the operator's own roles."""
    names = (chart.RELEASE, LEASES)
    return [role for role in roles(values) if role["metadata"]["name"] in names]


@pytest.mark.parametrize("variant", chart.VARIANTS)
def test_no_rule_has_a_wildcard(variant: str) -> None:
    for role in roles(chart.VARIANTS[variant]):
        for rule in role["rules"]:
            assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]


@pytest.mark.parametrize(
    "values", [KUEUE, KUEUE | {"watchNamespaces": ["vision"]}], ids=["all", "listed"]
)
def test_the_verbs_that_are_used_are_the_verbs_that_are_granted(values: Manifest) -> None:
    found = granted(of_operator(values))
    # Used by the API server in the operator's name, for its owner references.
    assert found.pop(("imagenet.dev", "imagenetjobs/finalizers")) == {"update"}
    assert found == {resource: set(verbs) for resource, verbs in objects.VERBS.items()}


def test_every_kind_that_the_operator_knows_has_its_verbs() -> None:
    named = {(kind.group, kind.plural) for kind in objects.BY_NAME.values()}
    assert named == {(group, name) for group, name in objects.VERBS if "/" not in name}


@pytest.mark.parametrize("values", [{}, {"watchNamespaces": ["vision"]}], ids=["all", "listed"])
def test_nothing_sensitive_can_be_read_or_written(values: Manifest) -> None:
    reachable = granted(of_operator(values))
    assert {resource for group, resource in reachable if group == ""} == {
        "events",
        "nodes",
        "persistentvolumeclaims",
        "pods",
        "pods/log",
        "services",
    }
    assert granted(of_operator(values))["", "pods/log"] == {"get"}
    assert {group for group, _ in reachable} == {
        "",
        "batch",
        "coordination.k8s.io",
        "imagenet.dev",
        "networking.k8s.io",
        "policy",
    }
    # A job's specification is its author's: only its status is written.
    assert granted(of_operator(values))["imagenet.dev", "imagenetjobs"] == {
        "get",
        "list",
        "watch",
        "delete",
    }


@pytest.mark.parametrize(
    ("enabled", "served", "may_read"),
    [
        (True, (), True),
        ("auto", (), False),
        ("auto", ("kueue.x-k8s.io/v1beta2",), True),
        (False, ("kueue.x-k8s.io/v1beta2",), False),
    ],
)
def test_workloads_are_read_where_kueue_is(
    enabled: bool | str, served: tuple[str, ...], may_read: bool
) -> None:
    rendered = chart.render({"kueue": {"enabled": enabled}}, served=(*chart.SERVED, *served))
    found = granted([item for item in rendered if item["kind"] in KINDS])
    assert found.get(("kueue.x-k8s.io", "workloads")) == ({"get", "list"} if may_read else None)


def test_listed_namespaces_get_roles_and_the_cluster_shows_only_its_nodes() -> None:
    rendered = chart.render({"watchNamespaces": ["vision", "research"]})
    own = [item for item in rendered if item["metadata"]["name"] == chart.RELEASE]
    in_namespaces = [item for item in own if item["kind"] == "Role"]
    assert {role["metadata"]["namespace"] for role in in_namespaces} == {"vision", "research"}
    in_cluster = [item for item in own if item["kind"] == "ClusterRole"]
    assert granted(in_cluster) == {("", "nodes"): {"list", "watch"}}
    everywhere = granted(of_operator({}))
    roles_of_leases = [
        item for item in rendered if item["kind"] == "Role" and item["metadata"]["name"] == LEASES
    ]
    assert granted([*in_namespaces, *in_cluster, *roles_of_leases]) == everywhere


@pytest.mark.parametrize(
    ("watched", "names"),
    [
        ([], ["imagenet-operator"]),
        (["vision", "speech"], ["imagenet-operator.vision", "imagenet-operator.speech"]),
    ],
)
def test_only_its_own_leases_can_be_changed(watched: list[str], names: list[str]) -> None:
    (role,) = [
        role
        for role in of_operator({"watchNamespaces": watched, "leaseNamespace": "ops"})
        if role["metadata"]["name"] == LEASES
    ]
    assert role["metadata"]["namespace"] == "ops"
    assert set(names) == set(leader_election.Scope.of(watched).names)
    by_verbs = {tuple(rule["verbs"]): rule.get("resourceNames") for rule in role["rules"]}
    assert by_verbs == {("list", "create"): None, ("update",): names}


@pytest.mark.parametrize("values", [{}, {"watchNamespaces": ["vision"]}], ids=["all", "listed"])
def test_each_role_is_bound_to_the_operators_account(values: Manifest) -> None:
    # The test of the chart has rights of its own.
    rendered = chart.render({**values, "tests": {"enabled": False}})
    account = chart.one(rendered, "ServiceAccount")["metadata"]
    bindings = [item for item in rendered if item["kind"].endswith("RoleBinding")]
    bound = set()
    for binding in bindings:
        (subject,) = binding["subjects"]
        assert (subject["name"], subject["namespace"]) == (account["name"], account["namespace"])
        reference = binding["roleRef"]
        bound.add((reference["kind"], binding["metadata"].get("namespace"), reference["name"]))
    assert bound == {
        (role["kind"], role["metadata"].get("namespace"), role["metadata"]["name"])
        for role in of_operator(values)
    }


def test_users_see_and_edit_jobs_but_not_their_status() -> None:
    by_name = {role["metadata"]["name"]: role for role in roles({})}
    seen = granted([by_name[f"{chart.RELEASE}-view"]])
    edited = granted([by_name[f"{chart.RELEASE}-edit"]])
    assert {verb for verbs in seen.values() for verb in verbs} == {"get", "list", "watch"}
    assert set(edited) == {("imagenet.dev", "imagenetjobs")}
