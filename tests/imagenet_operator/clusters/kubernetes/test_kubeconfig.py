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


def test_the_order_of_a_kubeconfig_and_what_else_is_in_it_do_not_matter(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, {}, {"token": "secret\n"})
    config = yaml.safe_load(path.read_text())
    config["users"] = [None, {"user": {}}, *config["users"], {"name": "u", "user": None}]
    path.write_text(yaml.safe_dump(config))

    assert token_of(from_kubeconfig(path)) == "secret"


CA = "clusters[c].cluster.certificate-authority"
PEM = "write a PEM file in base64, or its path as"
VOUCHES = "it takes the PEM certificates of the authority that signs the API server's"
BOTH = {"client-certificate-data": encoded("one"), "client-key-data": encoded("two")}
IDENTITY = "use a user with a certificate or a token"
PLUGIN = {"apiVersion": "client.authentication.k8s.io/v1", "command": "aws"}
FIELDS: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    (
        {"certificate-authority": "gone/ca.crt"},
        {},
        f"{CA}: FOLDER/gone/ca.crt: no such file or directory; write the path of a PEM file that "
        "is there",
    ),
    (
        {"certificate-authority": "/"},
        {},
        f"{CA}: /: is a directory; write the path of a PEM file that is there",
    ),
    (
        {"certificate-authority": "a\0b"},
        {},
        f"{CA}: FOLDER/a\\x00b: embedded null byte; write the path of a PEM file that is there",
    ),
    ({"certificate-authority": ["a"]}, {}, f"{CA}: is not text; write it in quotes"),
    (
        {"certificate-authority-data": "AAA"},
        {},
        f"{CA}-data: is not base64 (Incorrect padding); {PEM} certificate-authority",
    ),
    (
        {"certificate-authority-data": "AAA…"},
        {},
        f"{CA}-data: is not base64 (Only base64 data is allowed); {PEM} certificate-authority",
    ),
    (
        {},
        {"client-certificate-data": "A!", "client-key-data": encoded("two")},
        f"{USER}.client-certificate-data: is not base64 (Only base64 data is allowed); {PEM} "
        "client-certificate",
    ),
    (
        {},
        {**BOTH, "client-key-data": "A"},
        f"{USER}.client-key-data: is not base64 (Invalid base64-encoded string: number of data "
        f"characters (1) cannot be 1 more than a multiple of 4); {PEM} client-key",
    ),
    (
        {},
        {**BOTH, "client-key-data": 7},
        f"{USER}.client-key-data: is not text; write it in quotes",
    ),
    (
        {"certificate-authority-data": encoded("no certificate")},
        {},
        f"{CA}-data: TLS cannot use it (no certificate or crl found); {VOUCHES}",
    ),
    (
        {"certificate-authority": "config"},
        {},
        f"{CA}: FOLDER/config: TLS cannot use it (no certificate or crl found); {VOUCHES}",
    ),
    (
        {},
        BOTH,
        f"{USER}.client-certificate and client-key: TLS cannot use it (damaged); {OWN_KEY}",
    ),
    (
        {},
        {"client-certificate-data": encoded("one")},
        f"{USER}.client-key: is missing; write it, or remove client-certificate",
    ),
    (
        {},
        {"client-key-data": encoded("two")},
        f"{USER}.client-certificate: is missing; write it, or remove client-key",
    ),
    (
        {},
        {"tokenFile": "none"},
        f"{USER}.tokenFile: FOLDER/none: no such file or directory; it takes a file that holds a "
        "token and nothing else",
    ),
    (
        {},
        {"tokenFile": "config"},
        f"{USER}.tokenFile: FOLDER/config: is not one line of text; write the token alone",
    ),
    ({}, {"token": 7}, f"{USER}.token: is not text; write it in quotes"),
    ({}, {"token": "a\nb"}, f"{USER}.token: is not one line of text; write the token alone"),
    ({"server": None}, {}, "clusters[c].cluster.server: is missing; write https://HOST:PORT"),
    (
        {"server": "10.0.0.1:6443"},
        {},
        "clusters[c].cluster.server: '10.0.0.1:6443' is not a URL; write https://HOST:PORT",
    ),
    (
        {"server": "https://[::1"},
        {},
        "clusters[c].cluster.server: 'https://[::1' is not a URL; write https://HOST:PORT",
    ),
    (
        {"proxy-url": "socks5://me:secret@localhost:1080"},
        {},
        "clusters[c].cluster.proxy-url: 'socks5://…@localhost:1080' is not a URL; write "
        "http://HOST:PORT",
    ),
    (
        {"tls-server-name": 7},
        {},
        "clusters[c].cluster.tls-server-name: is not text; write it in quotes",
    ),
    (
        {"insecure-skip-tls-verify": True},
        {},
        "clusters[c].cluster.insecure-skip-tls-verify: is not supported; write "
        "certificate-authority-data, and tls-server-name if the certificate names another host",
    ),
    ({}, {"username": "me"}, f"{USER}.username: is not supported; {IDENTITY}"),
    (
        {},
        {"auth-provider": {"name": "oidc"}},
        f"{USER}.auth-provider: is not supported; write exec, with a plugin that fetches the token",
    ),
    *(
        (
            {},
            {"token": "secret", **impersonation},
            f"{USER}.{next(iter(impersonation))}: is not supported; use a user that has these "
            "rights itself",
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
    ({}, {"exec": "aws"}, f"{USER}.exec: is not an object; write its command"),
    (
        {},
        {"exec": {**PLUGIN, "command": None}},
        f"{USER}.exec.command: is missing; write the plugin's name or path",
    ),
    (
        {},
        {"exec": {**PLUGIN, "apiVersion": "client.authentication.k8s.io/v1alpha1"}},
        f"{USER}.exec.apiVersion: write client.authentication.k8s.io/v1 or "
        "client.authentication.k8s.io/v1beta1",
    ),
    (
        {},
        {"exec": {**PLUGIN, "args": ["eks", 7]}},
        f"{USER}.exec.args: is not a list of texts; write them in quotes",
    ),
    (
        {},
        {"exec": {**PLUGIN, "env": [{"name": "A"}]}},
        f"{USER}.exec.env: is not a list of variables; write objects with name and value, in "
        "quotes",
    ),
    (
        {},
        {"exec": {**PLUGIN, "env": [{"name": "A", "value": 123}]}},
        f"{USER}.exec.env: is not a list of variables; write objects with name and value, in "
        "quotes",
    ),
    (
        {},
        {"exec": {**PLUGIN, "interactiveMode": "Always"}},
        f"{USER}.exec.interactiveMode: Always needs a terminal; write IfAvailable",
    ),
]


@pytest.mark.parametrize(("cluster", "user", "said"), FIELDS, ids=lambda item: str(item)[:40])
def test_a_field_that_cannot_be_used_is_said_with_its_remedy(
    tmp_path: Path, cluster: dict[str, Any], user: dict[str, Any], said: str
) -> None:
    path = kubeconfig(tmp_path, cluster, user)

    with pytest.raises(NoConnection) as caught:
        used(path)

    assert str(caught.value) == f"{path}: {said}".replace("FOLDER", str(tmp_path))


ANONYMOUS = "write a client certificate or a token, or {} for anonymous requests"
NO_CONTEXTS: list[object] = [None, [], {"here": {}}, "here", ["here"], [{"name": 7}]]
SHAPES: list[tuple[dict[str, Any], str]] = [
    ({"users": [{"name": "u", "user": None}]}, f"{USER}: is empty; {ANONYMOUS}"),
    ({"users": [{"name": "u", "user": "me"}]}, f"{USER}: is not an object; {ANONYMOUS}"),
    ({"users": [{"name": "u"}]}, f"{USER}: is empty; {ANONYMOUS}"),
    (
        {"users": [{"name": "v", "user": {}}]},
        "contexts[here].context.user: 'u' is not among the users; write one of v",
    ),
    (
        {"clusters": [{"name": "c", "cluster": None}]},
        "clusters[c].cluster: is empty; write its server",
    ),
    (
        {"contexts": [{"name": "here", "context": None}]},
        "contexts[here].context: is empty; write its cluster and user",
    ),
    (
        {"contexts": [{"name": "here", "context": {}}]},
        "contexts[here].context.cluster: is missing; write one of c",
    ),
    (
        {"contexts": [{"name": "here", "context": {"cluster": "c", "user": ["u"]}}]},
        "contexts[here].context.user: is not text; write it in quotes",
    ),
    (
        {"contexts": [{"name": "here", "context": {"cluster": "c", "namespace": 7}}]},
        "contexts[here].context.namespace: is not text; write it in quotes",
    ),
    *(
        (
            {"contexts": contexts},
            f"{NO_KUBECONFIG}contexts: is not a list of contexts; write one of objects with "
            "name and context",
        )
        for contexts in NO_CONTEXTS
    ),
    (
        {"clusters": {"c": {}}},
        f"{NO_KUBECONFIG}clusters: is not a list of clusters; write one of objects with "
        "name and cluster",
    ),
    ({"current-context": None}, "current-context: is missing; write one of here"),
    ({"current-context": ""}, "current-context: is missing; write one of here"),
    ({"current-context": ["here"]}, "current-context: is not text; write it in quotes"),
    (
        {"current-context": "a\nb"},
        "current-context: 'a\\nb' is not among the contexts; write one of here",
    ),
]


@pytest.mark.parametrize(("changes", "said"), SHAPES)
def test_what_has_not_the_shape_of_a_kubeconfig_is_said(
    tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    path = kubeconfig(tmp_path, {}, {})
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | changes))

    with pytest.raises(NoConnection) as caught:
        used(path)

    assert str(caught.value) == f"{path}: {said}"


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
