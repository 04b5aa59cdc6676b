"""Every error in a kubeconfig is one line with its file, its field and a remedy."""

import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from imagenet_operator.clusters.kubernetes.login import (
    NoConnection,
    from_kubeconfig,
)
from support.kubeconfigs import NO_KUBECONFIG, OWN_KEY, USER, encoded, kubeconfig, token_of, used
from support.sentences import says


def test_the_order_of_a_kubeconfig_and_what_else_is_in_it_do_not_matter(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, {}, {"token": "secret\n"})
    config = yaml.safe_load(path.read_text())
    config["users"] = [None, {"user": {}}, *config["users"], {"name": "u", "user": None}]
    path.write_text(yaml.safe_dump(config))

    assert token_of(from_kubeconfig(path)) == "secret"


CLUSTER = "clusters[c].cluster"
CONTEXT = "contexts[here].context"
CA = f"{CLUSTER}.certificate-authority"
PEM = "write a PEM file in base64"
VOUCHES = "PEM certificates of the authority that signs the API server's"
QUOTES = "write it in quotes"
BOTH = {"client-certificate-data": encoded("one"), "client-key-data": encoded("two")}
PLUGINS = "client.authentication.k8s.io"
PLUGIN = {"apiVersion": f"{PLUGINS}/v1", "command": "aws"}
# Changes of the cluster and of the user, and the facts: the field first, the remedy last.
FIELDS: list[tuple[dict[str, Any], dict[str, Any], tuple[str, ...]]] = [
    (
        {"certificate-authority": "gone/ca.crt"},
        {},
        (f"{CA}: FOLDER/gone/ca.crt: ", "no such file", "write the path of a PEM file"),
    ),
    (
        {"certificate-authority": "/"},
        {},
        (f"{CA}: /: ", "is a directory", "write the path of a PEM file"),
    ),
    (
        {"certificate-authority": "a\0b"},
        {},
        (f"{CA}: FOLDER/a\\x00b: ", "null byte", "write the path of a PEM file"),
    ),
    ({"certificate-authority": ["a"]}, {}, (f"{CA}: ", "not text", QUOTES)),
    (
        {"certificate-authority-data": "AAA"},
        {},
        (f"{CA}-data: ", "not base64 (Incorrect padding)", PEM, "path as certificate-authority"),
    ),
    (
        {"certificate-authority-data": "AAA…"},
        {},
        (f"{CA}-data: ", "not base64 (Only base64", PEM, "path as certificate-authority"),
    ),
    (
        {},
        {"client-certificate-data": "A!", "client-key-data": encoded("two")},
        (f"{USER}.client-certificate-data: ", "not base64", PEM, "path as client-certificate"),
    ),
    (
        {},
        {**BOTH, "client-key-data": "A"},
        (f"{USER}.client-key-data: ", "not base64 (Invalid", PEM, "path as client-key"),
    ),
    ({}, {**BOTH, "client-key-data": 7}, (f"{USER}.client-key-data: ", "not text", QUOTES)),
    (
        {"certificate-authority-data": encoded("no certificate")},
        {},
        (f"{CA}-data: ", "TLS cannot use it (no certificate", VOUCHES),
    ),
    (
        {"certificate-authority": "config"},
        {},
        (f"{CA}: FOLDER/config: ", "TLS cannot use it (no certificate", VOUCHES),
    ),
    (
        {},
        BOTH,
        (f"{USER}.client-certificate and client-key: ", "TLS cannot use it (damaged)", OWN_KEY),
    ),
    (
        {},
        {"client-certificate-data": encoded("one")},
        (f"{USER}.client-key: ", "missing", "write it, or remove client-certificate"),
    ),
    (
        {},
        {"client-key-data": encoded("two")},
        (f"{USER}.client-certificate: ", "missing", "write it, or remove client-key"),
    ),
    (
        {},
        {"tokenFile": "none"},
        (f"{USER}.tokenFile: FOLDER/none: ", "no such file", "a token and nothing else"),
    ),
    (
        {},
        {"tokenFile": "config"},
        (f"{USER}.tokenFile: FOLDER/config: ", "not one line", "write the token alone"),
    ),
    ({}, {"token": 7}, (f"{USER}.token: ", "not text", QUOTES)),
    ({}, {"token": "a\nb"}, (f"{USER}.token: ", "not one line", "write the token alone")),
    ({"server": None}, {}, (f"{CLUSTER}.server: ", "missing", "write https://HOST:PORT")),
    (
        {"server": "10.0.0.1:6443"},
        {},
        (f"{CLUSTER}.server: '10.0.0.1:6443' ", "not a URL", "write https://HOST:PORT"),
    ),
    (
        {"server": "https://[::1"},
        {},
        (f"{CLUSTER}.server: 'https://[::1' ", "not a URL", "write https://HOST:PORT"),
    ),
    (
        {"proxy-url": "socks5://me:secret@localhost:1080"},
        {},
        (f"{CLUSTER}.proxy-url: 'socks5://…@localhost:1080' ", "not a URL", "http://HOST:PORT"),
    ),
    ({"tls-server-name": 7}, {}, (f"{CLUSTER}.tls-server-name: ", "not text", QUOTES)),
    (
        {"insecure-skip-tls-verify": True},
        {},
        (
            f"{CLUSTER}.insecure-skip-tls-verify: ",
            "not supported",
            "certificate-authority-data",
            "tls-server-name if",
            "another host",
        ),
    ),
    ({}, {"username": "me"}, (f"{USER}.username: ", "not supported", "a certificate or a token")),
    (
        {},
        {"auth-provider": {"name": "oidc"}},
        (f"{USER}.auth-provider: ", "not supported", "write exec", "plugin"),
    ),
    *(
        (
            {},
            {"token": "secret", **impersonation},
            (f"{USER}.{next(iter(impersonation))}: ", "not supported", "has these rights itself"),
        )
        for impersonation in (
            {"as": "jane", "as-groups": ["g"]},
            {"as": 7},
            {"as": 0},
            {"as": False},
            {"as-uid": 0},
            {"as-uid": "7"},
            {"as-groups": ["g"]},
            {"as-user-extra": {"k": ["v"]}},
        )
    ),
    ({}, {"exec": "aws"}, (f"{USER}.exec: ", "not an object", "write its command")),
    (
        {},
        {"exec": {**PLUGIN, "command": None}},
        (f"{USER}.exec.command: ", "missing", "write the plugin's name or path"),
    ),
    (
        {},
        {"exec": {**PLUGIN, "apiVersion": f"{PLUGINS}/v1alpha1"}},
        (f"{USER}.exec.apiVersion: ", f"write {PLUGINS}/v1 or {PLUGINS}/v1beta1"),
    ),
    (
        {},
        {"exec": {**PLUGIN, "args": ["eks", 7]}},
        (f"{USER}.exec.args: ", "not a list of texts", "write them in quotes"),
    ),
    *(
        (
            {},
            {"exec": {**PLUGIN, "env": [variable]}},
            (f"{USER}.exec.env: ", "not a list of variables", "name and value, in quotes"),
        )
        for variable in ({"name": "A"}, {"name": "A", "value": 123})
    ),
    (
        {},
        {"exec": {**PLUGIN, "interactiveMode": "Always"}},
        (f"{USER}.exec.interactiveMode: ", "Always needs a terminal", "write IfAvailable"),
    ),
]


@pytest.mark.parametrize(("cluster", "user", "facts"), FIELDS, ids=lambda item: str(item)[:40])
def test_a_field_that_cannot_be_used_is_said_with_its_remedy(
    tmp_path: Path, cluster: dict[str, Any], user: dict[str, Any], facts: tuple[str, ...]
) -> None:
    path = kubeconfig(tmp_path, cluster, user)
    field, *others = (fact.replace("FOLDER", str(tmp_path)) for fact in facts)

    with pytest.raises(NoConnection, match=says(f"{path}: {field}", *others)) as caught:
        used(path)

    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value), "a token or a password of the user"


ANONYMOUS = "write a client certificate or a token, or {} for anonymous"
NO_CONTEXTS: list[object] = [None, [], {"here": {}}, "here", ["here"], [{"name": 7}]]
# What is not as in a kubeconfig, and the facts: the field first, the remedy last.
SHAPES: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({"users": [{"name": "u", "user": None}]}, (f"{USER}: ", "empty", ANONYMOUS)),
    ({"users": [{"name": "u", "user": "me"}]}, (f"{USER}: ", "not an object", ANONYMOUS)),
    ({"users": [{"name": "u"}]}, (f"{USER}: ", "empty", ANONYMOUS)),
    (
        {"users": [{"name": "v", "user": {}}]},
        (f"{CONTEXT}.user: 'u' ", "not among the users", "write one of v"),
    ),
    ({"clusters": [{"name": "c", "cluster": None}]}, (f"{CLUSTER}: ", "empty", "its server")),
    (
        {"contexts": [{"name": "here", "context": None}]},
        (f"{CONTEXT}: ", "empty", "write its cluster and user"),
    ),
    (
        {"contexts": [{"name": "here", "context": {}}]},
        (f"{CONTEXT}.cluster: ", "missing", "write one of c"),
    ),
    (
        {"contexts": [{"name": "here", "context": {"cluster": "c", "user": ["u"]}}]},
        (f"{CONTEXT}.user: ", "not text", QUOTES),
    ),
    (
        {"contexts": [{"name": "here", "context": {"cluster": "c", "namespace": 7}}]},
        (f"{CONTEXT}.namespace: ", "not text", QUOTES),
    ),
    *(
        (
            {"contexts": contexts},
            (f"{NO_KUBECONFIG}contexts: ", "not a list of contexts", "name and context"),
        )
        for contexts in NO_CONTEXTS
    ),
    (
        {"clusters": {"c": {}}},
        (f"{NO_KUBECONFIG}clusters: ", "not a list of clusters", "name and cluster"),
    ),
    ({"current-context": None}, ("current-context: ", "missing", "write one of here")),
    ({"current-context": ""}, ("current-context: ", "missing", "write one of here")),
    ({"current-context": ["here"]}, ("current-context: ", "not text", QUOTES)),
    (
        {"current-context": "a\nb"},
        ("current-context: 'a\\nb' ", "not among the contexts", "write one of here"),
    ),
]


@pytest.mark.parametrize(("changes", "facts"), SHAPES)
def test_what_has_not_the_shape_of_a_kubeconfig_is_said(
    tmp_path: Path, changes: dict[str, Any], facts: tuple[str, ...]
) -> None:
    path = kubeconfig(tmp_path, {}, {})
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | changes))
    field, *others = facts

    with pytest.raises(NoConnection, match=says(f"{path}: {field}", *others)):
        used(path)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6) | st.just("u"),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=4,
)
PLACES = [
    (),
    ("current-context",),
    *(
        (part, *more)
        for part in ("contexts", "clusters", "users")
        for more in ((), (0,), (0, "name"), (0, part[:-1]))
    ),
    *(("contexts", 0, "context", name) for name in ("cluster", "user", "namespace")),
    *(("clusters", 0, "cluster", name) for name in ("server", "certificate-authority")),
    *(("users", 0, "user", name) for name in ("token", "tokenFile", "client-key", "exec")),
]


@settings(deadline=None)
@given(st.sampled_from(PLACES), ANYTHING)
def test_whatever_stands_in_it_a_kubeconfig_is_used_or_refused(
    place: tuple[str | int, ...], value: object
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = kubeconfig(Path(folder), {}, {})
        config = {"": yaml.safe_load(path.read_text())}
        node: Any = config
        last: str | int = ""
        for step in place:
            node, last = node[last], step
        node[last] = value
        path.write_text(yaml.safe_dump(config[""]))

        try:
            used(path)
        except NoConnection as error:
            assert str(error).startswith(f"{path}: ")
            assert len(str(error).splitlines()) == 1
