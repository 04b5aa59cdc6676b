"""What a training step does with its loss, and what several do together."""

import time
from pathlib import Path

import numpy as np
import pytest
import torch

from imagenet_workloads.data.worker_data import Batch
from imagenet_workloads.errors import InputError
from imagenet_workloads.frameworks.pytorch.learner import GradientsReady
from imagenet_workloads.train.group import Flags
from imagenet_workloads.train.networks import NetworkRequest
from support.ddp_processes import DdpProcesses
from support.exchange_times import ENDLESS_TRAINING, assert_half_is_slower
from support.pytorch_learners import CLASSES, SHAPE, batch, learner, trained

MLP = NetworkRequest("mlp", None, CLASSES, SHAPE)
PLAIN = ("--mom", "0", "--wd", "0")


@pytest.mark.parametrize("smoothing", [0, 0.2])
def test_labels_are_smoothed(smoothing: float) -> None:
    made = learner(MLP, *PLAIN, "--label-smoothing", str(smoothing))
    before = made.network.fc3.bias.detach().clone()
    _, outputs = made.train(batch(3), True, Flags())
    labels = np.eye(CLASSES)[outputs.labels.astype(int)]
    error = outputs.probabilities - ((1 - smoothing) * labels + smoothing / CLASSES)
    moved = (before - made.network.fc3.bias.detach()).numpy()
    # The rate of the learner is 0.1.
    np.testing.assert_allclose(moved, 0.1 * error.mean(axis=0), atol=1e-6)


@pytest.mark.parametrize("label", [-1, CLASSES])
def test_a_label_that_is_no_class_is_named_before_it_is_trained(label: int) -> None:
    given = batch(3)
    given.label[5] = label
    with pytest.raises(InputError, match=f"the label {label}, but the network has 4 classes"):
        learner(MLP).train(given, True, Flags())


def test_batches_together_make_the_update_of_a_large_one() -> None:
    large, small = learner(MLP), learner(MLP)
    for step in range(4):
        whole = batch(step)
        large.train(whole, True, Flags())
        halves = zip(whole.data.split(4), whole.label.split(4), (False, True), strict=True)
        for data, label, updates in halves:
            small.train(Batch(data, label, 4), updates, Flags())
    first = learner(MLP).network.state_dict()
    expected = large.network.state_dict()
    for name, found in small.network.state_dict().items():
        torch.testing.assert_close(found, expected[name])
        assert not torch.allclose(found, first[name])


def test_on_a_cpu_nothing_waits_for_launches() -> None:
    _, outputs = learner().train(batch(0), True, Flags())
    assert outputs.starved is None


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
