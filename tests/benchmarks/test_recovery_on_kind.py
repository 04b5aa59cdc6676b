"""Recoveries on kind: their jobs, the times of their pods, and the programs that run in pods."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from benchmarks.recovery import __main__, on_kind, parts
from benchmarks.scaling import pods

from imagenet_operator.clusters.local.pods import expand
from imagenet_operator.manifests import labels, preview
from imagenet_spec.validate import parse, validate
from kind.stories.jobs import CLAIM
from kind.stories.namespace import ATTEMPT, OF_JOB, StoryNamespace

Manifest = dict[str, Any]


@pytest.mark.parametrize("strategy", __main__.STRATEGIES.split(","))
def test_the_jobs_are_good_ones_whose_workers_can_be_killed(strategy: str) -> None:
    manifest = pods.job("bench-0-1", on_kind.EPOCHS, 1, strategy, on_kind.WORKERS)
    assert validate(manifest) == []
    assert manifest["spec"]["dataset"]["volume"] == {"claimName": CLAIM}
    manifest["metadata"] |= {"namespace": "bench", "uid": "0123-4567"}
    built = [item for item in preview.everything(parse(manifest)) if item["kind"] == "Pod"]
    named = {item["metadata"]["name"]: item["spec"]["containers"][0] for item in built}
    for index in range(on_kind.WORKERS):
        variables: dict[str, str] = {}
        for item in named[f"bench-0-1-r0-worker-{index}"]["env"]:
            variables[item["name"]] = expand(item.get("value", "10.0.0.1"), variables)
        assert variables["IMAGENET_OUTPUT"] == "/data"
        assert variables.keys() >= {"POD_IP", "IMAGENET_METRICS_PORT"}


def test_the_labels_of_pods_are_the_operators() -> None:
    assert (ATTEMPT, OF_JOB) == (labels.ATTEMPT, labels.JOB_NAME)


class Pods:
    """The pods of a job, as a watch has them, with the time at which each state is seen."""

    def __init__(self) -> None:
        self.now = 100.0
        self.found: dict[str, Manifest] = {"index": {"metadata": {"labels": {}}, "status": {}}}
        self.times = on_kind.PodTimes("bench", clock=lambda: self.now)

    def add(self, attempt: int, index: int) -> None:
        metadata = {"labels": {ATTEMPT: str(attempt)}}
        self.found[f"bench-r{attempt}-worker-{index}"] = {"metadata": metadata, "status": {}}

    def run(self, name: str) -> None:
        self.found[name]["status"] = {
            "phase": "Running",
            "containerStatuses": [{"state": {"running": {}}}],
        }

    def see(self) -> bool:
        self.now += 1.0
        return self.times.see(self.found)


@pytest.fixture
def seen() -> Pods:
    """Both workers of the first attempt run."""
    found = Pods()
    for index in range(2):
        found.add(0, index)
        found.run(f"bench-r0-worker-{index}")
    assert not found.see()
    return found


def test_the_times_of_pods_are_those_of_their_attempts(seen: Pods) -> None:
    seen.found["bench-r0-worker-1"]["status"] = {"phase": "Failed"}
    assert not seen.see()  # 102: the kubelet is first
    assert not seen.times.noticed
    seen.found["bench-r0-worker-0"]["metadata"]["deletionTimestamp"] = "now"
    assert not seen.see()  # 103
    del seen.found["bench-r0-worker-1"]
    assert not seen.see()
    seen.found["bench-r0-worker-0"]["status"] = {"phase": "Failed"}
    assert not seen.see()  # 105: its object is still there
    seen.add(1, 0)
    assert not seen.see()
    seen.add(1, 1)
    assert not seen.see()  # 107
    seen.run("bench-r1-worker-1")
    assert not seen.see()
    seen.run("bench-r1-worker-0")
    assert seen.see()
    assert (
        vars(seen.times).items() >= {"noticed": 103.0, "ended": 105.0, "restarted": 107.0}.items()
    )


def test_a_pod_that_goes_before_it_is_seen_to_be_deleted_is_noticed(seen: Pods) -> None:
    del seen.found["bench-r0-worker-1"]
    seen.see()
    assert (seen.times.noticed, seen.times.ended) == (102.0, None)


def test_the_parts_add_up_to_the_time_from_the_kill_to_the_step(seen: Pods) -> None:
    seen.times.noticed, seen.times.ended, seen.times.restarted = 101.0, 101.5, 103.0
    metrics = 'imagenet_train_seconds_total{phase="starting"} 2.0\n'
    found = on_kind.measured(100.0, seen.times, 108.0, f"104.0\n{metrics}")
    assert (found["running"], found["starting"], found["first step"]) == (1.0, 2.0, 2.0)
    assert sum(found.values()) == pytest.approx(8.0)
    # The watch may be behind a program that has started.
    late = on_kind.measured(100.0, seen.times, 108.0, f"102.9\n{metrics}")
    assert late["running"] == 0.0
    assert sum(late.values()) == pytest.approx(8.0)


class FakeKubectl:
    """A cluster whose pods go and come again when one of them is killed.

    Attributes:
        applied: Manifests, in order.
        deleted: Kinds and names, in order.
    """

    def __init__(self, data: Path) -> None:
        self.applied: list[Manifest] = []
        self.deleted: list[tuple[str, str]] = []
        self._data, self._killed = data, threading.Event()

    def __call__(self, *arguments: str, check: bool = True) -> str:
        pod, script = arguments[1], arguments[-1]
        assert arguments[0] == "exec"
        if script == on_kind.KILL:
            assert (pod, check) == ("bench-r0-worker-1", False)
            (self._data / on_kind.KILLED).write_text(f"{time.time()}\n")
            self._killed.set()
            return "command terminated with exit code 137"
        assert (pod, script) == ("bench-r1-worker-0", on_kind.STARTED)
        return f"{time.time()}\nimagenet_train_epoch 1\n"

    def apply(self, *manifests: Manifest) -> None:
        self.applied += manifests

    def delete(self, resource: str, name: str) -> None:
        self.deleted.append((resource, name))

    def wait_until(
        self, resource: str, satisfied: Callable[[dict[str, Manifest]], bool], selector: str
    ) -> None:
        assert (resource, selector) == ("pods", f"{OF_JOB}=bench")
        pods = Pods()
        for index in range(2):
            pods.add(0, index)
        assert not satisfied(pods.found)
        assert self._killed.wait(60)
        pods.found.clear()
        assert not satisfied(pods.found)
        for index in range(2):
            pods.add(1, index)
            pods.run(f"bench-r1-worker-{index}")
        (attempt,) = self._data.glob("jobs/bench-0123/attempts")
        (attempt / "r1").mkdir()
        events = [("started", 4.0), ("progress", 5.0), ("progress", 6.0)]
        lines = [{"time": time.time() + later, "event": event} for event, later in events]
        text = "".join(f"{json.dumps(line)}\n" for line in lines)
        (attempt / "r1" / "metrics.jsonl").write_text(f'{text}{{"time"')
        assert satisfied(pods.found)


class FakeStory(StoryNamespace):
    """A namespace whose jobs train an epoch as soon as they run."""

    def wait_for_attempt(self, number: int, name: str = "story", seconds: float = 0) -> Manifest:
        attempt = self.data / "jobs" / f"{name}-0123" / "attempts" / f"r{number}"
        (attempt / "checkpoints" / "epoch-0001-batch-00000000").mkdir(parents=True)
        return {}

    def wait_for_no_children(self, job: str = "story", seconds: float = 0) -> None:
        kubectl: Any = self.kubectl
        assert kubectl.deleted == [("imagenetjobs", job)]


def test_a_worker_is_killed_while_its_pods_are_watched(tmp_path: Path) -> None:
    kubectl: Any = FakeKubectl(tmp_path / CLAIM)
    found = on_kind.Bench(FakeStory(kubectl, tmp_path)).recovery("horovod:MXNet", "bench")
    assert [item["metadata"]["name"] for item in kubectl.applied] == ["bench"]
    assert tuple(found) == parts.PARTS
    assert all(seconds >= 0 for seconds in found.values())
    assert 5.0 <= sum(found.values()) < 6.0
    assert not (tmp_path / CLAIM / on_kind.KILLED).exists(), "the next kill has its own time"


class Answers(BaseHTTPRequestHandler):
    """A worker with metrics."""

    def do_GET(self) -> None:
        assert self.path == "/metrics"
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"imagenet_train_step_seconds_count 1.0\n")

    def log_message(self, *_: object) -> None:
        """Stay quiet."""


@pytest.fixture
def port() -> Iterator[int]:
    """The port of such a worker."""
    with HTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


def test_the_program_in_the_pod_prints_when_process_1_started(port: int) -> None:
    before = time.time()
    variables = {"POD_IP": "127.0.0.1", "IMAGENET_METRICS_PORT": str(port)}
    answer = subprocess.run(
        [sys.executable, "-c", on_kind.STARTED],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    started, _, metrics = answer.partition("\n")
    assert float(started) < before
    assert "imagenet_train_step_seconds_count 1.0" in metrics


def test_the_kill_notes_its_time_before_the_program_ends(tmp_path: Path) -> None:
    before = time.time()
    killed = on_kind.KILL.replace("/proc/1/task/1/children", str(tmp_path / "children"))
    with subprocess.Popen(["sleep", "600"]) as program:
        (tmp_path / "children").write_text(f"{program.pid} ")
        variables = {"IMAGENET_OUTPUT": str(tmp_path)}
        subprocess.run(["sh", "-c", killed], env={**os.environ, **variables}, check=True)
        assert program.wait() == -9
    assert before - 0.01 <= float((tmp_path / on_kind.KILLED).read_text()) <= time.time()
