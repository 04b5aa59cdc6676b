"""Workers saved after every update, killed and resumed: the bytes of the uninterrupted run.

Their ledgers, which real processes of each framework have written, have every record once.

BatchNorm's statistics differ by worker until they are averaged for a file, so each training has a
network with BatchNorm. tests/with_* has what one process can show.

    make test-strategies
"""

import hashlib
import json
import os
import shutil
import signal
import subprocess
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import pytest

from imagenet_spec.events import Started, read_events
from imagenet_workloads.commands import ledger
from imagenet_workloads.train.receipts import read_chain
from support.forged_results import changed_later_receipt
from support.members import Members
from support.processes import wait_until
from support.strategy_processes import (
    PARAMETER_SERVER,
    PROGRAMS,
    STRATEGIES,
    Environment,
    Launch,
    assert_succeeds,
    of_pytorch,
    workers_of,
)
from support.tiny_dataset import write_dataset

# Three trainings of all processes, beside another test.
pytestmark = pytest.mark.timeout(900)

# Two workers take 20 steps, three 14.
IMAGES, BATCH = 160, 4
NETWORK = ["--network", "resnet", "--num-layers", "8", "--image-shape", "3,28,28"]
TRAINING = [*NETWORK, "--num-epochs", "1", "--warmup-epochs", "0", "--batch-size", str(BATCH)]
TRAINING += ["--data-nthreads", "1", "--random-crop", "1", "--pad-size", "2"]
ALWAYS = ["--checkpoint-every-seconds", "0.000001", "--checkpoint-keep", "1000"]
LAST, MIDDLE = "epoch-0001-batch-00000000", "epoch-0000-batch-00000003"
LATER = "epoch-0000-batch-00000013"
# Longer epochs: the kill hits the one that it is meant for.
KILLED_IMAGES, KILLED_LAST = 480, "epoch-0002-batch-00000000"
IDENTITY = {"IMAGENET_JOB": "digits", "IMAGENET_JOB_UID": "u", "IMAGENET_SPEC_HASH": "h"}


def of_sizes(pods: int, folder: Path, arguments: list[str], environment: Environment) -> Members:
    """Processes whose second epoch has larger images, and validation larger ones still."""
    sizes = ["--image-sizes", "0:20,1:24", "--validation-size", "32"]
    return of_pytorch(pods, folder, [*arguments, *sizes], environment)


KILLED: dict[str, Launch] = {
    **{
        name: STRATEGIES[name]
        for name in (
            *(PARAMETER_SERVER, "Horovod", "Horovod of TensorFlow", "MultiWorkerMirrored"),
            "DistributedDataParallel",
        )
    },
    "DistributedDataParallel of several sizes": partial(of_sizes, 2),
}
SLOW_TO_END = (PARAMETER_SERVER, "MultiWorkerMirrored")
"""Their other workers wait for 20 s, or until the operator ends them. Here the block ends them."""


def files(output: Path, attempt: int, last: str = LAST) -> dict[str, str]:
    """The SHA-256 of what was computed, from the last checkpoint's manifest."""
    folder = output / f"attempts/r{attempt}/checkpoints" / last
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
        with STRATEGIES[strategy](tmp_path / f"members-{name}", arguments, {}) as members:
            assert_succeeds(members)
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


def outcome(output: Path, attempt: int) -> tuple[dict[str, str], dict[str, str], object]:
    models = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in output.glob("model-0*")
    }
    result = json.loads((output / f"attempts/r{attempt}/result.json").read_text())
    return files(output, attempt, KILLED_LAST), models, result["validation"]


@pytest.mark.parametrize("strategy", KILLED)
def test_one_is_killed_in_the_second_epoch(tmp_path: Path, strategy: str) -> None:
    """After each epoch it is evaluated, and its model exported."""
    written = write_dataset(tmp_path / "data", train=KILLED_IMAGES, validation=50, shards=1)

    def train(name: str, attempt: int, *more: str) -> AbstractContextManager[Members]:
        output = tmp_path / name
        arguments = ["--dataset", str(written.folder), "--output", str(output), *TRAINING, *more]
        arguments += ["--num-epochs", "2", "--model-prefix", str(output / "model")]
        members = tmp_path / f"members-{name}-{attempt}"
        here = IDENTITY | {"IMAGENET_ATTEMPT": str(attempt)}
        return KILLED[strategy](members, arguments, here)

    with train("whole", 0) as whole:
        assert_succeeds(whole)
    with train("cut", 0, "--disp-batches", "1", *ALWAYS) as killed:
        workers = workers_of(killed)
        # Only rank 0 says so. A parameter server's ranks are by arrival.
        reached = "epoch 2 batch 5"
        wait_until(lambda: any(reached in killed.output(one) for one in workers), reached)
        os.kill(killed.process(workers[-1]), signal.SIGKILL)
        killed.wait(*(workers[-1:] if strategy in SLOW_TO_END else workers))
    with train("cut", 1) as resumed:
        assert_succeeds(resumed)

    events = [event for _, event in read_events(tmp_path / "cut/attempts/r1/metrics.jsonl")]
    (started,) = (event for event in events if isinstance(event, Started))
    assert started.epoch == 1
    assert started.batch > 0
    expected = outcome(tmp_path / "whole", 0)
    assert {"model-0001", "model-0002"} == {name.partition(".")[0] for name in expected[1]}
    assert outcome(tmp_path / "cut", 1) == expected
    assert ledger.main([str(tmp_path / "cut"), "--dataset", str(written.folder)]) == 0


@pytest.mark.parametrize("workers", [1, 3])
def test_two_workers_are_killed_and_others_go_on_with_several_sizes(
    tmp_path: Path, workers: int
) -> None:
    """In the epoch of the larger images, which the second attempt begins within."""
    written = write_dataset(tmp_path / "data", train=KILLED_IMAGES, validation=50, shards=1)
    output = tmp_path / "out"
    arguments = ["--dataset", str(written.folder), "--output", str(output), *TRAINING]
    arguments += ["--num-epochs", "2", "--disp-batches", "1"]

    def train(pods: int, attempt: int, *more: str) -> Members:
        here = IDENTITY | {"IMAGENET_ATTEMPT": str(attempt)}
        return of_sizes(pods, tmp_path / f"members-{attempt}", [*arguments, *more], here)

    with train(2, 0, *ALWAYS) as killed:
        reached = "epoch 2 batch 5"
        wait_until(lambda: reached in killed.output("pod-0"), reached)
        for member in workers_of(killed):
            os.kill(killed.process(member), signal.SIGKILL)
    with train(workers, 1) as resumed:
        assert_succeeds(resumed)
    events = [event for _, event in read_events(output / "attempts/r1/metrics.jsonl")]
    (started,) = (event for event in events if isinstance(event, Started))
    assert (started.epoch, started.batch > 0) == (1, True)
    result = json.loads((output / "attempts/r1/result.json").read_text())
    assert result["validation"]["images"] == 50
    assert result["inputs"]["imageShape"] == [3, 32, 32]
    assert ledger.main([str(output), "--dataset", str(written.folder)]) == 0
