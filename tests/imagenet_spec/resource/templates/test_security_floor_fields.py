"""Each value of each field of the security floor is taken or refused."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from imagenet_spec.resource.templates.owned_fields import owned_field_conflicts
from imagenet_spec.resource.templates.strategic_merge import POD_TEMPLATE, strategic_merge
from support import job_table
from support.pod_security import PROGRAM, below_the_table, containers, stored, violations
from support.worker_templates import APPARMOR, WORKERS, Manifest, document, sentences

HANDLERS = (
    ("livenessProbe",),
    ("readinessProbe",),
    ("startupProbe",),
    ("lifecycle", "postStart"),
    ("lifecycle", "preStop"),
)
PROFILES: tuple[list[Any], list[Any]] = (
    [{"type": "RuntimeDefault"}, {"type": "Localhost", "localhostProfile": "profiles/a"}],
    [
        None,
        {},
        {"type": "Unconfined"},
        {"type": None},
        {"type": "RuntimeDefault", "$patch": "delete"},
        {"type": "RuntimeDefault", "$patch": "replace"},
        {"type": "RuntimeDefault", "$retainKeys": ["type"]},
    ],
)
FALSE: tuple[list[Any], list[Any]] = ([False], [True, None])
TRUE: tuple[list[Any], list[Any]] = ([True], [False, None])
NOT_ROOT: tuple[list[Any], list[Any]] = ([2000], [0, 0.0, None])
SECURITY: dict[tuple[str, ...], tuple[list[Any], list[Any]]] = {
    (): ([{}], [None, {"$patch": "delete"}, {"$patch": "replace"}, {"$retainKeys": []}]),
    ("runAsNonRoot",): TRUE,
    ("runAsUser",): NOT_ROOT,
    ("runAsGroup",): NOT_ROOT,
    ("seccompProfile",): PROFILES,
    ("appArmorProfile",): PROFILES,
    ("seLinuxOptions",): (
        [None, {}, {"type": "container_t", "level": "s0:c1,c2"}, {"type": "", "user": None}],
        [{"type": "spc_t"}, {"user": "root"}, {"role": "a"}, {"type": "spc_t", "$patch": "delete"}],
    ),
    ("windowsOptions",): ([], [None, {}, {"hostProcess": True}, {"runAsUserName": "a"}]),
}
"""Field of a securityContext, a pod's or a container's → values that are taken, and others."""
OF_POD: dict[tuple[str, ...], tuple[list[Any], list[Any]]] = {
    **{("securityContext", *field): values for field, values in SECURITY.items()},
    ("securityContext", "fsGroup"): ([2000, None], [0]),
    ("securityContext", "fsGroupChangePolicy"): (["Always", None], []),
    ("securityContext", "supplementalGroups"): ([[], None, [2000]], [[0], [2000, 0]]),
    ("securityContext", "sysctls"): (
        [None, [], [{"name": "net.ipv4.tcp_rmem", "value": "4096 131072 6291456"}]],
        [
            [{"name": "kernel.msgmax", "value": "1"}],
            [{"name": "net.core.somaxconn", "value": "1", "$patch": "delete"}],
            [{"name": "net.ipv4.tcp_syncookies", "value": "1", "$patch": "delete"}],
        ],
    ),
    ("automountServiceAccountToken",): FALSE,
    ("shareProcessNamespace",): FALSE,
    ("hostNetwork",): FALSE,
    ("hostPID",): FALSE,
    ("hostIPC",): FALSE,
    ("hostUsers",): ([True, False, None], []),
    ("os",): ([{"name": "linux"}], [None, {}, {"name": "windows"}]),
    ("ephemeralContainers",): ([None, []], [[{"name": "debug"}]]),
    ("serviceAccountName",): (["robot", None], []),
}
OF_CONTAINER: dict[tuple[str, ...], tuple[list[Any], list[Any]]] = {
    **{("securityContext", *field): values for field, values in SECURITY.items()},
    ("securityContext", "privileged"): FALSE,
    ("securityContext", "allowPrivilegeEscalation"): FALSE,
    ("securityContext", "readOnlyRootFilesystem"): TRUE,
    ("securityContext", "procMount"): (["Default"], ["Unmasked", None]),
    ("securityContext", "capabilities"): (
        [
            {},
            {"drop": ["ALL"]},
            {"add": None},
            {"drop": ["NET_RAW", "ALL"]},
            {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"], "$setElementOrder/drop": ["ALL"]},
        ],
        [
            None,
            {"drop": None},
            {"drop": []},
            {"drop": ["NET_RAW"]},
            {"add": ["ALL"]},
            {"add": ["NET_BIND_SERVICE", "CHOWN"]},
            {"$patch": "delete"},
            {"$retainKeys": ["add"]},
            {"$deleteFromPrimitiveList/drop": ["ALL"]},
        ],
    ),
    ("ports",): (
        [None, [], [{"containerPort": 80}]],
        [[{"containerPort": 80, "hostPort": 80}], [{"containerPort": 9090, "hostPort": 9090}]],
    ),
    **{
        handler: (
            [None, {"httpGet": {"port": 80, "host": ""}}, {"tcpSocket": {"port": 80}}],
            [{"httpGet": {"port": 80, "host": "a"}}, {"tcpSocket": {"port": 80, "host": "a"}}],
        )
        for handler in HANDLERS
    },
}
OF_VOLUME: dict[tuple[str, ...], tuple[list[Any], list[Any]]] = {
    ("emptyDir",): ([{}, {"medium": "Memory"}], []),
    ("configMap",): ([{"name": "a"}], []),
    ("image",): ([{"reference": "a:1"}], []),
    ("hostPath",): ([], [{"path": "/"}]),
    ("nfs",): ([], [{"server": "a", "path": "/"}]),
    ("gitRepo",): ([], [{"repository": "a"}]),
    ("projected",): (
        [{"sources": [{"secret": {"name": "a"}}]}],
        [
            {"sources": [{"secret": {"name": "a"}}, {"serviceAccountToken": {"path": "a"}}]},
            {"sources": [{"podCertificate": {"signerName": "a/b", "keyType": "ED25519"}}]},
        ],
    ),
}
OF_ANNOTATIONS: dict[tuple[str, ...], tuple[list[Any], list[Any]]] = {
    (APPARMOR,): (["runtime/default", "localhost/a", "", None], ["unconfined", "Localhost/a"])
}
PLACES = {
    "pod": OF_POD,
    "program": OF_CONTAINER,
    "program again": OF_CONTAINER,
    "sidecar": OF_CONTAINER,
    "sidecar again": OF_CONTAINER,
    "init container": OF_CONTAINER,
    "volume": OF_VOLUME,
    "annotations": OF_ANNOTATIONS,
}
"""Where in a template → which fields; an item of a list that comes again is merged as well."""
FIELDS = [(place, field) for place, fields in PLACES.items() for field in fields]
IDS = [".".join((place, *field)) for place, field in FIELDS]
Choices = dict[tuple[str, tuple[str, ...]], Any]


def template_of(choices: Choices) -> Manifest:
    """Return the template that has each chosen value at its place."""
    parts: dict[str, Manifest] = {place: {} for place in PLACES}
    for (place, field), value in sorted(choices.items(), key=lambda item: item[0]):
        *parents, last = field
        node = parts[place]
        for name in parents:
            # A null at a path covers all fields below it.
            node = node.setdefault(name, {})
            if node is None:
                break
        else:
            node[last] = copy.deepcopy(value)
    names = {"program": PROGRAM, "sidecar": "proxy", "init container": "fetch"}
    item = {
        place: {"name": names[place.removesuffix(" again")], "image": "any:1", **part}
        for place, part in parts.items()
        if part and place.removesuffix(" again") in names
    }
    inits = [item.pop("init container")] if "init container" in item else []
    return {
        "metadata": {"annotations": parts["annotations"]},
        "spec": {
            **parts["pod"],
            "containers": list(item.values()),
            "initContainers": [{"restartPolicy": "Always", **each} for each in inits],
            "volumes": [{"name": "cache", **parts["volume"]}] if parts["volume"] else [],
        },
    }


def merged(template: Manifest) -> Manifest:
    """Return the worker's pod as the operator makes it."""
    (member,) = job_table.members(job_table.read(document(template)))
    return member


def judged(built: Manifest) -> list[str]:
    """Return what a pod lowers of the floor, whatever its other containers leave out.

    docs/security.md leaves it to the template whether these say as much as the standard asks.
    """
    pod: Manifest = stored(built)
    for container in containers(pod["spec"]):
        if container["name"] != PROGRAM:
            security = container.setdefault("securityContext", {})
            security.setdefault("allowPrivilegeEscalation", False)
            security.setdefault("capabilities", {}).setdefault("drop", ["ALL"])
    return violations(pod) + below_the_table(pod)


def lowered(template: Manifest) -> list[str]:
    return judged(merged(template))


@pytest.mark.parametrize(("place", "field"), FIELDS, ids=IDS)
def test_each_value_of_a_field_is_taken_or_refused(place: str, field: tuple[str, ...]) -> None:
    taken, refused = PLACES[place][field]
    for value in taken:
        template = template_of({(place, field): value})
        assert (sentences(template), lowered(template)) == ([], [])
    for value in refused:
        assert sentences(template_of({(place, field): value})), value


@st.composite
def templates(draw: st.DrawFn) -> Manifest:
    """A template of several fields, mostly taken, and at times one that alone is refused."""
    of_taken = [(place, field) for place, field in FIELDS if PLACES[place][field][0]]
    of_refused = [(place, field) for place, field in FIELDS if PLACES[place][field][1]]
    choices: Choices = {}
    for place, field in draw(st.lists(st.sampled_from(of_taken), max_size=8, unique=True)):
        choices[place, field] = draw(st.sampled_from(PLACES[place][field][0]))
    for place, field in draw(st.lists(st.sampled_from(of_refused), max_size=1)):
        choices[place, field] = draw(st.sampled_from(PLACES[place][field][1]))
    return template_of(choices)


@settings(deadline=None, max_examples=150)
@given(templates())
def test_no_template_that_is_taken_lowers_the_floor(template: Manifest) -> None:
    is_taken = not sentences(template)
    event(f"taken: {is_taken}")
    assert not is_taken or lowered(template) == []


NAMES = {
    *(name for _, field in FIELDS for name in field),
    *("name", "type", "host", "httpGet", "tcpSocket", "drop", "add", "sources"),
    *(
        "serviceAccountToken",
        "podCertificate",
        "$patch",
        "$retainKeys",
        "$deleteFromPrimitiveList/drop",
    ),
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 2) | st.sampled_from(["", "RuntimeDefault", "a"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(sorted(NAMES)), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(deadline=None)
@given(JSON, JSON)
def test_no_template_is_too_odd_to_be_judged(odd: object, odder: object) -> None:
    spec = {"securityContext": odd, "os": odder, "volumes": [odd], "ephemeralContainers": odder}
    container = {"securityContext": odder, "livenessProbe": odd, "lifecycle": odder, "ports": odd}
    for kind in ("containers", "initContainers"):
        template = {"metadata": {"annotations": odd}, "spec": {**spec, kind: [container]}}
        for problem in owned_field_conflicts(template, WORKERS):
            assert problem.path.startswith(WORKERS) and problem.hint


def test_the_floor_holds_without_any_template() -> None:
    assert lowered({}) == []


SPARED = {"windowsOptions", "os", "ephemeralContainers"}
"""Refused all the same: no pod of these comes to be, or it is none of Linux."""


@pytest.mark.parametrize(("place", "field"), FIELDS, ids=IDS)
def test_what_is_refused_would_lower_the_floor(place: str, field: tuple[str, ...]) -> None:
    """Guards the judge, which would let everything pass otherwise; and the user's own fields."""
    built = merged({})
    for value in PLACES[place][field][1]:
        template = template_of({(place, field): value})
        unchecked = strategic_merge(built, template, POD_TEMPLATE, WORKERS)
        # These may meet a field that the operator leaves out, and change nothing then.
        may_be_idle = value == {} or "None" in str(value) or "$" in str(value)
        assert may_be_idle or SPARED & {*field} or judged(unchecked), value
