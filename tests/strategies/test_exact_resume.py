"""Workers saved after every update, killed and resumed: the bytes of the uninterrupted run.

Their ledgers, which real processes of each framework have written, have every record once.

BatchNorm's statistics differ by worker until they are averaged for a file, so each training has a
network with BatchNorm. tests/with_* has what one process can show.

    make test-strategies
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from imagenet_workloads.commands import ledger
from imagenet_workloads.train.receipts import read_chain
from support.ddp_processes import DdpProcesses
from support.forged_results import changed_later_receipt
from support.horovod_cluster import HorovodCluster
from support.listed_workers import ListedWorkers
from support.members import Members
from support.tiny_dataset import write_dataset
from support.training_cluster import TrainingCluster

# Three trainings of all processes, beside another test.
pytestmark = pytest.mark.timeout(900)

# Two workers take 20 steps, three 14.
IMAGES, BATCH = 160, 4
NETWORK = ["--network", "resnet", "--num-layers", "8", "--image-shape", "3,28,28"]
TRAINING = [*NETWORK, "--num-epochs", "1", "--warmup-epochs", "0", "--batch-size", str(BATCH)]
TRAINING += ["--data-nthreads", "1", "--random-crop", "1", "--pad-size", "2"]
ALWAYS = ["--checkpoint-every-seconds", "0.000001", "--checkpoint-keep", "1000"]
DETERMINISTIC = ["--deterministic", "1"]
LAST, MIDDLE = "epoch-0001-batch-00000000", "epoch-0000-batch-00000003"
LATER = "epoch-0000-batch-00000013"

Launch = Callable[[Path, list[str]], AbstractContextManager[Members]]


def programs(environment: str) -> Path:
    return Path(f"{sys.prefix}-{environment}") / "bin"


def of_tensorflow(folder: Path, arguments: list[str]) -> Members:
    return ListedWorkers(folder, arguments, programs=programs("tensorflow"))


def of_horovod(folder: Path, arguments: list[str]) -> Members:
    more = ["--framework", "TensorFlow", "--distribution-strategy", "horovod"]
    program, place = ["imagenet-train", *more], programs("tensorflow")
    return HorovodCluster(folder, arguments, programs=place, program=program)


STRATEGIES: dict[str, Launch] = {
    "deterministic parameter server": lambda folder, arguments: TrainingCluster(
        folder, "dist_sync", [*arguments, *DETERMINISTIC]
    ),
    "parameter server of devices": lambda folder, arguments: TrainingCluster(
        folder, "dist_device_sync", arguments
    ),
    "Horovod": lambda folder, arguments: HorovodCluster(
        folder, arguments, programs=programs("horovod")
    ),
    "Horovod of TensorFlow": of_horovod,
    "MultiWorkerMirrored": of_tensorflow,
    "DistributedDataParallel": lambda folder, arguments: DdpProcesses(
        folder, arguments, programs=programs("pytorch")
    ),
    # From three on, a sum's bits depend on its order.
    "three deterministic of DistributedDataParallel": lambda folder, arguments: DdpProcesses(
        folder, [*arguments, *DETERMINISTIC], pods=3, present=3, programs=programs("pytorch")
    ),
}


PROGRAMS = {
    "deterministic parameter server": Path(sys.executable).parent,
    "parameter server of devices": Path(sys.executable).parent,
    "Horovod": programs("horovod"),
    "Horovod of TensorFlow": programs("tensorflow"),
    "MultiWorkerMirrored": programs("tensorflow"),
    "DistributedDataParallel": programs("pytorch"),
    "three deterministic of DistributedDataParallel": programs("pytorch"),
}
"""Where `imagenet-verify` trains with each of them."""


def files(output: Path, attempt: int) -> dict[str, str]:
    """The SHA-256 of what was computed, from the last checkpoint's manifest."""
    folder = output / f"attempts/r{attempt}/checkpoints" / LAST
    found = json.loads((folder / "manifest.json").read_text())["files"]
    return {
        name: file["sha256"]
        for name, file in found.items()
        if name not in ("symbol.json", "training.json", "receipts.json")
    }


def later_receipt(output: Path) -> dict[str, str]:
    """The SHA-256 of each part of the state 10 steps after the checkpoint in the middle."""
    (found,) = (
        one.later
        for one in read_chain(output / "attempts/r0/receipts.json", "receipts")
        if one.position.name == MIDDLE
    )
    assert found is not None
    assert found.position.name == LATER
    return dict(found.state)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_killed_and_resumed(tmp_path: Path, strategy: str) -> None:
    dataset = write_dataset(tmp_path / "data", train=IMAGES, validation=8, shards=1).folder

    def train(name: str, attempt: int, *more: str) -> dict[str, str]:
        output = tmp_path / name
        arguments = ["--dataset", str(dataset), "--output", str(output), *TRAINING, *more]
        with STRATEGIES[strategy](tmp_path / f"members-{name}", arguments) as members:
            workers = [one for one in members.members if one.startswith(("worker", "pod"))]
            assert set(members.wait(*workers).values()) == {0}, members.output(workers[0])
        return files(output, attempt)

    expected = train("whole", 0)
    assert "statistics.npy" in expected
    assert train("saved", 0, *ALWAYS) == expected
    for name in ("whole", "saved"):
        assert ledger.main([str(tmp_path / name), "--dataset", str(dataset)]) == 0

    kept = "attempts/r0/checkpoints"
    shutil.copytree(tmp_path / "saved" / kept / MIDDLE, tmp_path / "cut" / kept / MIDDLE)
    assert train("cut", 0) == expected
    receipt = later_receipt(tmp_path / "cut")
    assert {"weights", "optimizer", "statistics", "random"} <= receipt.keys()
    assert receipt == later_receipt(tmp_path / "saved")

    verify = PROGRAMS[strategy] / "imagenet-verify"
    result = tmp_path / "saved/attempts/r0/result.json"
    assert subprocess.run([verify, result], check=False).returncode == 0
    changed_later_receipt(result, "weights")
    assert subprocess.run([verify, result], check=False).returncode == 1
