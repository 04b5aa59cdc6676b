"""Every error in a kubeconfig is one line with its file, its field and a remedy."""

import asyncio
import base64
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given, settings
from hypothesis import strategies as st

from imagenet_operator.clusters.kubernetes.connection import (
    NoConnection,
    find,
    from_kubeconfig,
    of_context,
)
from support.certificates import OPEN, Authority, key_in_pem
from support.kubeconfigs import encoded, kubeconfig, token_of


def test_the_order_of_a_kubeconfig_and_what_else_is_in_it_do_not_matter(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, {}, {"token": "secret\n"})
    config = yaml.safe_load(path.read_text())
    config["users"] = [None, {"user": {}}, *config["users"], {"name": "u", "user": None}]
    path.write_text(yaml.safe_dump(config))

    assert token_of(from_kubeconfig(path)) == "secret"


def used(path: Path) -> None:
    """Do with a kubeconfig what a client does before its first request."""
    asyncio.run(from_kubeconfig(path).credentials())


CA = "clusters[c].cluster.certificate-authority"
USER = "users[u].user"
PEM = "write a PEM file in base64, or its path as"
VOUCHES = "it takes the PEM certificates of the authority that signs the API server's"
OWN_KEY = "it takes a PEM certificate and the key of this certificate, without a passphrase"
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
        f"{CA}-data: is not base64 (string argument should contain only ASCII characters); {PEM} "
        "certificate-authority",
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
        f"{USER}.tokenFile: FOLDER/config: is not one line of text; it takes a file that holds a "
        "token and nothing else",
    ),
    ({}, {"token": 7}, f"{USER}.token: is not text; write it in quotes"),
    ({}, {"token": "a\nb"}, f"{USER}.token: is not one line of text; write the token alone"),
    ({"server": None}, {}, "clusters[c].cluster.server: is missing; write https://HOST:PORT"),
    (
        {"server": "10.0.0.1:6443"},
        {},
        "clusters[c].cluster.server: '10.0.0.1:6443' is no URL; write https://HOST:PORT",
    ),
    (
        {"server": "https://[::1"},
        {},
        "clusters[c].cluster.server: 'https://[::1' is no URL; write https://HOST:PORT",
    ),
    (
        {"proxy-url": "socks5://me:secret@localhost:1080"},
        {},
        "clusters[c].cluster.proxy-url: 'socks5://…@localhost:1080' is no URL; write "
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
    ({}, {"as-groups": ["g"]}, f"{USER}.as: is missing; write the user to act as"),
    (
        {},
        {"as": "a", "as-groups": "g"},
        f"{USER}.as-groups: is not a list of texts; write them in quotes",
    ),
    (
        {},
        {"as": "a", "as-user-extra": ["k"]},
        f"{USER}.as-user-extra: is no object; write KEY: [VALUE]",
    ),
    ({}, {"as": "a\nb"}, f"{USER}.as: 'a\\nb' is not one line of text"),
    ({}, {"exec": "aws"}, f"{USER}.exec: is no object; write its command"),
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
NO_KUBECONFIG = "is no kubeconfig with a current context: "
NO_CONTEXTS: list[object] = [None, [], {"here": {}}, "here", ["here"], [{"name": 7}]]
SHAPES: list[tuple[dict[str, Any], str]] = [
    ({"users": [{"name": "u", "user": None}]}, f"{USER}: is empty; {ANONYMOUS}"),
    ({"users": [{"name": "u", "user": "me"}]}, f"{USER}: is no object; {ANONYMOUS}"),
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
            f"{NO_KUBECONFIG}contexts: is no list of contexts; write one of objects with name and "
            "context",
        )
        for contexts in NO_CONTEXTS
    ),
    (
        {"clusters": {"c": {}}},
        f"{NO_KUBECONFIG}clusters: is no list of clusters; write one of objects with name and "
        "cluster",
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


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"a: [", "line 1, column 5: expected the node content, but found '<stream end>'"),
        (b"\tcontexts: []", "line 1, column 1: a tab cannot indent; write spaces"),
        (b"caf\xe9: 1", "is not UTF-8 text"),
        (
            b"a: \x01",
            "is not YAML: unacceptable character #x0001: special characters are not allowed in",
        ),
        (b"a: 1\na: 2", "line 2, column 1: the key 'a' is given twice; keep one"),
        (b"a: !!timestamp 2024-13-45", "line 1, column 4: is no !!timestamp; leave the tag out"),
        (b"a: !!binary aGk=", "a: is binary data (!!binary); write it as text in quotes"),
        (b"a: &x {b: *x}", "a.b: is the list or object that it stands in"),
        (b"[" * 1500, "is too deeply nested"),
        (b"", "does not hold one object"),
        (b"- a", "does not hold one object"),
        (b"a: 1\n---\nb: 2", "does not hold one object"),
    ],
)
def test_a_file_that_cannot_be_read_is_said_to_be_no_kubeconfig(
    tmp_path: Path, text: bytes, why: str
) -> None:
    path = tmp_path / "config"
    path.write_bytes(text)

    with pytest.raises(NoConnection) as caught:
        used(path)

    assert str(caught.value).startswith(f"{path}: {NO_KUBECONFIG}{why}")
    assert str(caught.value).endswith("; set KUBECONFIG to the path of one")
    assert len(str(caught.value).splitlines()) == 1


def test_a_folder_is_no_kubeconfig(tmp_path: Path) -> None:
    with pytest.raises(NoConnection, match="is a directory; set KUBECONFIG"):
        find({"KUBECONFIG": str(tmp_path)})


def test_without_a_home_there_is_no_kubeconfig(monkeypatch: pytest.MonkeyPatch) -> None:
    def home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", home)

    with pytest.raises(NoConnection, match="set KUBECONFIG"):
        of_context("here", {})


def test_a_key_without_a_file_in_memory_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def memfd_create(name: str) -> int:
        raise PermissionError(1, "Operation not permitted", name)

    monkeypatch.setattr(os, "memfd_create", memfd_create)
    path = kubeconfig(tmp_path, {"certificate-authority-data": encoded("a")}, {})

    with pytest.raises(NoConnection, match=f"{tmp_path}/config: clusters.*no file in memory: oper"):
        used(path)


def test_data_may_be_wrapped(tmp_path: Path) -> None:
    wrapped = base64.encodebytes(Authority().pem).decode()
    path = kubeconfig(tmp_path, {"certificate-authority-data": wrapped}, {})

    tls = asyncio.run(from_kubeconfig(path).credentials()).tls

    assert tls is not None
    assert [item["subject"] for item in tls.get_ca_certs()] == [((("commonName", "authority"),),)]


def certificate(
    folder: Path,
    encryption: serialization.KeySerializationEncryption = OPEN,
) -> dict[str, Any]:
    """Make a certificate and its key; as fields of a user, relative to the folder."""
    pem, key = Authority().issue("u")
    (folder / "tls.crt").write_bytes(pem)
    read = serialization.load_pem_private_key(key, None)
    assert isinstance(read, ec.EllipticCurvePrivateKey)
    (folder / "tls.key").write_bytes(key_in_pem(read, encryption))
    return {"client-certificate": "tls.crt", "client-key": "tls.key"}


def test_the_key_of_another_certificate_is_said(tmp_path: Path) -> None:
    user = certificate(tmp_path)
    (tmp_path / "tls.key").write_bytes(key_in_pem(ec.generate_private_key(ec.SECP256R1())))
    path = kubeconfig(tmp_path, {}, user)

    with pytest.raises(NoConnection) as caught:
        used(path)

    assert str(caught.value).startswith(f"{path}: {USER}.client-certificate and client-key: TLS")
    assert str(caught.value).endswith(OWN_KEY)


def test_no_passphrase_of_a_key_is_asked_for(tmp_path: Path) -> None:
    locked = serialization.BestAvailableEncryption(b"secret")
    path = kubeconfig(tmp_path, {}, certificate(tmp_path, locked))

    with pytest.raises(NoConnection, match="without a passphrase"):
        used(path)


def merged(folder: Path, name: str, **parts: object) -> Path:
    """Write a kubeconfig in a folder of its own, with these parts instead of the usual ones."""
    (folder / name).mkdir()
    path = kubeconfig(folder / name, {}, {"tokenFile": "token"})
    (folder / name / "token").write_text(name)
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | parts))
    return path


def test_the_first_file_that_names_something_decides(tmp_path: Path) -> None:
    """As with kubectl, whose rule is: the first file to set a value wins."""
    there = {"name": "there", "context": {"cluster": "far", "user": "u", "namespace": "vision"}}
    far = {"name": "far", "cluster": {"server": "https://192.0.2.1:6443"}}
    one = merged(tmp_path, "one", clusters=None, **{"current-context": None})
    two = merged(tmp_path, "two", contexts=[there], **{"current-context": "there"})
    three = merged(tmp_path, "three", clusters=[far])
    listed = f"{one}:{tmp_path}/none:{two}::{three}"

    found = find({"KUBECONFIG": listed})
    here = of_context("here", {"KUBECONFIG": listed})

    assert (found.server, found.namespace) == ("https://192.0.2.1:6443", "vision")
    assert (here.server, here.namespace) == ("https://127.0.0.1:6443", "default")
    # A path is relative to the file that holds it.
    assert token_of(found) == "one"


def test_each_of_several_files_is_named_in_errors(tmp_path: Path) -> None:
    one, two = merged(tmp_path, "one", users=None), merged(tmp_path, "two")
    environment = {"KUBECONFIG": f"{one}:{two}"}
    (tmp_path / "two" / "token").unlink()

    with pytest.raises(NoConnection, match=f"^{two}: {USER}.tokenFile: ".replace("[", r"\[")):
        token_of(find(environment))
    with pytest.raises(NoConnection, match=f"^{one}:{two}: has no context 'x'; write one of here"):
        of_context("x", environment)
    two.write_text("a: [")
    with pytest.raises(NoConnection, match=f"^{two}: is no kubeconfig"):
        find(environment)


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
