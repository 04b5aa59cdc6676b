"""Several processes train as one: what they count, what they leave, and how they end.

That their weights are those of one process is tested for every strategy in tests/strategies.
"""

import json
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from imagenet_workloads.errors import InputError
from imagenet_workloads.frameworks.tensorflow.strategies import horovod
from imagenet_workloads.frameworks.tensorflow.strategies.mirrored import Distributed
from support.evaluations import check_evaluation
from support.horovod_cluster import HorovodCluster
from support.listed_workers import ListedWorkers
from support.tiny_records import write_dataset

TRAIN, VALIDATION = 301, 101
Job = ListedWorkers | HorovodCluster
HOROVOD = ("--framework", "TensorFlow", "--distribution-strategy", "horovod")
STRATEGIES = ["multi_worker_mirrored", "horovod"]


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_dataset(tmp_path_factory.mktemp("digits"), TRAIN, VALIDATION, shards=3)


def job(strategy: str, digits: Path, folder: Path, *more: str) -> Job:
    arguments = ["--dataset", str(digits), "--output", str(folder / "out"), *more]
    arguments += ["--image-shape", "3,28,28", "--batch-size", "16", "--warmup-epochs", "0"]
    if strategy == "horovod":
        return HorovodCluster(folder / "members", [*HOROVOD, *arguments])
    return ListedWorkers(folder / "members", arguments)


def names(running: Job) -> tuple[str, str]:
    first, second = sorted(name for name in running.members if name != "rendezvous")
    return first, second


def result(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "out/attempts/r0/result.json").read_text())
    return found


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_image_is_counted_once_over_the_workers(
    digits: Path, tmp_path: Path, strategy: str
) -> None:
    # BatchNorm, so that statistics have to agree; 4 epochs, so that some learning shows.
    more = ("--network", "resnet", "--num-layers", "8", "--num-epochs", "4", "--lr", "0.1")
    with job(strategy, digits, tmp_path, *more) as running:
        assert set(running.wait(*names(running)).values()) == {0}, running.output(names(running)[0])
    found = result(tmp_path)
    assert found["workers"] == 2
    assert found["validation"]["images"] == VALIDATION
    assert found["train"]["images"] == 4 * 301
    assert found["validation"]["top1"] > 0.3
    check_evaluation(tmp_path / "out/attempts/r0", digits)
    log = (tmp_path / "out/attempts/r0/evaluation.log").read_text().splitlines()
    assert len(log) == 5


def test_horovod_leaves_memory_of_the_gpu_to_nccl(monkeypatch: pytest.MonkeyPatch) -> None:
    growing: list[tuple[str, bool]] = []

    def initialize() -> list[str]:
        assert growing == [("GPU:0", True), ("GPU:1", True)], "it is too late afterwards"
        return ["GPU:0", "GPU:1"]

    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: [f"{kind}:0", f"{kind}:1"])
    monkeypatch.setattr(
        tf.config.experimental, "set_memory_growth", lambda gpu, grows: growing.append((gpu, grows))
    )
    monkeypatch.setattr(horovod, "device_names", initialize)
    with pytest.raises(InputError, match="one GPU, not 2"):
        horovod.join()


ENDLESS = ("--network", "mlp", "--num-epochs", "100000", "--disp-batches", "1")


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("killed", [0, 1])
def test_who_loses_another_ends_too(
    digits: Path, tmp_path: Path, strategy: str, killed: int
) -> None:
    with job(strategy, digits, tmp_path, *ENDLESS) as running:
        first = names(running)[0]
        running.wait_for_line(first, "epoch 1 batch 3")
        lost, other = names(running)[killed], names(running)[1 - killed]
        if isinstance(running, HorovodCluster):
            (slot,) = running.slots_of(lost)
            os.kill(slot, signal.SIGKILL)
        else:
            running.members[lost].kill()
        assert running.wait(other)[other] != 0
        assert "another" in running.output(other)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_sigterm_to_one_saves_and_ends_both(digits: Path, tmp_path: Path, strategy: str) -> None:
    with job(strategy, digits, tmp_path, *ENDLESS, "--checkpoint-every-epochs", "0") as running:
        first, second = names(running)
        running.wait_for_line(first, "epoch 1 batch 3")
        running.members[second].terminate()
        codes = running.wait(first, second)
    assert set(codes.values()) == {128 + signal.SIGTERM}
    (checkpoint,) = (tmp_path / "out/attempts/r0/checkpoints").iterdir()
    assert (checkpoint / "manifest.json").exists()


def listed(digits: Path, folder: Path, present: int, *more: str) -> ListedWorkers:
    """Two workers, of which not all come by themselves."""
    arguments = ["--dataset", str(digits), "--output", str(folder / "out"), *more]
    return ListedWorkers(folder / "members", arguments, present=present)


def test_who_waits_too_long_for_another_ends(digits: Path, tmp_path: Path) -> None:
    with listed(digits, tmp_path, 1, "--join-timeout", "3") as running:
        assert running.wait()["worker-0"] == 1
        assert "waits at most 3 s for 127.0.0.1:" in running.output("worker-0")
        assert "error: gave up after 3 s of waiting for 127.0.0.1:" in running.output("worker-0")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_who_waits_for_another_ends_when_told_to(
    digits: Path, tmp_path: Path, number: signal.Signals
) -> None:
    patient = ("--join-timeout", "3600", "--termination-grace", "3600")
    with listed(digits, tmp_path, 1, *patient) as running:
        running.wait_until_joining(0)
        running.members["worker-0"].send_signal(number)
        assert running.wait() == {"worker-0": 128 + signal.SIGTERM}


def test_the_first_worker_may_come_last(digits: Path, tmp_path: Path) -> None:
    more = ("--network", "mlp", "--image-shape", "3,28,28", "--batch-size", "16")
    with listed(digits, tmp_path, 0, *more, "--num-epochs", "1") as running:
        running.start(1)
        running.wait_until_joining(1)
        running.start(0)
        assert set(running.wait().values()) == {0}, running.output("worker-1")


def test_nobody_leaves_before_the_others_have_the_last_sum(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worker = Distributed(tf.distribute.OneDeviceStrategy("/cpu:0"), rank=0, workers=1)
    sums: list[Sequence[int]] = []

    def add(numbers: Sequence[int]) -> list[int]:
        sums.append(numbers)
        raise tf.errors.UnavailableError(None, None, "the other has got its part, and left")

    monkeypatch.setattr(worker, "add", add)

    worker.close()

    assert sums == [[0]]
