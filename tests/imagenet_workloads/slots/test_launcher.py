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

from imagenet_workloads.errors import InputError
from imagenet_workloads.process.pid1 import FORWARDED
from imagenet_workloads.slots.launcher import find_program, visible_devices
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
    from imagenet_workloads.telemetry.registry import Registry
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
