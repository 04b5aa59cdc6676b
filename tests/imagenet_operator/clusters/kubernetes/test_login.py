"""What requests carry: certificates, a proxy, a server's other name."""

import ssl
import stat
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from aiohttp import web

from imagenet_operator.clusters.kubernetes.client import ApiError, Client
from imagenet_operator.clusters.kubernetes.login import Connection, from_kubeconfig
from support.asynchronous import asynchronous
from support.certificates import Authority
from support.connect_proxy import ConnectProxy
from support.exec_plugins import Plugin
from support.fake_api_server import FakeApiServer
from support.kubeconfigs import encoded, kubeconfig
from support.operator_harness import claim, job, node, running

PODS = "/api/v1/pods"


@dataclass
class Secure:
    """An API server with TLS for some hosts, and what reaches it."""

    server: FakeApiServer
    authority: Authority
    folder: Path
    users: set[str]

    def connection(self, cluster: dict[str, Any], user: dict[str, Any]) -> Connection:
        """A connection by a kubeconfig with these fields."""
        trust = {"certificate-authority-data": encoded(self.authority.pem.decode())}
        described = {"server": self.server.url, **trust, **cluster}
        return from_kubeconfig(kubeconfig(self.folder, described, user))


@asynccontextmanager
async def secure(folder: Path, *hosts: str) -> AsyncIterator[Secure]:
    authority = Authority()
    async with FakeApiServer(authority.server_tls(folder, *hosts, clients=True)) as server:
        api = Secure(server, authority, folder, set())

        def note(request: web.BaseRequest) -> bool:
            assert request.transport is not None
            found = request.transport.get_extra_info("peercert") or {}
            api.users |= {name for ((_, name),) in found.get("subject", ())}
            return True

        server.lets_in = note
        yield api


def certificate(authority: Authority, name: str) -> dict[str, Any]:
    pem, key = (encoded(part.decode()) for part in authority.issue(name))
    return {"client-certificate-data": pem, "client-key-data": key}


@asynchronous
async def test_a_certificate_in_the_kubeconfig(tmp_path: Path) -> None:
    async with secure(tmp_path, "127.0.0.1") as api:
        found = api.connection({}, certificate(api.authority, "ada"))
        async with Client(found) as client:
            assert (await client.get(PODS))["kind"] == "PodList"

        assert api.users == {"ada"}


@asynchronous
async def test_a_server_may_have_another_name_in_its_certificate(tmp_path: Path) -> None:
    async with secure(tmp_path, "kubernetes.example") as api:
        async with Client(api.connection({}, {})) as client:
            with pytest.raises(ApiError, match="not valid for '127"):
                await client.get(PODS)
        named = api.connection({"tls-server-name": "kubernetes.example"}, {})
        async with Client(named) as client:
            assert (await client.get(PODS))["kind"] == "PodList"


@asynchronous
async def test_a_server_that_another_authority_signs_is_refused(tmp_path: Path) -> None:
    async with secure(tmp_path, "127.0.0.1") as api:
        other = {"certificate-authority-data": encoded(Authority().pem.decode())}
        async with Client(api.connection(other, {})) as client:
            with pytest.raises(ApiError, match="certificate verify failed") as caught:
                await client.get(PODS)
            assert caught.value.code == 0
            assert "ssl:" not in str(caught.value)


@asynchronous
async def test_an_operator_works_through_a_proxy(tmp_path: Path) -> None:
    """The server's name exists only at the proxy; kopf goes there as well."""
    async with secure(tmp_path, "inside.example") as api:
        port = urlsplit(api.server.url).port
        assert port is not None
        async with ConnectProxy(port) as proxy:
            cluster = {
                "server": "https://api.invalid:6443",
                "proxy-url": proxy.url,
                "tls-server-name": "inside.example",
            }
            found = api.connection(cluster, certificate(api.authority, "ada"))
            for item in (claim(), node("n1")):
                await api.server.add(item)
            async with running(api.server, connection=found) as harness:
                await api.server.add(job())
                await harness.settle()

                assert len(harness.pods()) == 5
            assert set(proxy.asked) == {"api.invalid:6443"}
            assert api.users == {"ada"}


@asynchronous
async def test_no_other_server_gets_the_login_that_kopf_uses(tmp_path: Path) -> None:
    reached: list[web.BaseRequest] = []

    def note(request: web.BaseRequest) -> bool:
        reached.append(request)
        return True

    async with FakeApiServer() as elsewhere, FakeApiServer() as server:
        elsewhere.lets_in = note
        user = {"token": "secret"}
        found = from_kubeconfig(kubeconfig(tmp_path, {"server": server.url}, user))
        async with found.session(await found.credentials(), lambda response: None) as session:
            for url in (server.url, elsewhere.url):
                async with session.get(f"{url}{PODS}") as response:
                    assert response.status == 200

    (request,) = reached
    assert "Authorization" not in request.headers


@pytest.mark.parametrize("by_plugin", [False, True])
@asynchronous
async def test_no_key_stays_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_plugin: bool
) -> None:
    """Only this user can read it while TLS loads it, and then it is gone."""
    kept = tmp_path / "kept"
    kept.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(kept))
    modes: list[int] = []
    load = ssl.SSLContext.load_cert_chain

    def load_cert_chain(context: ssl.SSLContext, certificate: str, key: str, password: str) -> None:
        modes.extend(stat.S_IMODE(path.stat().st_mode) for path in (Path(key), Path(key).parent))
        load(context, certificate, key, password)

    async with secure(tmp_path, "127.0.0.1") as api:
        monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", load_cert_chain)
        plugin = Plugin(tmp_path)
        pem, key = (part.decode() for part in api.authority.issue("ada"))
        plugin.answer(clientCertificateData=pem, clientKeyData=key)
        found = api.connection({}, plugin.user if by_plugin else certificate(api.authority, "ada"))
        async with Client(found) as client:
            assert list(kept.iterdir()) == []
            # The same content, whose file of the first time is gone.
            found.clock = lambda: inf
            await client.get(PODS)

    assert api.users == {"ada"}
    assert list(kept.iterdir()) == []
    assert modes == [0o600, 0o700] * 2
