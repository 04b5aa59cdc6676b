"""Logins by an exec plugin that really runs, against an API server that refuses old ones."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from imagenet_operator import handlers
from imagenet_operator.clusters.kubernetes import login
from imagenet_operator.clusters.kubernetes.client import ApiError, Client
from imagenet_operator.clusters.kubernetes.login import (
    RENEWAL_SECONDS,
    Connection,
    Credentials,
    NoConnection,
    from_kubeconfig,
)
from support.asynchronous import asynchronous, until
from support.certificates import Authority
from support.exec_plugins import VERSION, Plugin
from support.fake_api_server import FakeApiServer
from support.kubeconfigs import Clock, encoded, kubeconfig
from support.operator_harness import cluster_of, job, node, running
from support.sentences import assert_says, says

PODS = "/api/v1/pods"


class TokenServer:
    """An API server that knows one token, and a kubeconfig with a plugin."""

    def __init__(self, folder: Path, server: FakeApiServer) -> None:
        self.plugin = Plugin(folder)
        self.server = server
        self.token = "one"
        self.unauthorized = 0
        self.connection = from_kubeconfig(
            kubeconfig(folder, {"server": server.url}, self.plugin.user)
        )
        self.connection.clock = self.clock = Clock()
        server.lets_in = self._lets_in

    def _lets_in(self, request: web.BaseRequest) -> bool:
        knows = request.headers.get("Authorization") == f"Bearer {self.token}"
        self.unauthorized += not knows
        return knows


@asynchronous
async def test_a_plugin_says_the_token(tmp_path: Path) -> None:
    async with FakeApiServer() as server:
        api = TokenServer(tmp_path, server)
        api.plugin.answer(token="one")
        async with Client(api.connection) as client:
            assert (await client.get(PODS))["kind"] == "PodList"
            await client.get(PODS)

        (run,) = api.plugin.runs
        arguments, _, told = run.partition(" ")
        assert arguments == "get-token"
        assert json.loads(told)["apiVersion"] == VERSION


@asynchronous
async def test_a_refused_token_is_replaced_and_the_request_repeated(tmp_path: Path) -> None:
    async with FakeApiServer() as server:
        api = TokenServer(tmp_path, server)
        api.plugin.answer(token="one", lifetime=3600)
        async with Client(api.connection) as client:
            await client.get(PODS)
            api.token = "two"
            api.plugin.answer(token="two", lifetime=3600)
            api.clock.now += RENEWAL_SECONDS

            answers = await asyncio.gather(*(client.get(PODS) for _ in range(20)))

            assert len(answers) == 20
            assert len(api.plugin.runs) == 2


@asynchronous
async def test_a_watch_that_is_refused_gets_another_token(tmp_path: Path) -> None:
    async with FakeApiServer() as server:
        api = TokenServer(tmp_path, server)
        api.plugin.answer(token="one")
        async with Client(api.connection) as client:
            api.token = "two"
            api.plugin.answer(token="two")
            api.clock.now += RENEWAL_SECONDS
            with pytest.raises(ApiError) as caught:
                await anext(client.watch(PODS, 30.0, resourceVersion="0"))
            assert caught.value.code == 401

            events = client.watch(PODS, 30.0, resourceVersion=str(server.version))
            await server.add({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}})
            assert (await anext(events))[0] == "ADDED"
            await events.aclose()


@pytest.mark.parametrize(
    ("lifetime", "after"),
    [(3600, 3300), (600, 480), (60, 48)],
)
@asynchronous
async def test_a_token_is_replaced_before_it_expires(
    tmp_path: Path, lifetime: int, after: int
) -> None:
    async with FakeApiServer() as server:
        api = TokenServer(tmp_path, server)
        api.plugin.answer(token="one", lifetime=lifetime)
        async with Client(api.connection) as client:
            api.clock.now += after - 20
            await client.get(PODS)
            assert len(api.plugin.runs) == 1

            api.token = "two"
            api.plugin.answer(token="two", lifetime=lifetime)
            api.clock.now += 20
            await client.get(PODS)

            assert len(api.plugin.runs) == 2
            assert api.unauthorized == 0


@asynchronous
async def test_a_token_is_used_to_its_end_if_the_plugin_fails(tmp_path: Path) -> None:
    async with FakeApiServer() as server:
        api = TokenServer(tmp_path, server)
        api.plugin.answer(token="one", lifetime=3600)
        async with Client(api.connection) as client:
            api.plugin.before("echo 'no network' >&2; exit 7")
            api.clock.now += 3400
            await client.get(PODS)
            await client.get(PODS)
            assert len(api.plugin.runs) == 2

            api.clock.now += 200
            with pytest.raises(ApiError) as caught:
                await client.get(PODS)
            assert caught.value.code == 0
            assert_says(str(caught.value), "returned 7", "no network", "run it in a terminal")

            api.plugin.before("true")
            await client.get(PODS)


@asynchronous
async def test_a_login_that_stays_refused_is_not_tried_again_and_again(tmp_path: Path) -> None:
    async with FakeApiServer() as server:
        api = TokenServer(tmp_path, server)
        api.plugin.answer(token="other")
        async with Client(api.connection) as client:
            for _ in range(5):
                with pytest.raises(ApiError) as caught:
                    await client.get(PODS)
                assert caught.value.code == 401
            assert len(api.plugin.runs) == 1
            api.clock.now += RENEWAL_SECONDS
            with pytest.raises(ApiError):
                await client.get(PODS)
            assert len(api.plugin.runs) == 2


class CertificateServer:
    """An API server that knows one user's certificate, and a plugin that says it."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority()
        self.user = "one"
        self.server = FakeApiServer(self.authority.server_tls(folder, "127.0.0.1", clients=True))
        self.server.lets_in = self._lets_in
        self.plugin = Plugin(folder)

    def connection(self, folder: Path) -> Connection:
        """The connection of the server, a context manager."""
        cluster = {
            "server": self.server.url,
            "certificate-authority-data": encoded(self.authority.pem.decode()),
        }
        return from_kubeconfig(kubeconfig(folder, cluster, self.plugin.user))

    def answer(self, name: str, lifetime: float | None = None) -> None:
        pem, key = (part.decode() for part in self.authority.issue(name))
        self.plugin.answer(lifetime, clientCertificateData=pem, clientKeyData=key)

    def _lets_in(self, request: web.BaseRequest) -> bool:
        assert request.transport is not None
        found: dict[str, Any] = request.transport.get_extra_info("peercert") or {}
        return ((("commonName", self.user),),) == found.get("subject")


@asynchronous
async def test_a_plugin_says_the_certificate_and_another_one_when_it_is_refused(
    tmp_path: Path,
) -> None:
    api = CertificateServer(tmp_path)
    api.answer("one", lifetime=3600)
    async with api.server:
        found = api.connection(tmp_path)
        found.clock = clock = Clock()
        async with Client(found) as client:
            await client.get(PODS)
            api.user = "two"
            api.answer("two", lifetime=3600)
            clock.now += RENEWAL_SECONDS

            assert (await client.get(PODS))["kind"] == "PodList"
            assert len(api.plugin.runs) == 2


@asynchronous
async def test_an_operator_logs_in_again_with_kopf_and_its_watches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kopf's session keeps a certificate, so that kopf has to ask for another session."""
    for module in (login, handlers):
        monkeypatch.setattr(module, "RENEWAL_SECONDS", 0.0)
    api = CertificateServer(tmp_path)
    api.answer("one")
    async with (
        api.server,
        running(api.server, connection=api.connection(tmp_path)) as harness,
    ):
        await harness.settle()
        api.user = "two"
        api.answer("two")
        await api.server.drop_watches()
        await api.server.add(node("n1"))
        await api.server.add(job())
        await harness.settle()

        assert harness.status()["conditions"]
        assert len(api.plugin.runs) >= 2


@asynchronous
async def test_kopf_waits_for_a_plugin_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (login, handlers):
        monkeypatch.setattr(module, "RENEWAL_SECONDS", 0.0)
    async with cluster_of(node("n1")) as server:
        api = TokenServer(tmp_path, server)
        api.plugin.answer(token="one")
        async with running(server, connection=api.connection) as harness:
            await harness.settle()
            api.token = "two"
            api.plugin.before("exit 1")
            await server.drop_watches()
            runs = len(api.plugin.runs)
            await until(lambda: len(api.plugin.runs) >= runs + 3, pause=0.01)
            api.plugin.answer(token="two")
            api.plugin.before("true")
            await server.add(job())
            await harness.settle()

            assert harness.status()["conditions"]


def status(text: str) -> str:
    return f'{{"apiVersion": "{VERSION}", "kind": "ExecCredential", "status": {text}}}'


@pytest.mark.parametrize(
    ("printed", "said"),
    [
        ("", "exec: failed to decode process output"),
        ("[]", "exec: malformed response. missing key 'apiVersion'"),
        (status("{}"), "status has neither token nor clientCertificateData"),
        (status("[]"), "status has neither token nor clientCertificateData"),
        (status('{"token": 7}'), "status.token is not text"),
        (
            status('{"clientKeyData": "a"}'),
            "status has only one of clientCertificateData and clientKeyData",
        ),
        (
            status('{"token": "a", "expirationTimestamp": "soon"}'),
            "Invalid isoformat string: 'soon'",
        ),
        (
            status('{"token": "a", "expirationTimestamp": "2030-01-01T00:00:00+99:00"}'),
            "offset must be a timedelta",
        ),
        (
            status('{"token": "a"}').replace("/v1", "/v2"),
            f"{VERSION.replace('/v1', '/v2')} does not match {VERSION}",
        ),
    ],
)
def test_an_answer_that_is_no_login_is_said(tmp_path: Path, printed: str, said: str) -> None:
    plugin = Plugin(tmp_path)
    plugin.print(printed)
    path = kubeconfig(tmp_path, {}, plugin.user)

    with pytest.raises(NoConnection) as caught:
        asyncio.run(from_kubeconfig(path).credentials())

    field = f"{path}: users[u].user.exec.command"
    assert_says(str(caught.value), field, f"{tmp_path}/plugin", said, "run it in a terminal")


def test_a_time_may_have_small_letters(tmp_path: Path) -> None:
    plugin = Plugin(tmp_path)
    plugin.print(status('{"token": "a", "expirationTimestamp": "2030-01-01t00:00:00z"}'))
    connection = from_kubeconfig(kubeconfig(tmp_path, {}, plugin.user))
    assert asyncio.run(connection.credentials()) is not None


def test_a_plugins_token_that_no_header_holds_is_said(tmp_path: Path) -> None:
    plugin = Plugin(tmp_path)
    plugin.print(status('{"token": "a\\nb"}'))
    path = kubeconfig(tmp_path, {}, plugin.user)

    with pytest.raises(
        NoConnection, match=says("exec", "the token of the plugin", "is not one line")
    ) as said:
        asyncio.run(from_kubeconfig(path).credentials())

    assert "a\\nb" not in str(said.value)


def test_a_plugin_that_is_not_installed_is_said_with_its_hint(tmp_path: Path) -> None:
    user = {"exec": {"apiVersion": VERSION, "command": "no-such-plugin"}}
    path = kubeconfig(tmp_path, {}, user)
    with pytest.raises(
        NoConnection, match=says("command: no-such-plugin: ", "no such program", "install it")
    ):
        asyncio.run(from_kubeconfig(path).credentials())

    user["exec"]["installHint"] = "get it from example.com"
    path = kubeconfig(tmp_path, {}, user)
    with pytest.raises(NoConnection, match=r"no such program; get it from example\.com$"):
        asyncio.run(from_kubeconfig(path).credentials())


def test_a_plugin_that_hangs_stops_neither_the_login_nor_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(login, "PLUGIN_SECONDS", 0.2)
    plugin = Plugin(tmp_path)
    plugin.answer(token="one")
    os.mkfifo(tmp_path / "hold")
    plugin.before("read line < hold")
    found = from_kubeconfig(kubeconfig(tmp_path, {}, plugin.user))

    with pytest.raises(NoConnection, match=r"plugin: has not answered in 0\.2 s"):
        asyncio.run(found.credentials())

    async def log_in_again() -> Credentials:
        monkeypatch.setattr(login, "PLUGIN_SECONDS", 60.0)
        run = asyncio.create_task(found.credentials())
        for _ in range(5):
            await asyncio.sleep(0)
        (tmp_path / "hold").write_text("go on\n")
        return await run

    # The first run's answer is taken; there is no second run beside it.
    assert asyncio.run(log_in_again()).headers == (("Authorization", "Bearer one"),)
    assert len(plugin.runs) == 1


def test_a_plugin_may_be_told_of_the_cluster(tmp_path: Path) -> None:
    authority = Authority()
    (tmp_path / "ca.crt").write_bytes(authority.pem)
    plugin = Plugin(tmp_path)
    plugin.answer(token="one")
    plugin.user["exec"]["provideClusterInfo"] = True
    path = kubeconfig(tmp_path, {"certificate-authority": "ca.crt"}, plugin.user)

    asyncio.run(from_kubeconfig(path).credentials())

    (run,) = plugin.runs
    cluster = json.loads(run.partition(" ")[2])["spec"]["cluster"]
    assert cluster["server"] == "https://127.0.0.1:6443/"
    assert cluster["certificate-authority-data"] == encoded(authority.pem.decode())


def test_a_token_counts_for_more_than_a_plugin(tmp_path: Path) -> None:
    plugin = Plugin(tmp_path)
    path = kubeconfig(tmp_path, {}, {"token": "secret", **plugin.user})

    found = asyncio.run(from_kubeconfig(path).credentials())

    assert found.headers == (("Authorization", "Bearer secret"),)
    assert plugin.runs == []
