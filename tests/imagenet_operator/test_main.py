"""The operator's own program: from its arguments to SIGTERM, in a separate process."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from imagenet_operator.main import BAD_CONFIGURATION, main
from support import kubeconfigs
from support.asynchronous import asynchronous, until
from support.loopback import free_port
from support.operator_harness import cluster_of, job, node
from support.sentences import assert_says

QUIET = "imagenet_operator_queue_depth 0.0"
"""The metric of an operator whose queue is empty."""


def kubeconfig(folder: Path, url: str) -> Path:
    path = folder / "kubeconfig"
    document = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {"token": "secret"}}],
    }
    path.write_text(yaml.safe_dump(document))
    return path


async def answer(port: int, path: str) -> tuple[int, str]:
    """What the operator answers; 0 while it does not listen."""
    try:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{port}{path}") as response,
        ):
            return response.status, await response.text()
    except aiohttp.ClientConnectionError:
        return 0, ""


async def is_ready(port: int) -> bool:
    return (await answer(port, "/readyz"))[0] == 200


async def has_nothing_to_do(port: int) -> bool:
    return QUIET in (await answer(port, "/metrics"))[1]


@asynchronous
async def test_it_works_until_it_is_told_to_end(tmp_path: Path) -> None:
    port = free_port()
    async with cluster_of(node("n1")) as server:
        environment = {**os.environ, "KUBECONFIG": str(kubeconfig(tmp_path, server.url))}
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "imagenet_operator.main", "--port", str(port)),
            env=environment,
            stderr=asyncio.subprocess.PIPE,
        )
        await server.add(job())
        await server.until(lambda: len(server.all("Pod")) == 5)
        await until(lambda: is_ready(port), pause=0.05)
        await until(lambda: has_nothing_to_do(port), pause=0.05)
        assert await answer(port, "/healthz") == (200, "ok\n")
        _, metrics = await answer(port, "/metrics")
        (held,) = server.all("Lease")
        process.send_signal(signal.SIGTERM)
        _, log = await process.communicate()
        (released,) = server.all("Lease")

    assert process.returncode == 0
    assert held["spec"]["holderIdentity"]
    # A busy machine may take longer than an operator has for it, which then says so.
    assert "holderIdentity" not in released["spec"] or b"lease: no answer in time" in log
    for line in (
        'imagenet_operator_jobs{namespace="vision",phase="Starting"} 1.0',
        'imagenet_operator_watch_up{kind="pods",namespace=""} 1.0',
        'imagenet_operator_watch_up{kind="imagenetjobs",namespace=""} 1.0',
        QUIET,
        'imagenet_operator_api_requests_total{code="201",verb="POST"}',
        "imagenet_operator_pass_seconds_count",
    ):
        assert line in metrics
    lines = log.decode().splitlines()
    assert "INFO vision/digits: AttemptStarted: attempt 0: 5 pods" in "\n".join(lines)
    assert len(lines) < 12, "an operator that does what it should is quiet"


@asynchronous
async def test_it_ends_with_a_reason_when_another_operator_takes_its_lease(tmp_path: Path) -> None:
    async with cluster_of(node("n1")) as server:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "imagenet_operator.main", "--port", str(free_port())),
            env={**os.environ, "KUBECONFIG": str(kubeconfig(tmp_path, server.url))},
            stderr=asyncio.subprocess.PIPE,
        )
        await server.add(job())
        await server.until(lambda: len(server.all("Pod")) == 5)
        (held,) = server.all("Lease")
        await server.change(
            *("Lease", held["metadata"]["name"]),
            lambda item: item["spec"].update(holderIdentity="thief"),
            held["metadata"]["namespace"],
        )
        _, log = await process.communicate()

    assert process.returncode == 1
    *_, last = log.decode().splitlines()
    assert_says(last, "ERROR stopping: ", "lease is lost", "thief has taken imagenet-operator")


@asynchronous
async def test_it_is_ready_only_with_the_definition_and_ends_in_a_sentence_without_it(
    tmp_path: Path,
) -> None:
    port = free_port()
    missing = "the definition imagenetjobs.imagenet.dev is missing; install it with the chart"
    async with cluster_of(node("n1")) as server:
        server.is_defined = False
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "imagenet_operator.main", "--port", str(port)),
            env={**os.environ, "KUBECONFIG": str(kubeconfig(tmp_path, server.url))},
            stderr=asyncio.subprocess.PIPE,
        )
        await until(lambda: has_nothing_to_do(port), pause=0.05)
        code, words = await answer(port, "/readyz")
        assert (code, missing in words) == (503, True)
        assert (await answer(port, "/healthz"))[0] == 200

        server.is_defined = True
        await server.add(job())
        await server.until(lambda: len(server.all("Pod")) == 5)
        server.is_defined = False
        await server.drop_watches()
        _, log = await process.communicate()

    assert process.returncode == 1
    assert f"ERROR stopping: {missing}\n" in log.decode()
    assert "Traceback" not in log.decode()


@pytest.mark.parametrize(
    ("arguments", "environment", "words"),
    [
        (["--configuration", "/nowhere/file"], {}, "/nowhere/file: no such file"),
        ([], {"KUBECONFIG": "/nowhere/kubeconfig"}, "set KUBECONFIG"),
    ],
)
def test_what_keeps_it_from_starting_is_one_line(
    arguments: list[str],
    environment: dict[str, str],
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    assert main(arguments) == BAD_CONFIGURATION

    output: Any = capsys.readouterr()
    assert words in output.err
    assert output.err.count("\n") == 1


def test_a_certificate_that_is_none_keeps_it_from_starting_in_one_line(tmp_path: Path) -> None:
    path = kubeconfigs.kubeconfig(
        tmp_path, {"certificate-authority-data": kubeconfigs.encoded("no PEM")}, {"token": "secret"}
    )
    ended = subprocess.run(
        [sys.executable, "-m", "imagenet_operator.main", "--port", str(free_port())],
        env={**os.environ, "KUBECONFIG": str(path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == BAD_CONFIGURATION
    assert "certificate-authority-data" in ended.stderr
    assert ended.stderr.count("\n") == 1
