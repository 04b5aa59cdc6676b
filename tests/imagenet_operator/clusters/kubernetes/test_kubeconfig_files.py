"""Files of a kubeconfig: unreadable ones, several that are merged, keys and certificates."""

import asyncio
import base64
import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from imagenet_operator.clusters.kubernetes.login import (
    NoConnection,
    find,
    from_kubeconfig,
    of_context,
)
from support.certificates import OPEN, Authority, key_in_pem
from support.kubeconfigs import NO_KUBECONFIG, OWN_KEY, USER, encoded, kubeconfig, token_of, used
from support.sentences import assert_says


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        (b"a: [", ["line 1, column 5: ", "found '<stream end>'"]),
        (b"\tcontexts: []", ["line 1, column 1: ", "tab cannot indent", "write spaces"]),
        (b"caf\xe9: 1", ["not UTF-8 text"]),
        (b"a: \x01", ["not YAML", "unacceptable character #x0001"]),
        (b"a: 1\na: 2", ["line 2, column 1: ", "the key 'a'", "twice", "keep one"]),
        (b"a: !!timestamp 2024-13-45", ["line 1, column 4: ", "no !!timestamp", "tag out"]),
        (b"a: !!binary aGk=", ["a: ", "!!binary", "write it as text in quotes"]),
        (b"a: &x {b: *x}", ["a.b: contains itself"]),
        (b"[" * 1500, ["too deeply nested"]),
        (b"", ["not hold one object"]),
        (b"- a", ["not hold one object"]),
        (b"a: 1\n---\nb: 2", ["not hold one object"]),
    ],
)
def test_a_file_that_cannot_be_read_is_said_to_be_no_kubeconfig(
    tmp_path: Path, text: bytes, facts: list[str]
) -> None:
    path = tmp_path / "config"
    path.write_bytes(text)

    with pytest.raises(NoConnection) as caught:
        used(path)

    assert_says(str(caught.value), f"{path}: {NO_KUBECONFIG}", *facts, "set KUBECONFIG")
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


def test_a_key_without_a_temporary_folder_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    path = kubeconfig(tmp_path, {"certificate-authority-data": encoded("a")}, {})

    with pytest.raises(NoConnection, match=f"{tmp_path}/config: users.*no such file.*TMPDIR"):
        used(path)


def test_a_token_in_another_encoding_is_said(tmp_path: Path) -> None:
    (tmp_path / "token").write_bytes(b"caf\xe9")
    path = kubeconfig(tmp_path, {}, {"tokenFile": "token"})

    with pytest.raises(NoConnection, match=f"{tmp_path}/config: users.*is not UTF-8 text"):
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
    """Write a kubeconfig in a separate folder, with these parts instead of the usual ones."""
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
    with pytest.raises(NoConnection, match=f"^{two}: is not a kubeconfig"):
        find(environment)
