"""The client in a real Jupyter kernel: its own event loop runs, and Ctrl-C interrupts a cell."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.blocking import BlockingKernelClient
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import KernelManager

from imagenet_operator.sdk.background import run
from support.client_jobs import UserCluster, add_pod, condition
from support.processes import DEADLINE_SECONDS, wait_until
from support.stand_ins import Workplace

POD = "digits-r0-worker-0"
HOSTILE = "<script>alert(1)</script>"
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class Kernel:
    """A kernel of Jupyter, and what its cells show."""

    def __init__(self, manager: KernelManager, client: BlockingKernelClient) -> None:
        self._manager, self._client = manager, client

    def start(self, cell: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Start a cell; yield the type and the content of what it shows, until it has ended."""
        return self._shown_by(self._client.execute(cell))

    def _shown_by(self, request: str) -> Iterator[tuple[str, dict[str, Any]]]:
        while True:
            message = self._client.get_iopub_msg(timeout=DEADLINE_SECONDS)
            kind, content = message["msg_type"], message["content"]
            if message["parent_header"].get("msg_id") != request:
                continue
            if kind == "status" and content["execution_state"] == "idle":
                return
            if kind not in ("status", "execute_input"):
                yield kind, content

    def run(self, cell: str) -> str:
        """Run a cell that must succeed; return its output as text."""
        shown = [*self.start(cell)]
        assert "error" not in dict(shown), shown
        return "".join(
            content["text"] if kind == "stream" else content["data"]["text/plain"]
            for kind, content in shown
        ).strip()

    def html(self, cell: str) -> str:
        """Return what a notebook shows of the last value of a cell."""
        return str(dict(self.start(cell))["execute_result"]["data"]["text/html"])

    def error(self, cell: str) -> list[str]:
        """Return the lines of the error that ends a cell."""
        return error_of([*self.start(cell)])

    def interrupt(self) -> None:
        """Interrupt the cell, as Ctrl-C and the button of Jupyter do."""
        self._manager.interrupt_kernel()


def error_of(shown: list[tuple[str, dict[str, Any]]]) -> list[str]:
    """Return the lines of the error among what a cell shows."""
    return COLOUR.sub("", "\n".join(dict(shown)["error"]["traceback"])).splitlines()


@contextmanager
def kernel_of(python: str | Path, environment: Mapping[str, str], folder: Path) -> Iterator[Kernel]:
    """Run a kernel of an interpreter."""
    spec = folder / "kernels" / "test"
    spec.mkdir(parents=True)
    command = [str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec.joinpath("kernel.json").write_text(
        json.dumps({"argv": command, "display_name": "test", "language": "python"})
    )
    found = KernelSpecManager(kernel_dirs=[str(spec.parent)], ensure_native_kernel=False)
    # By sockets in the folder: a free port may be taken before the kernel binds it.
    manager = KernelManager(
        kernel_name="test", kernel_spec_manager=found, transport="ipc", ip=str(folder / "kernel")
    )
    manager.start_kernel(env=dict(environment), cwd=str(folder))
    client = manager.blocking_client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=DEADLINE_SECONDS)
        yield Kernel(manager, client)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[UserCluster]:
    found = UserCluster(tmp_path)
    yield found
    found.close()


@pytest.fixture(scope="module")
def shared_kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    with kernel_of(sys.executable, os.environ, tmp_path_factory.mktemp("kernel")) as found:
        found.run("import os\nfrom imagenetjob import AsyncClient, Client")
        yield found


@pytest.fixture
def kernel(shared_kernel: Kernel, cluster: UserCluster) -> Kernel:
    """A kernel with a client of a cluster of this test's own."""
    shared_kernel.run(
        f"os.environ['KUBECONFIG'] = {str(cluster.kubeconfig)!r}\n"
        "client = Client(poll_seconds=0.01)"
    )
    return shared_kernel


def test_cells_call_the_client_while_the_loop_of_the_kernel_runs(
    cluster: UserCluster, kernel: Kernel
) -> None:
    cluster.add_job(phase="Succeeded", conditions=[condition("Succeeded")], training={})
    run(add_pod(cluster.server, POD, "terminated"))
    cluster.server.timed_logs[POD] = [("2026-01-01T00:00:00Z", "hello")]
    ticks = """
import asyncio
ticks = []
async def tick():
    while True:
        ticks.append(asyncio.get_running_loop().is_running())
        await asyncio.sleep(0)
ticking = asyncio.create_task(tick())
await asyncio.sleep(0)
print(client.get("digits").status.phase, ticks[0])
_ = ticking.cancel()
"""
    assert kernel.run(ticks) == "Succeeded True"
    assert kernel.run("[line.text for line in client.logs('digits', follow=True)]") == "['hello']"
    assert kernel.run("client.wait('digits').status.phase") == "'Succeeded'"
    awaited = "async with AsyncClient() as other:\n    print(len(await other.list()))"
    assert kernel.run(awaited) == "1"


@pytest.mark.parametrize(
    "call",
    [
        "client.wait('digits')",
        "for line in client.logs('digits', follow=True): print(line.text)",
        "for job in client.watch('digits'): pass",
        "async with AsyncClient(poll_seconds=0.01) as other: await other.wait('digits')",
    ],
)
def test_an_interrupt_ends_the_cell_and_no_more(
    call: str, cluster: UserCluster, kernel: Kernel
) -> None:
    cluster.add_job(phase="Running", training={})
    shown = kernel.start(call)
    asked = len(cluster.server.requests)
    wait_until(lambda: len(cluster.server.requests) > asked + 3, "the client asks again")
    kernel.interrupt()
    assert error_of([*shown])[-1].startswith(("KeyboardInterrupt", "CancelledError"))
    assert kernel.run("len(client.list())") == "1"
    assert kernel.run("client.get('digits').status.phase") == "'Running'"


def test_an_error_is_the_line_of_the_cell_and_its_text(kernel: Kernel) -> None:
    cell = "def read(name):\n    return client.get(name)\n\nread('lost')"
    *lines, text = kernel.error(cell)
    assert lines == ["line 4: read('lost')", "line 2: return client.get(name)"]
    assert text.startswith("NotFound: the namespace 'vision' of the cluster http")
    (line, *problems) = kernel.error("client.submit({'kind': 'ImageNetJob', 'spec': {}})")
    assert line == "line 1: client.submit({'kind': 'ImageNetJob', 'spec': {}})"
    assert problems[0].startswith("Rejected: ")


def test_jobs_are_tables_in_which_no_text_is_a_tag(cluster: UserCluster, kernel: Kernel) -> None:
    explained = condition("Failed", "PreparationFailed", f"class {HOSTILE} has no images")
    cluster.add_job(phase="Failed", reason="PreparationFailed", conditions=[explained])
    for cell in ("client.list()", "client.get('digits')"):
        html = kernel.html(cell)
        assert html.count("<tr>") == 2
        assert "<td>digits</td><td>Failed</td>" in html
        assert "PreparationFailed: class &lt;script&gt;" in html
        assert "<script" not in html


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Callable[..., Any]]:
    place = Workplace(tmp_path)

    @contextmanager
    def started(**behaviour: str) -> Iterator[tuple[Workplace, Kernel]]:
        place.behaviour = behaviour
        with kernel_of(place.python, place.environment(), tmp_path) as found:
            found.run("from imagenetjob import Client\nclient = Client.local('work')")
            yield place, found

    yield started
    wait_until(lambda: not place.left(), "every process of the job has gone")


def test_an_interrupt_leaves_a_local_run_alone(local: Callable[..., Any]) -> None:
    with local(train="hold", worker="hold") as (place, kernel):
        kernel.run(f"job = client.submit({str(place.manifest)!r})")
        place.wait_for_pod("digits-r0-worker-0")
        phase = "client.get('digits').status.phase"
        wait_until(lambda: kernel.run(phase) == "'Running'", "the status says so")
        shown = kernel.start("print('waits', flush=True)\nclient.wait('digits')")
        assert next(shown)[1]["text"] == "waits\n"
        kernel.interrupt()
        assert error_of([*shown])[-1].startswith("KeyboardInterrupt")
        assert kernel.run(phase) == "'Running'"


def test_metrics_are_a_data_frame(local: Callable[..., Any]) -> None:
    with local() as (place, kernel):
        kernel.run(f"client.submit({str(place.manifest)!r})\njob = client.wait('digits')")
        event = {"time": 5.0, "event": "progress", "epoch": 1, "loss": 0.5, "note": HOSTILE}
        (folder,) = place.workdir.glob("volumes/*/jobs/digits-*/attempts/r0")
        (folder / "metrics.jsonl").write_text(json.dumps(event) + "\n")
        html = kernel.html("table = client.metrics('digits')\ntable")
        assert "&lt;script&gt;" in html and "<script" not in html
        assert kernel.run("type(table).__module__.partition('.')[0]") == "'pandas'"
        assert kernel.run(f"table.to_dict('records') == [{ {'attempt': 0, **event}!r}]") == "True"
