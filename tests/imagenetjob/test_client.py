"""The public client: its names, and that it works where an event loop runs already."""

import asyncio
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args
from zipfile import ZipFile

import pytest

import imagenetjob
from imagenet_operator.sdk.background import run
from imagenet_spec.resource import Model
from imagenetjob import Client, ImageNetJob, NotFound, models
from support.chart import REPOSITORY
from support.client_jobs import UserCluster, add_pod, condition, manifest
from support.processes import DEADLINE_SECONDS

POD = "digits-r0-worker-0"


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> UserCluster:
    found = UserCluster(tmp_path)
    monkeypatch.setenv("KUBECONFIG", str(found.kubeconfig))
    return found


def test_a_notebook_calls_it_from_a_running_loop(cluster: UserCluster) -> None:
    async def cell() -> None:
        """As a cell of a notebook, which runs on the kernel's loop."""
        assert asyncio.get_running_loop().is_running()
        with Client(poll_seconds=0.01) as client:
            job = client.submit(manifest())
            assert client.list() == (job,)
            run(add_pod(cluster.server, POD, "terminated"))
            cluster.server.timed_logs[POD] = [("2026-01-01T00:00:00Z", "hello")]
            cluster.set_status(phase="Succeeded", conditions=[condition("Succeeded")], training={})
            assert [line.text for line in client.logs("digits", follow=True)] == ["hello"]
            assert client.wait("digits", timeout=5).status.phase == "Succeeded"
            client.delete("digits")
            with pytest.raises(NotFound):
                client.get("digits")

    asyncio.run(cell())
    cluster.close()


def test_a_script_that_closes_nothing_ends_without_a_word(cluster: UserCluster) -> None:
    code = "from imagenetjob import Client; client = Client(); print(client.list())"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (found.stdout, found.stderr) == ("()\n", "")
    cluster.close()


FORK = """
import os, sys
from imagenetjob import Client
client = Client()
client.list()
child = os.fork()
print(Client().list(), flush=True)
if child:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""

CYCLE = """
import asyncio, gc, os
from imagenet_operator.sdk.background import run
from imagenetjob import Client
gc.disable()
client = Client(poll_seconds=0.01)
lines = client.watch("digits")
next(lines)
cycle = [lines]
cycle.append(cycle)
del cycle, lines

async def collect():
    gc.collect()

run(collect())
print(len(client.list()))
"""


@pytest.mark.parametrize(("code", "output"), [(FORK, "()\n()\n"), (CYCLE, "1\n")])
def test_forks_and_the_garbage_collector_do_not_hang(
    code: str, output: str, cluster: UserCluster
) -> None:
    if code is CYCLE:
        cluster.add_job(phase="Running")
    found = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        timeout=DEADLINE_SECONDS,
    )
    assert (found.stdout, found.stderr) == (output, "")
    cluster.close()


def test_a_login_that_is_missing_is_an_error_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "absent"))
    with pytest.raises(imagenetjob.NoConnection) as refused:
        Client(context="production")
    assert isinstance(refused.value, imagenetjob.ImageNetJobError)
    assert "production" in str(refused.value)


def test_every_public_name_is_there() -> None:
    assert all(getattr(imagenetjob, name) is not None for name in imagenetjob.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        imagenetjob.Nothing  # noqa: B018 - reading it is the test


def test_every_error_that_the_page_names_can_be_caught() -> None:
    page = (REPOSITORY / "docs" / "python.md").read_text()
    named = set(re.findall(r"^- `([A-Z]\w+)`: ", page, re.MULTILINE))
    assert {"NotFound", "Forbidden"} <= named <= set(imagenetjob.__all__)


def test_every_part_of_a_job_is_a_model_of_the_package() -> None:
    parts: set[type[Model]] = {ImageNetJob}
    unseen = [*parts]
    while unseen:
        fields = unseen.pop().model_fields
        # The status is the operator's.
        given = (field.annotation for name, field in fields.items() if name != "status")
        new = {part for annotation in given for part in models_in(annotation)} - parts
        parts |= new
        unseen += new
    assert len(parts) > 50
    assert parts == {getattr(models, name) for name in models.__all__}


def models_in(annotation: Any) -> Iterator[type[Model]]:
    if isinstance(annotation, type) and issubclass(annotation, Model):
        yield annotation
    for part in get_args(annotation):
        yield from models_in(part)


def test_the_wheel_of_the_operator_has_the_typed_package(tmp_path: Path) -> None:
    code = "import sys; from hatchling.build import build_wheel; build_wheel(sys.argv[1])"
    command = [sys.executable, "-c", code, str(tmp_path)]
    subprocess.run(command, cwd=REPOSITORY / "operator", check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with ZipFile(wheel) as archive:
        found = set(archive.namelist())
    assert {"imagenetjob/__init__.py", "imagenetjob/py.typed"} <= found


def test_an_import_loads_no_api_client() -> None:
    code = "import sys, imagenetjob; print({'aiohttp', 'kubernetes', 'kopf'} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "set()\n"
