import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from imagenet_operator.clusters.kubernetes import connection
from imagenet_operator.clusters.kubernetes.client import ApiError, Client
from imagenet_operator.clusters.kubernetes.connection import (
    Connection,
    NoConnection,
    UnreadableToken,
    find,
    from_kubeconfig,
    of_context,
)
from support.asynchronous import asynchronous
from support.fake_api_server import FakeApiServer
from support.kubeconfigs import encoded, kubeconfig


def test_a_certificate_in_the_kubeconfig(tmp_path: Path) -> None:
    path = kubeconfig(
        tmp_path,
        {"certificate-authority-data": encoded("authority")},
        {"client-certificate-data": encoded("one"), "client-key-data": encoded("two")},
    )

    found = from_kubeconfig(path)

    assert found.server == "https://127.0.0.1:6443"
    assert found.authority is not None
    assert found.authority.read_text() == "authority"
    assert found.certificate is not None
    assert found.certificate.read_text() == "one\ntwo"
    assert found.certificate.stat().st_mode & 0o077 == 0
    assert found.bearer() is None


ENDS = """
from imagenet_operator.clusters.kubernetes.connection import find
raise SystemExit(find().certificate.read_text())
"""


def test_no_copy_of_a_key_outlives_the_program(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    key = {"client-certificate-data": encoded("one"), "client-key-data": encoded("two")}
    path = kubeconfig(tmp_path, {"certificate-authority-data": encoded("authority")}, key)

    ended = subprocess.run(
        [sys.executable, "-c", ENDS],
        env={"KUBECONFIG": str(path), "TMPDIR": str(kept)},
        capture_output=True,
        text=True,
    )

    assert (ended.returncode, ended.stderr) == (1, "one\ntwo\n")
    assert list(kept.iterdir()) == []


def test_a_server_may_have_a_path(tmp_path: Path) -> None:
    server = "https://rancher.example/k8s/clusters/c-1"

    found = from_kubeconfig(kubeconfig(tmp_path, {"server": f"{server}/"}, {"token": "secret"}))

    assert found.server == server


def test_a_context_need_not_log_in(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, {}, {})
    config = yaml.safe_load(path.read_text())
    del config["contexts"][0]["context"]["user"], config["users"]
    path.write_text(yaml.safe_dump(config))

    found = from_kubeconfig(path)

    assert found.server == "https://127.0.0.1:6443"
    assert (found.certificate, found.token, found.token_file) == (None, None, None)


def test_files_are_relative_to_the_kubeconfig(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text("authority")
    (tmp_path / "token").write_text("secret\n")
    path = kubeconfig(tmp_path, {"certificate-authority": "ca.crt"}, {"tokenFile": "token"})

    found = from_kubeconfig(path)

    assert found.authority is not None
    assert found.authority.read_text() == "authority"
    assert found.bearer() == "secret"


def test_a_renewed_token_is_read_when_the_old_one_is_refused(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    found = from_kubeconfig(kubeconfig(tmp_path, {}, {"tokenFile": "token"}))
    assert found.bearer() == "old"
    token.write_text("new")
    assert found.bearer() == "old"

    found.renew()

    assert found.bearer() == "new"


def test_a_pod_uses_its_service_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "SERVICE_ACCOUNT", tmp_path)
    (tmp_path / "token").write_text("secret")
    environment = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}

    found = find({**environment, "KUBECONFIG": "/nowhere"})

    assert found.server == "https://[fd00::1]:443"
    assert found.authority == tmp_path / "ca.crt"
    assert found.bearer() == "secret"


@pytest.mark.parametrize(
    ("cluster", "user", "words"),
    [
        ({}, {"exec": {"command": "aws"}}, "plugin"),
        ({"insecure-skip-tls-verify": True}, {"token": "x"}, "TLS"),
    ],
)
def test_what_is_not_supported_is_said(
    tmp_path: Path, cluster: dict[str, Any], user: dict[str, Any], words: str
) -> None:
    with pytest.raises(NoConnection, match=words):
        from_kubeconfig(kubeconfig(tmp_path, cluster, user))


@pytest.mark.parametrize("text", ["", "a: [", "current-context: nowhere\ncontexts: []"])
def test_a_file_that_is_no_kubeconfig(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)

    with pytest.raises(NoConnection, match="is no kubeconfig"):
        find({"KUBECONFIG": str(path)})


def test_nothing_says_where_the_api_server_is(tmp_path: Path) -> None:
    with pytest.raises(NoConnection, match="set KUBECONFIG"):
        find({"KUBECONFIG": str(tmp_path / "missing")})


def test_a_context_is_found_by_its_name(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, {}, {"token": "secret"})
    config = yaml.safe_load(path.read_text())
    config["contexts"].append(
        {"name": "there", "context": {"cluster": "far", "user": "u", "namespace": "vision"}}
    )
    config["clusters"].append({"name": "far", "cluster": {"server": "https://192.0.2.1:6443"}})
    path.write_text(yaml.safe_dump(config))
    environment = {"KUBECONFIG": str(path)}

    there, here = of_context("there", environment), of_context("here", environment)

    assert (there.server, there.namespace) == ("https://192.0.2.1:6443", "vision")
    assert (here.server, here.namespace) == ("https://127.0.0.1:6443", "default")
    with pytest.raises(NoConnection, match="has no context 'nowhere'; write one of here, there"):
        of_context("nowhere", environment)


def test_a_kubeconfig_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(NoConnection, match=f"{tmp_path}/none: is no kubeconfig with a context 'a'"):
        of_context("a", {"KUBECONFIG": str(tmp_path / "none")})


def test_a_pod_without_its_files_names_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "SERVICE_ACCOUNT", tmp_path)
    token = tmp_path / "token"
    token.write_text("secret")
    found = find({"KUBERNETES_SERVICE_HOST": "10.0.0.1"})

    with pytest.raises(NoConnection, match=f"^{tmp_path}/ca.crt: no such file"):
        found.tls()
    token.unlink()
    with pytest.raises(UnreadableToken, match=f"^{token}: no such file"):
        found.bearer()
    token.write_text("renewed")
    assert found.bearer() == "renewed"


@asynchronous
async def test_a_watch_outlasts_a_token_that_is_not_there(tmp_path: Path) -> None:
    """It is an error of the connection as any other, after which a reflector tries again."""
    token = tmp_path / "token"
    async with (
        FakeApiServer() as server,
        Client(Connection(server.url, token_file=token)) as client,
    ):
        with pytest.raises(ApiError) as caught:
            await anext(client.watch("/api/v1/pods", 30.0))
        assert caught.value.code == 0
        with pytest.raises(NoConnection):
            await client.get("/api/v1/pods")
        token.write_text("secret")
        assert (await client.get("/api/v1/pods"))["kind"]
