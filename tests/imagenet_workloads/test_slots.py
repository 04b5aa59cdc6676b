"""`imagenet-slots` as a process, with programs that stand in for training.

A listening socket replaces the rendezvous: the launcher only checks that it listens.
"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from imagenet_spec.events import Started, to_line
from imagenet_spec.metrics import TRAINING, MetricType, Phase
from imagenet_workloads.environment import Environment
from imagenet_workloads.errors import InputError
from imagenet_workloads.process.pid1 import FORWARDED
from imagenet_workloads.rendezvous.ddp import Process
from imagenet_workloads.rendezvous.horovod import HorovodSlot
from imagenet_workloads.slots import (
    aggregate,
    environments,
    find_program,
    metrics_address,
    visible_devices,
)
from imagenet_workloads.telemetry.server import Registry
from imagenet_workloads.telemetry.training import ReadingTimes, TrainingRecorder
from support import loopback
from support.loopback import free_port
from support.processes import is_running, wait_until
from support.training_cluster import METRICS_PORT, ask, plain_environment

PROGRAM = Path(sys.executable).parent / "imagenet-slots"

# What a slot does: its first argument says, by local rank.
SLOT = """
import json, os, pathlib, signal, sys, time
rank, folder = os.environ["HOROVOD_LOCAL_RANK"], pathlib.Path(sys.argv[2])
orders = json.loads(sys.argv[1])
order = orders.get(rank, "hold")

def say(name, text):
    temporary = folder / f".{name}-{rank}"
    temporary.write_text(text)
    temporary.rename(folder / f"{name}-{rank}")

def end(number, frame):
    say("heard", str(number))
    if number == signal.SIGTERM and order != "stubborn":
        sys.exit(143)

for number in (signal.SIGTERM, signal.SIGUSR1):
    signal.signal(number, end)
if order.startswith("says "):
    pathlib.Path(os.environ["IMAGENET_TERMINATION_LOG"]).write_text(order)
say("environment", json.dumps(dict(os.environ)))
if order.startswith("serve"):
    from imagenet_workloads.environment import Environment
    from imagenet_workloads.telemetry.server import Registry
    from imagenet_workloads.telemetry.server import serve
    from imagenet_workloads.telemetry.training import TrainingRecorder
    registry = Registry(Environment.from_mapping(os.environ))
    recorder = TrainingRecorder(registry)
    serve(registry, Environment.from_mapping(os.environ), recorder.readiness)
    recorder.plan(1, 10, int(os.environ["HOROVOD_RANK"]))
    while not (folder / f"train-{rank}").exists():
        time.sleep(0.01)
    recorder.step(32, 0.1, 0.0)
    say("trained", "")
while order in ("hold", "stubborn") or order.startswith(("serve", "says ")):
    if (folder / f"release-{rank}").exists():
        sys.exit(int((folder / f"release-{rank}").read_text()))
    time.sleep(0.01)
sys.exit(int(order))
"""


class Pod:
    """A launcher under test."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.address = f"{loopback.network()}.1"
        self.message = folder / "message"
        self._port = port

    def start(self, orders: dict[str, str], *options: str, **variables: str) -> None:
        environment = plain_environment(
            HOROVOD_RANK="2",
            HOROVOD_SIZE="4",
            HOROVOD_LOCAL_RANK="0",
            HOROVOD_LOCAL_SIZE="2",
            HOROVOD_GLOO_RENDEZVOUS_ADDR="127.0.0.1",
            HOROVOD_GLOO_RENDEZVOUS_PORT=str(self._port),
            POD_IP=self.address,
            IMAGENET_ROLE="worker",
            IMAGENET_METRICS_PORT=str(METRICS_PORT),
            IMAGENET_TERMINATION_LOG=str(self.message),
        )
        command = [sys.executable, "-c", SLOT, json.dumps(orders), str(self.folder)]
        self.process = subprocess.Popen(
            [str(PROGRAM), "--slots", "2", *options, "--", *command],
            env=environment | variables,
            stderr=subprocess.PIPE,
            text=True,
        )

    def wait_for(self, name: str) -> str:
        path = self.folder / name
        wait_until(lambda: path.exists() or self.process.poll() is not None, f"{name} is there")
        return path.read_text()

    def begun(self) -> list[dict[str, str]]:
        """The environments of both slots, when they run."""
        return [json.loads(self.wait_for(f"environment-{rank}")) for rank in range(2)]

    def release(self, rank: int, code: str) -> None:
        """Let a slot that is held end with a code, which it sees whole or not at all."""
        written = self.folder / f"release-{rank}.tmp"
        written.write_text(code)
        written.rename(self.folder / f"release-{rank}")

    def pids(self) -> list[int]:
        self.begun()
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return [int(pid) for pid in children.split()]

    def end(self, timeout: int = 60) -> tuple[int, str]:
        _, error = self.process.communicate(timeout=timeout)
        return self.process.returncode, error

    def get(self, path: str) -> tuple[int, str]:
        return ask(self.address, METRICS_PORT, path)


def blocked(thread: Path) -> set[int]:
    """The signals that a thread blocks, from /proc/PID/task/THREAD/status (proc(5))."""
    (mask,) = re.findall(r"^SigBlk:\t(\w+)$", (thread / "status").read_text(), re.MULTILINE)
    return {number for number in signal.valid_signals() if int(mask, 16) >> number - 1 & 1}


@pytest.fixture
def pod(tmp_path: Path) -> Iterator[Pod]:
    with socket.create_server(("127.0.0.1", 0)) as rendezvous:
        made = Pod(tmp_path, rendezvous.getsockname()[1])
        yield made
        made.process.kill()
        made.process.communicate()


def test_every_slot_runs_with_its_share_to_a_good_end(pod: Pod) -> None:
    pod.start({"0": "0", "1": "0"}, CUDA_VISIBLE_DEVICES="4,5", OMP_NUM_THREADS="6")
    assert pod.end()[0] == 0
    first, second = pod.begun()
    assert (first["HOROVOD_RANK"], second["HOROVOD_RANK"]) == ("2", "3")
    assert (first["CUDA_VISIBLE_DEVICES"], second["CUDA_VISIBLE_DEVICES"]) == ("4", "5")
    assert (first["OMP_NUM_THREADS"], second["OMP_NUM_THREADS"]) == ("3", "3")


def test_one_process_beside_the_slots_tracks_them_all(pod: Pod, tmp_path: Path) -> None:
    log = tmp_path / "attempts" / "r0" / "metrics.jsonl"
    log.parent.mkdir(parents=True)
    log.write_text(f"{to_line(Started(0, 2, 0, 0), 1.0)}\n")
    variables = {"IMAGENET_TRACKING": '["--tensorboard"]', "IMAGENET_RESULTS": str(tmp_path)}
    pod.start({}, **variables)
    pod.begun()
    # With the lowest priority, it may begin late.
    wait_until(lambda: list(tmp_path.glob("tensorboard/*")), "it tracks")
    for rank in range(2):
        pod.release(rank, "0")
    assert pod.end(280)[0] == 0
    assert ["IMAGENET_TRACKING" in slot for slot in pod.begun()] == [False, False]
    assert len(list((tmp_path / "tensorboard").iterdir())) == 1


@pytest.mark.parametrize(("code", "expected"), [("7", 7), ("3", 3)])
def test_a_slot_that_fails_ends_all_with_its_code(pod: Pod, code: str, expected: int) -> None:
    pod.start({})
    # A slot that has no handler yet would end unheard.
    pod.begun()
    pod.release(1, code)
    returned, error = pod.end()
    assert returned == expected
    assert pod.wait_for("heard-0") == str(signal.SIGTERM.value)
    assert f"slot 1 ended with exit code {code}; the others follow" in error


def test_a_slot_that_is_killed_ends_all(pod: Pod) -> None:
    pod.start({})
    victim = pod.pids()[0]
    os.kill(victim, signal.SIGKILL)
    assert pod.end()[0] == 128 + signal.SIGKILL
    assert "ended with exit code 137" in pod.message.read_text()


def test_who_does_not_follow_is_killed_after_the_grace(pod: Pod) -> None:
    pod.start({"0": "stubborn", "1": "hold"}, "--termination-grace", "0.2")
    stubborn = pod.pids()
    pod.release(1, "5")
    assert pod.end()[0] == 5
    assert not any(is_running(pid) for pid in stubborn)


def test_sigterm_reaches_every_slot_and_leaves_it_its_time(pod: Pod) -> None:
    pod.start({"0": "stubborn", "1": "hold"}, "--termination-grace", "0.01")
    pod.begun()
    pod.process.send_signal(signal.SIGTERM)
    # Slot 1 has ended with 143 after SIGTERM; slot 0 may still be saving.
    assert pod.wait_for("heard-0") == pod.wait_for("heard-1") == str(signal.SIGTERM.value)
    wait_until(lambda: len(pod.pids()) == 1, "slot 1 has ended")
    pod.release(0, "0")
    assert pod.end()[0] == 128 + signal.SIGTERM


def test_other_signals_reach_every_slot(pod: Pod) -> None:
    pod.start({})
    pod.begun()
    pod.process.send_signal(signal.SIGUSR1)
    assert pod.wait_for("heard-0") == pod.wait_for("heard-1") == str(signal.SIGUSR1.value)
    for rank in range(2):
        pod.release(rank, "0")
    assert pod.end()[0] == 0


def test_signals_are_for_the_thread_that_waits_for_them(pod: Pod) -> None:
    pod.start({"0": "serve", "1": "serve"})
    pod.begun()

    # Without metrics here: their server could end at any moment.
    others = set(Path(f"/proc/{pod.process.pid}/task").iterdir())
    others.remove(Path(f"/proc/{pod.process.pid}/task/{pod.process.pid}"))
    assert others
    for thread in others:
        assert blocked(thread) >= set(FORWARDED)


def test_kill_9_of_the_launcher_leaves_no_slot(pod: Pod) -> None:
    pod.start({})
    slots = pod.pids()
    assert len(slots) == 2
    pod.process.kill()
    pod.end()
    wait_until(lambda: not any(is_running(pid) for pid in slots), "both slots are gone")


@pytest.mark.parametrize(
    ("orders", "codes", "expected"),
    [
        # The first slot has rank 0's result; the others' words are of no interest.
        ({"0": "says first", "1": "says second"}, ("0", "0"), "says first"),
        # Who fails first knows why; the others only know that it has gone.
        ({"0": "says first", "1": "says second"}, (None, "4"), "says second"),
        ({"0": "says first", "1": "hold"}, (None, "4"), "slot 1 ended with exit code 4"),
    ],
)
def test_the_termination_messages_of_the_slot_that_counts_are_the_pods(
    pod: Pod, orders: dict[str, str], codes: tuple[str | None, ...], expected: str
) -> None:
    pod.start(orders)
    pod.begun()
    for rank, code in enumerate(codes):
        if code is not None:
            pod.release(rank, code)
    assert pod.end()[0] == int(codes[1] or 0)
    assert pod.message.read_text() == expected


@pytest.mark.parametrize("code", [0, 4])
def test_termination_messages_that_are_too_long_lose_their_beginning_and_change_no_exit_code(
    pod: Pod, code: int
) -> None:
    # Kubernetes keeps the last 4096 bytes: half of an é would be the first of them.
    pod.start({"0": f"says {'é' * 2500}.", "1": "0"})
    pod.begun()
    pod.release(0, str(code))
    assert pod.end()[0] == code
    assert pod.message.read_text() == "é" * 2047 + "."


def test_termination_messages_that_nobody_can_write_down_change_no_exit_code(pod: Pod) -> None:
    pod.message = pod.folder / "missing" / "message"
    pod.start({"0": "says first", "1": "0"})
    pod.begun()
    pod.release(0, "0")
    returned, error = pod.end()
    assert returned == 0
    assert f"IMAGENET_TERMINATION_LOG: cannot write {pod.message}" in error


def test_metrics_and_readiness_are_those_of_all_slots(pod: Pod) -> None:
    pod.start({"0": "serve", "1": "serve"})
    pod.begun()
    no_batch = (503, "slot 0: no batch is trained yet")
    wait_until(lambda: pod.get("/readyz") == no_batch, "slot 0 answers")
    for rank in (0, 1):
        (pod.folder / f"train-{rank}").touch()
        pod.wait_for(f"trained-{rank}")
    wait_until(lambda: pod.get("/readyz") == (200, "ok"), "both slots are at work")
    labels = 'attempt="",imagenet_job="local",namespace="default",role="worker"'
    page = pod.get("/metrics")[1].splitlines()
    assert f"imagenet_train_images_total{{{labels}}} 64.0" in page
    assert f"imagenet_train_rank{{{labels}}} 2.0" in page
    # A slot that has ended well keeps its part of the sums.
    pod.release(1, "0")
    wait_until(lambda: len(pod.pids()) == 1, "slot 1 has ended")
    assert f"imagenet_train_images_total{{{labels}}} 64.0" in pod.get("/metrics")[1].splitlines()
    assert pod.get("/readyz") == (503, "slot 1: does not answer yet")


def test_it_waits_for_the_rendezvous_and_says_so(tmp_path: Path) -> None:
    port = free_port()
    pod = Pod(tmp_path, port)
    pod.start({"0": "0", "1": "0"})
    waits = (503, f"waits for the rendezvous 127.0.0.1:{port}")
    wait_until(lambda: pod.get("/readyz") == waits, "the launcher waits")
    assert not (tmp_path / "environment-0").exists()
    with socket.create_server(("127.0.0.1", port)):
        assert pod.end()[0] == 0
    pod.begun()


def test_sigterm_ends_the_wait(tmp_path: Path) -> None:
    pod = Pod(tmp_path, free_port())
    pod.start({})
    wait_until(lambda: pod.get("/readyz")[0] == 503, "the launcher waits")
    pod.process.send_signal(signal.SIGTERM)
    assert pod.end()[0] == 143


@pytest.mark.parametrize(
    ("options", "variables", "code", "message"),
    [
        ((), {"HOROVOD_RANK": ""}, 3, "HOROVOD_RANK is unset"),
        ((), {"HOROVOD_LOCAL_SIZE": "4"}, 3, "--slots is 2, but HOROVOD_LOCAL_SIZE is 4"),
        ((), {"CUDA_VISIBLE_DEVICES": "0,1,2"}, 3, "2 slots cannot share 3 GPUs equally"),
        (("--join-timeout", "0.1"), {}, 1, "the pod of rank 2 gave up after 0.1 s of waiting for"),
        (("--join-timeout", "0"), {}, 2, "argument --join-timeout: 0 is not above 0"),
        (("--slots", "0"), {}, 2, "argument --slots"),
    ],
)
def test_what_is_wrong_is_said(
    tmp_path: Path, options: tuple[str, ...], variables: dict[str, str], code: int, message: str
) -> None:
    pod = Pod(tmp_path, free_port())
    pod.start({}, *options, **variables)
    returned, error = pod.end()
    assert returned == code, error
    assert message in error


def test_programs_are_found_beside_this_one() -> None:
    assert find_program("imagenet-train") == str(PROGRAM.with_name("imagenet-train"))
    assert find_program("sh").endswith("/sh")
    assert find_program("/bin/sh") == "/bin/sh"
    with pytest.raises(InputError, match="no-such-program: there is no such program"):
        find_program("no-such-program")


@pytest.mark.parametrize(
    ("variables", "files", "expected"),
    [
        ({"CUDA_VISIBLE_DEVICES": "2, 3"}, ["nvidia0"], ["2", "3"]),
        ({"CUDA_VISIBLE_DEVICES": ""}, ["nvidia0"], []),
        ({}, ["nvidia3", "nvidia5", "nvidiactl", "nvidia-uvm"], ["0", "1"]),
        ({}, ["null"], []),
    ],
)
def test_gpus_are_those_of_the_container(
    tmp_path: Path, variables: dict[str, str], files: list[str], expected: list[str]
) -> None:
    for name in files:
        (tmp_path / name).touch()
    assert visible_devices(variables, tmp_path) == expected


class Page(Collector):
    def __init__(self, families: list[Family]) -> None:
        self._families = families

    def collect(self) -> list[Family]:
        return self._families


def merged(*pages: str) -> str:
    """The page that a scrape of the pod shows."""
    registry = CollectorRegistry()
    registry.register(Page(aggregate(pages)))
    return generate_latest(registry).decode()


def values(page: str) -> dict[str, float]:
    return {
        sample.name
        + "".join(
            f"|{sample.labels[name]}" for name in ("le",) if name in sample.labels
        ): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


def slot(
    rank: int,
    images: int,
    seconds: float,
    loss: float | None = None,
    utilization: float | None = None,
) -> str:
    """The page of a slot that has trained one step."""
    registry = Registry(Environment(job="digits", role="worker", attempt=0))
    recorder = TrainingRecorder(registry)
    recorder.plan(epochs=5, batches_per_epoch=20, rank=rank)
    recorder.phase(Phase.TRAINING)
    recorder.position(epoch=1, batch=3)
    recorder.step(images, seconds, 0.001)
    recorder.exchange(seconds)
    recorder.reading(lambda: ReadingTimes(seconds, 0.0, seconds, seconds))
    recorder.utilization(lambda: utilization)
    recorder.speed(images / seconds)
    recorder.learning_rate(lambda: 0.1)
    recorder.accuracy(loss=loss)
    return generate_latest(registry.exported).decode()


def test_the_page_of_64_slots_is_as_small_as_the_operator_asks_for() -> None:
    page = merged(*(slot(rank, images=32, seconds=0.1) for rank in range(64)))
    assert values(page)["imagenet_train_images_total"] == 64 * 32
    # The operator reads 64 KiB of a pod's answer.
    assert len(page.encode()) < 64 << 10


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("imagenet_train_images_total", 96.0),
        ("imagenet_train_images_per_second", 64 / 0.02 + 32 / 0.08),
        ("imagenet_train_step_seconds_count", 2.0),
        ("imagenet_train_step_seconds_sum", 0.1),
        ("imagenet_train_step_seconds_bucket|0.025", 1.0),
        ("imagenet_train_step_seconds_bucket|0.1", 2.0),
        ("imagenet_train_step_seconds_bucket|+Inf", 2.0),
        ("imagenet_train_epoch", 1.0),
        ("imagenet_train_epochs", 5.0),
        ("imagenet_train_batch", 3.0),
        ("imagenet_train_batches_per_epoch", 20.0),
        ("imagenet_train_learning_rate", 0.1),
        ("imagenet_train_loss", 0.5),
        ("imagenet_train_rank", 4.0),
    ],
)
def test_what_a_pod_shows_of_two_slots(name: str, expected: float) -> None:
    page = merged(slot(4, 64, 0.02, loss=0.5), slot(5, 32, 0.08, loss=0.7))
    assert values(page)[name] == pytest.approx(expected)


def of_slots(page: str, name: str) -> dict[str, float]:
    """A metric's values by slot."""
    return {
        sample.labels.get("slot", ""): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if sample.name == name
    }


def test_the_time_before_an_exchange_is_shown_of_each_slot() -> None:
    page = merged(slot(4, 64, 0.02), slot(5, 32, 0.08))
    name = "imagenet_train_before_exchange_seconds_total"
    assert of_slots(page, name) == pytest.approx({"0": 0.02, "1": 0.08})
    assert of_slots(page, "imagenet_train_exchanges_total") == {"0": 1.0, "1": 1.0}
    assert of_slots(page, "imagenet_train_images_total") == {"": 96.0}


@pytest.mark.parametrize(
    ("known", "expected"), [((0.5, 1.0), 0.75), ((0.5, None), 0.5), ((None, 1.0), 1.0)]
)
def test_the_utilization_of_the_gpus_is_the_mean_of_the_slots_that_know_it(
    known: tuple[float | None, ...], expected: float
) -> None:
    pages = [slot(rank, 64, 0.02, utilization=found) for rank, found in enumerate(known)]
    name = "imagenet_train_gpu_utilization_ratio"
    assert values(merged(*pages, ""))[name] == expected


def test_memory_is_the_pods() -> None:
    pages = slot(0, 1, 1.0), slot(1, 1, 1.0)
    name = "process_resident_memory_bytes"
    assert values(merged(*pages))[name] == sum(values(page)[name] for page in pages)


def test_the_page_of_the_most_slots_is_no_longer_than_the_operator_reads() -> None:
    """The operator leaves out a member whose page is longer (tests/contract/test_metrics.py)."""
    pages = [slot(rank, 2**40, 0.02, loss=1 / 3) for rank in range(64)]
    assert len(merged(*pages).encode()) < 32 << 10


def test_one_slot_is_shown_as_it_is() -> None:
    page = slot(0, 64, 0.02, loss=0.5)
    assert merged(page) == page


def test_a_slot_that_has_not_answered_yet_takes_nothing_away() -> None:
    page = slot(1, 64, 0.02, loss=0.5)
    assert values(merged("", page)) == values(page)
    assert merged("", "") == ""


def test_a_figure_that_only_a_later_slot_has_is_shown() -> None:
    assert values(merged(slot(0, 1, 1.0), slot(1, 1, 1.0, loss=0.7)))["imagenet_train_loss"] == 0.7


def test_labels_and_types_stay() -> None:
    page = merged(slot(0, 64, 0.02), slot(1, 64, 0.02))
    labels = 'attempt="0",imagenet_job="digits",namespace="default",role="worker"'
    assert f"imagenet_train_images_total{{{labels}}} 128.0\n" in page
    types = {
        f"# TYPE {metric.name} {metric.kind}"
        for metric in TRAINING
        if metric.kind != MetricType.GAUGE
    }
    assert types <= set(page.splitlines())


def test_series_that_differ_in_a_label_stay_apart() -> None:
    page = "# TYPE seen_total counter\n"
    first = page + 'seen_total{kind="a"} 1.0\nseen_total{kind="b"} 2.0\n'
    second = page + 'seen_total{kind="b"} 4.0\nseen_total{kind="c"} 8.0\n'
    found = merged(first, second)
    assert [line for line in found.splitlines() if line[0] != "#"] == [
        'seen_total{kind="a"} 1.0',
        'seen_total{kind="b"} 6.0',
        'seen_total{kind="c"} 8.0',
    ]


@given(st.lists(st.integers(0, 2**40), min_size=1, max_size=6))
def test_counts_of_any_number_of_slots_add_up_exactly(counts: list[int]) -> None:
    pages = [f"# TYPE seen_total counter\nseen_total {float(count)}\n" for count in counts]
    assert values(merged(*pages))["seen_total"] == sum(counts)


def test_the_time_of_slots_that_run_at_once_is_not_added() -> None:
    first, second = slot(0, 64, 0.02), slot(1, 64, 0.02)
    lines = [line for line in first.splitlines() if "train_seconds" in line]
    assert [line for line in merged(first, second).splitlines() if "train_seconds" in line] == lines


NAMES = HorovodSlot.variables

POD = {
    "HOROVOD_RANK": "4",
    "HOROVOD_SIZE": "8",
    "HOROVOD_LOCAL_RANK": "0",
    "HOROVOD_LOCAL_SIZE": "2",
    "HOROVOD_CROSS_RANK": "2",
    "IMAGENET_METRICS_PORT": "9090",
    "POD_IP": "10.0.0.7",
}


def test_slots_follow_each_other_in_rank() -> None:
    first, second = environments(POD, NAMES, 2, [], 1)
    assert (first["HOROVOD_RANK"], first["HOROVOD_LOCAL_RANK"]) == ("4", "0")
    assert (second["HOROVOD_RANK"], second["HOROVOD_LOCAL_RANK"]) == ("5", "1")
    for share in (first, second):
        assert (share["HOROVOD_SIZE"], share["HOROVOD_CROSS_RANK"]) == ("8", "2")


def test_no_two_slots_serve_metrics_at_one_place() -> None:
    shares = [*environments(POD, NAMES, 2, [], 4711), *environments(POD, NAMES, 2, [], 4712)]
    places = {(share["POD_IP"], share["IMAGENET_METRICS_PORT"]) for share in shares}
    assert len(places) == 4
    assert all(address.startswith("127.") for address, _ in places)
    assert ("10.0.0.7", "9090") not in places


def test_every_process_id_has_an_address_of_its_own() -> None:
    assert metrics_address(1) == "127.64.0.1"
    # The largest that Linux gives.
    assert metrics_address(2**22) == "127.128.0.0"


@pytest.mark.parametrize(
    ("devices", "shares"),
    [
        (["0", "1"], ["0", "1"]),
        (["2", "3", "6", "7"], ["2,3", "6,7"]),
        (["GPU-a", "GPU-b"], ["GPU-a", "GPU-b"]),
    ],
)
def test_gpus_are_shared_equally(devices: list[str], shares: list[str]) -> None:
    found = [share["CUDA_VISIBLE_DEVICES"] for share in environments(POD, NAMES, 2, devices, 1)]
    assert found == shares


def test_without_gpus_nothing_is_said_about_them() -> None:
    assert all("CUDA_VISIBLE_DEVICES" not in share for share in environments(POD, NAMES, 2, [], 1))
    hidden = environments(POD | {"CUDA_VISIBLE_DEVICES": ""}, NAMES, 2, [], 1)
    assert [share["CUDA_VISIBLE_DEVICES"] for share in hidden] == ["", ""]


@pytest.mark.parametrize("name", ["OMP_NUM_THREADS", "IMAGENET_CPUS"])
@pytest.mark.parametrize(("threads", "share"), [("8", "4"), ("3", "1"), ("1", "1")])
def test_threads_are_shared_too(name: str, threads: str, share: str) -> None:
    for slot in environments(POD | {name: threads}, NAMES, 2, [], 1):
        assert slot[name] == share


@pytest.mark.parametrize(
    ("address", "more", "interface"),
    [
        ("127.0.3.1", {}, "lo"),
        ("10.0.0.7", {}, None),
        ("", {}, None),
        ("127.0.3.1", {"HOROVOD_GLOO_IFACE": "eth1"}, "eth1"),
    ],
)
def test_pods_of_one_machine_talk_over_loopback(
    address: str, more: dict[str, str], interface: str | None
) -> None:
    slot = environments(POD | {"POD_IP": address} | more, NAMES, 2, [], 1)[0]
    assert slot.get("HOROVOD_GLOO_IFACE") == interface


@pytest.mark.parametrize(
    ("slots", "changed", "devices", "message"),
    [
        (3, {}, [], "--slots is 3, but HOROVOD_LOCAL_SIZE is 2: write the same"),
        (2, {}, ["0", "1", "2"], "2 slots cannot share 3 GPUs equally"),
        (2, {"HOROVOD_RANK": "7"}, [], "HOROVOD_RANK is '7'; write a whole number from 0 to 6"),
        (2, {"HOROVOD_SIZE": "1"}, [], "HOROVOD_SIZE is '1'; write a whole number from 2"),
    ],
)
def test_what_does_not_fit_is_refused(
    slots: int, changed: dict[str, str], devices: list[str], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        environments(POD | changed, NAMES, slots, devices, 1)


def test_processes_of_distributed_data_parallel_follow_each_other_in_rank() -> None:
    pod = {"RANK": "2", "WORLD_SIZE": "4", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2"}
    shares = environments(pod, Process.variables, 2, ["0", "1"], 1)
    ranks = [(share["RANK"], share["LOCAL_RANK"]) for share in shares]
    assert ranks == [("2", "0"), ("3", "1")]
    assert [share["CUDA_VISIBLE_DEVICES"] for share in shares] == ["0", "1"]
