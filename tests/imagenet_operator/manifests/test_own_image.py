"""The example of a program of one's own runs in what the builders give it, as a real process."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from imagenet_operator.clusters.local import pods, preflight
from imagenet_operator.manifests import preview, rendezvous
from imagenet_operator.manifests.settings import DEFAULTS
from imagenet_operator.scaling import variants
from imagenet_operator.sdk import submission
from imagenet_spec.load import load
from imagenet_spec.validate import parse
from support import loopback
from support.pod_subset import REPOSITORY

Manifest = dict[str, Any]
Start = Callable[..., "subprocess.Popen[str]"]
EXAMPLE = REPOSITORY / "examples" / "own-image.yaml"
PAGE = (REPOSITORY / "docs" / "own-image.md").read_text()
KEY = "0123456789abcdef0123456789abcdef"
RENDEZVOUS = ("own-image-r2-rendezvous-0", "own-image-r2")


def members() -> list[Manifest]:
    (document,) = load(EXAMPLE)
    job = submission.as_stored(parse(document))
    built = preview.everything(job, status=preview.placeholder_status(job, KEY), attempt=2)
    return [item for item in built if item["kind"] == "Pod"]


def workers() -> list[Manifest]:
    return [pod for pod in members() if "-worker-" in pod["metadata"]["name"]]


@pytest.fixture
def meeting() -> str:
    """Where the attempt's rendezvous will be: an address without a listener."""
    return f"{loopback.network()}.1"


@pytest.fixture
def start(tmp_path: Path, meeting: str) -> Iterator[Start]:
    """Starts a pod's program as a container would; those that still run end with the test."""
    started: list[subprocess.Popen[str]] = []

    def begin(pod: Manifest, **more: str) -> subprocess.Popen[str]:
        given = pods.Surroundings(
            # Such as the image has it: the Python that runs the tests.
            environment={"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
            paths={"/data": tmp_path, "/scratch": tmp_path},
            address="127.1.2.3",
            peer=lambda *peer: {RENDEZVOUS: meeting}.get(peer),
            gpus=(),
            node="this-machine",
        )
        variables = {**pods.environment(pod, given), **more}
        command = pods.command(pod, variables)
        process = subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, text=True)
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def waits(process: subprocess.Popen[str], meeting: str) -> bool:
    """Whether a script reports that its rendezvous has no listener yet, and goes on."""
    assert process.stdout is not None
    said = process.stdout.readline()
    return (
        said.startswith(f"waits for {meeting}:{rendezvous.RENDEZVOUS_PORT}: ") and "refused" in said
    )


def test_the_script_waits_for_its_rendezvous_which_comes_late(
    start: Start, meeting: str, tmp_path: Path
) -> None:
    dataset = tmp_path / "datasets" / KEY
    dataset.mkdir(parents=True)
    for name in ("train-00000.rec", "train-00001.rec", "val-00000.rec"):
        (dataset / name).touch()

    started = [start(pod) for pod in workers()]
    assert all(waits(process, meeting) for process in started)
    assert not list(tmp_path.glob("jobs"))
    with socket.create_server((meeting, rendezvous.RENDEZVOUS_PORT)):
        said = [process.communicate(timeout=60)[0] for process in started]

    assert [process.returncode for process in started] == [0, 0]
    (results,) = tmp_path.glob("jobs/own-image-*/attempts/r2")
    written = [(results / f"worker-{index}.txt").read_text() for index in range(2)]
    assert [text.splitlines() for text in written] == [
        [f"worker {index} of 2", f"meets the others at {meeting}:9091", "reads 2 shards"]
        for index in range(2)
    ]
    assert all(text.endswith(own) for text, own in zip(said, written, strict=True))


def test_the_script_does_not_wait_for_ever(start: Start) -> None:
    process = start(workers()[0], HOROVOD_GLOO_TIMEOUT_SECONDS="0")
    assert process.wait(timeout=60) == 1


def test_the_script_ends_when_it_is_told_to(start: Start, meeting: str) -> None:
    process = start(workers()[0])
    assert waits(process, meeting)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 128 + signal.SIGTERM


def test_the_page_shows_how_the_example_waits() -> None:
    (script,) = workers()[0]["spec"]["containers"][0]["args"]
    shown = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert shown
    assert [loop for loop in shown if loop not in script] == []


def test_a_local_run_takes_its_command_from_the_machine() -> None:
    (document,) = load(EXAMPLE)
    assert ("python3", True) in preflight.needs(parse(document), DEFAULTS).programs


def test_the_page_names_every_variable_of_the_example() -> None:
    given = {item["name"] for pod in workers() for item in pod["spec"]["containers"][0]["env"]}
    ours = {name for name in given if name.startswith(("IMAGENET_", "POD_"))}
    # The hash of the fields that are trained ties our own checkpoints to a job.
    assert {name for name in ours if f"`{name}`" not in PAGE} == {"IMAGENET_SPEC_HASH"}


@pytest.mark.parametrize(
    "strategy", ["parameterServer", "horovod", "multiWorkerMirrored", "mirrored"]
)
def test_the_page_tells_what_a_worker_gets_of_its_strategy(strategy: str) -> None:
    cell = re.search(rf"^\| [^|]*`{strategy}`[^|]*\|([^|]*)\|[^|]*\|$", PAGE, re.MULTILINE)
    assert cell is not None
    told = set(re.findall(r"`([A-Z_]+)`", cell[1]))
    prefixes = {name for name in told if name.endswith("_")}
    told -= prefixes
    for prefix in prefixes:
        told |= {f"HOROVOD_{prefix}RANK", f"HOROVOD_{prefix}SIZE"}
    assert variables_by(strategy) - variables_by("single") == told


def variables_by(strategy: str) -> set[str]:
    """The variables of the example's worker in another strategy."""
    (document,) = load(EXAMPLE)
    changed = variants.applied(variants.read(strategy), document)
    changed["spec"]["training"]["workers"]["replicas"] = 1
    built = preview.everything(submission.as_stored(parse(changed)))
    (worker,) = (item for item in built if item["metadata"]["name"].endswith("-worker-0"))
    return {item["name"] for item in worker["spec"]["containers"][0]["env"]}
