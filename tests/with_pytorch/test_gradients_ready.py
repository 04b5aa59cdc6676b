"""When a process has computed its gradients, before it waits for the others."""

import time
from pathlib import Path

import pytest
import torch

from imagenet_workloads.frameworks.pytorch.gradients_ready import GradientsReady
from support.ddp_processes import DdpProcesses
from support.exchange_times import ENDLESS_TRAINING, assert_half_is_slower
from support.pytorch_learners import learner, trained

CPU = torch.device("cpu")


def backward_that_waits(ready: GradientsReady, waited: list[float], watch: bool = True) -> None:
    """A backward pass at the end of which another queued function waits, as DDP's does."""

    def queue(gradient: torch.Tensor) -> None:
        torch.autograd.Variable._execution_engine.queue_callback(
            lambda: waited.append(time.monotonic())
        )

    weights = torch.ones(3, requires_grad=True)
    weights.register_hook(queue)
    ready.begin()
    loss = (weights * 2).sum()
    if watch:
        ready.watch(loss)
    (loss * 3).backward()
    assert weights.grad is not None
    assert weights.grad.tolist() == [6, 6, 6]


def test_gradients_are_ready_before_the_wait_for_others() -> None:
    ready, waited = GradientsReady(CPU), list[float]()
    for _ in range(3):
        began = time.monotonic()
        backward_that_waits(ready, waited)
        at = ready.at()
        assert at is not None
        assert began < at < waited[-1]


def test_a_pass_without_an_exchange_has_no_such_time() -> None:
    ready = GradientsReady(CPU)
    backward_that_waits(ready, [])
    backward_that_waits(ready, [], watch=False)
    assert ready.at() is None


class Event:
    """An event of a GPU that computes for 250 ms between the first and the second."""

    recorded: list["Event"]
    waited_for: list["Event"]

    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing

    def record(self) -> None:
        self.recorded.append(self)

    def synchronize(self) -> None:
        self.waited_for.append(self)

    def elapsed_time(self, other: "Event") -> float:
        assert self.recorded == [self, other]
        return 250.0


def test_a_gpu_is_waited_for_until_its_gradients_are_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Event, "recorded", [], raising=False)
    monkeypatch.setattr(Event, "waited_for", [], raising=False)
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(time, "monotonic", lambda: 1000.0)
    ready = GradientsReady(torch.device("cuda"))
    backward_that_waits(ready, [])
    assert ready.at() == 1000.25
    assert Event.waited_for == Event.recorded[1:]


def test_a_process_without_others_exchanges_nothing() -> None:
    assert trained(1, learner()).gradients_ready() is None


def test_a_process_that_is_throttled_to_half_takes_longer_than_the_other(tmp_path: Path) -> None:
    options = [*ENDLESS_TRAINING, "--output", str(tmp_path / "out")]
    with DdpProcesses(tmp_path / "members", options) as running:
        running.wait_for_line("pod-1", "INFO rank 1 of 2")
        hosts = [running.host(0), running.host(1)]
        assert_half_is_slower(hosts, running.process("pod-1"))
