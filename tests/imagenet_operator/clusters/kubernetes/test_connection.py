import asyncio
from pathlib import Path

import pytest
import yaml

from imagenet_operator.clusters.kubernetes import login
from imagenet_operator.clusters.kubernetes.client import ApiError, Client
from imagenet_operator.clusters.kubernetes.login import (
    FILE_SECONDS,
    RENEWAL_SECONDS,
    NoConnection,
    find,
    from_kubeconfig,
    of_context,
)
from support.asynchronous import asynchronous
from support.certificates import Authority
from support.fake_api_server import FakeApiServer
from support.kubeconfigs import Clock, kubeconfig, token_of
from support.sentences import says


def bearer(token: str) -> tuple[tuple[str, str], ...]:
    return (("Authorization", f"Bearer {token}"),)


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
    assert token_of(found) is None


def test_files_are_relative_to_the_kubeconfig(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_bytes(Authority().pem)
    (tmp_path / "token").write_text("secret\n")
    path = kubeconfig(tmp_path, {"certificate-authority": "ca.crt"}, {"tokenFile": "token"})

    found = from_kubeconfig(path)

    tls = asyncio.run(found.credentials()).tls
    assert tls is not None
    assert [item["subject"] for item in tls.get_ca_certs()] == [((("commonName", "authority"),),)]
    assert token_of(found) == "secret"


@asynchronous
async def test_a_renewed_token_is_read_when_the_old_one_is_refused(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    path = kubeconfig(tmp_path, {"server": "http://127.0.0.1:1"}, {"tokenFile": "token"})
    found = from_kubeconfig(path)
    found.clock = clock = Clock()
    old = await found.credentials()
    token.write_text("new")
    assert await found.credentials() is old
    # A login that is refused is not tried again without a pause.
    assert await found.renew(old) is old

    clock.now += RENEWAL_SECONDS

    new = await found.renew(old)
    assert (old.headers, new.headers) == (bearer("old"), bearer("new"))
    assert await found.credentials() is new


@pytest.fixture
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "account"
    folder.mkdir()
    monkeypatch.setattr(login, "SERVICE_ACCOUNT", folder)
    (folder / "token").write_text("secret")
    (folder / "ca.crt").write_bytes(Authority().pem)
    return folder


def test_a_pod_uses_its_service_account(account: Path) -> None:
    environment = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}

    found = find({**environment, "KUBECONFIG": "/nowhere"})

    assert found.server == "https://[fd00::1]:443"
    tls = asyncio.run(found.credentials()).tls
    assert tls is not None
    assert [item["subject"] for item in tls.get_ca_certs()] == [((("commonName", "authority"),),)]
    assert token_of(found) == "secret"


@asynchronous
async def test_a_pod_follows_its_token(account: Path) -> None:
    found = find({"KUBERNETES_SERVICE_HOST": "10.0.0.1"})
    found.clock = clock = Clock()
    assert (await found.credentials()).headers == bearer("secret")
    (account / "token").write_text("renewed")
    assert (await found.credentials()).headers == bearer("secret")

    clock.now += FILE_SECONDS
    renewed = await found.credentials()
    assert renewed.headers == bearer("renewed")

    # The kubelet replaces the file; a moment without it stops no request.
    (account / "token").unlink()
    clock.now += FILE_SECONDS
    assert await found.credentials() is renewed
    (account / "token").write_text("third")
    clock.now += RENEWAL_SECONDS
    assert (await found.credentials()).headers == bearer("third")


@asynchronous
async def test_a_pod_follows_its_authority(account: Path) -> None:
    found = find({"KUBERNETES_SERVICE_HOST": "10.0.0.1"})
    found.clock = clock = Clock()
    first = await found.credentials()
    clock.now += FILE_SECONDS
    assert await found.credentials() is first
    (account / "ca.crt").write_bytes(Authority().pem)
    clock.now += FILE_SECONDS

    assert (await found.credentials()).tls is not first.tls


@pytest.mark.parametrize("text", ["", "a: [", "current-context: nowhere\ncontexts: []"])
def test_a_file_that_is_no_kubeconfig(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)

    with pytest.raises(NoConnection, match="is not a kubeconfig"):
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
    with pytest.raises(
        NoConnection, match=says("has no context 'nowhere'", "write one of here", "there")
    ):
        of_context("nowhere", environment)


def test_a_kubeconfig_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        NoConnection, match=says(f"{tmp_path}/none: ", "not a kubeconfig", "context 'a'")
    ):
        of_context("a", {"KUBECONFIG": str(tmp_path / "none")})


@pytest.mark.parametrize("name", ["ca.crt", "token"])
def test_a_pod_without_its_files_names_them(account: Path, name: str) -> None:
    """The token's file is there first, or this would be no pod."""
    (account / name).write_text("")

    with pytest.raises(NoConnection, match=f"^{account}: .* file exists but empty"):
        find({"KUBERNETES_SERVICE_HOST": "10.0.0.1"})


def test_a_token_that_no_header_holds_is_said(account: Path) -> None:
    (account / "token").write_text("a\nb")

    with pytest.raises(NoConnection, match=f"^{account}/token: is not one line of text"):
        find({"KUBERNETES_SERVICE_HOST": "10.0.0.1"})


@asynchronous
async def test_a_client_outlasts_a_token_that_is_not_there(tmp_path: Path) -> None:
    """It is an error of the connection as any other, after which a reflector tries again."""
    token = tmp_path / "token"
    token.write_text("secret")
    async with FakeApiServer() as server:
        path = kubeconfig(tmp_path, {"server": server.url}, {"tokenFile": "token"})
        found = from_kubeconfig(path)
        found.clock = clock = Clock()
        async with Client(found) as client:
            server.lets_in = lambda request: request.headers["Authorization"] == "Bearer new"
            token.unlink()
            clock.now += RENEWAL_SECONDS
            with pytest.raises(ApiError) as refused:
                await client.get("/api/v1/pods")
            clock.now += FILE_SECONDS
            with pytest.raises(ApiError) as unread:
                await anext(client.watch("/api/v1/pods", 30.0))
            assert (refused.value.code, unread.value.code) == (401, 0)
            token.write_text("new")
            assert (await client.get("/api/v1/pods"))["kind"]
