"""Several processes train as one: what they count, what they leave, and how they end.

That their weights are those of one process is tested for every strategy in tests/strategies.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import distributed
from torch.distributed.distributed_c10d import BackendConfig

from imagenet_workloads.frameworks.pytorch.strategies import distributed_data_parallel
from support import loopback
from support.ddp_processes import DdpProcesses
from support.digit_datasets import TRAIN, VALIDATION, prepare_digits
from support.evaluations import check_evaluation
from support.training_cluster import MEMBER_PORT, plain_environment


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepare_digits(tmp_path_factory.mktemp("digits"), "RecordIO")


def arguments(digits: Path, folder: Path, *more: str) -> list[str]:
    common = ["--dataset", str(digits), "--output", str(folder / "out"), "--data-nthreads", "1"]
    shape = ["--image-shape", "3,28,28", "--batch-size", "16", "--warmup-epochs", "0"]
    return [*common, *shape, *more]


@pytest.mark.parametrize(("pods", "slots"), [(2, 1), (1, 2)])
def test_every_image_is_counted_once_over_the_processes(
    digits: Path, tmp_path: Path, pods: int, slots: int
) -> None:
    # BatchNorm, so that statistics have to agree.
    more = ("--network", "resnet", "--num-layers", "8", "--num-epochs", "1", "--lr", "0.1")
    options = arguments(digits, tmp_path, *more)
    with DdpProcesses(tmp_path / "members", options, pods=pods, slots=slots) as running:
        assert set(running.wait().values()) == {0}, running.output("pod-0")
        assert "Warning" not in running.output("pod-0")
    found = json.loads((tmp_path / "out/attempts/r0/result.json").read_text())
    assert found["workers"] == 2
    assert found["validation"]["images"] == VALIDATION
    assert found["train"]["images"] == TRAIN
    assert found["validation"]["top1"] > 0.3
    check_evaluation(tmp_path / "out/attempts/r0", digits)


JOIN = """
import os, sys
import torch
from imagenet_workloads.rendezvous import ddp, waiting
from imagenet_workloads.frameworks.pytorch.strategies import join

waiting.resolve = lambda host, port: sys.argv[1]
with ddp.find("", os.environ).joining(60):
    strategy = join("distributed_data_parallel", torch.device("cpu"))
print(strategy.add([strategy.rank + 1]))
strategy.wait_for_all()
strategy.close()
"""


def test_pytorch_joins_without_resolving_the_name_of_rank_0() -> None:
    """It could not resolve the one that rank 1 has."""
    host = f"{loopback.network()}.1"
    common = plain_environment(
        MASTER_PORT=str(MEMBER_PORT), WORLD_SIZE="2", GLOO_SOCKET_IFNAME="lo"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", JOIN, host],
            env=common | {"RANK": str(rank), "MASTER_ADDR": name},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank, name in enumerate((host, "rank-0.invalid"))
    ]
    assert [process.communicate(timeout=120)[0] for process in processes] == ["[3]\n", "[3]\n"]


CREATE = """
import sys
from pathlib import Path
from imagenet_workloads.checkpoint import Identity
from imagenet_workloads.commands.train import parse
from imagenet_workloads.frameworks.pytorch import framework
from imagenet_workloads.rendezvous.none import NoRendezvous

options = parse(["--framework", "PyTorch"])
framework.create(options, NoRendezvous(), Path(), Identity("", ""))
before = set(sys.modules)
framework.torch.optim.SGD(framework.torch.nn.Linear(1, 1).parameters())
print(sorted(set(sys.modules) - before))
"""


def test_optimizers_import_nothing_after_the_wait_for_the_others() -> None:
    program = [sys.executable, "-c", CREATE]
    ended = subprocess.run(program, env=plain_environment(), stdout=subprocess.PIPE, text=True)
    assert ended.stdout == "[]\n"


@pytest.mark.parametrize(("device", "backend"), [("cpu", "gloo"), ("cuda:1", "nccl")])
def test_gpus_exchange_over_nccl_and_cpus_over_gloo(
    monkeypatch: pytest.MonkeyPatch, device: str, backend: str
) -> None:
    place = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "rank-0", "MASTER_PORT": "29500"}
    for name, value in place.items():
        monkeypatch.setenv(name, value)
    given: dict[str, Any] = {}
    monkeypatch.setattr(distributed_data_parallel, "address_store", lambda process: None)
    monkeypatch.setattr(
        distributed,
        "init_process_group",
        lambda backends, **named: given.update(named, backends=backends),
    )
    joined = distributed_data_parallel.join(torch.device(device))
    assert (joined.rank, joined.workers) == (given["rank"], given["world_size"]) == (1, 2)
    backends = BackendConfig(given["backends"]).get_device_backend_map()
    # Whole numbers stay on the CPU.
    assert backends["cpu"] == "gloo"
    assert backends[joined.device.type] == backend
    assert given["device_id"] == (None if backend == "gloo" else joined.device)


def test_activation_checkpointing_changes_no_byte_of_two_processes(
    digits: Path, tmp_path: Path
) -> None:
    # Each update adds up the gradients of two batches.
    more = ("--network", "resnet", "--num-layers", "8", "--num-epochs", "1", "--lr", "0.1")
    models = []
    for switch in ("0", "1"):
        folder = tmp_path / switch
        options = arguments(
            *(digits, folder, *more, "--macrobatch-size", "32"),
            *("--activation-checkpointing", switch),
        )
        with DdpProcesses(folder / "members", options) as running:
            assert set(running.wait().values()) == {0}, running.output("pod-0")
        models.append((folder / "out/attempts/r0/model-0001.safetensors").read_bytes())
    assert models[0] == models[1]


ENDLESS = ("--network", "mlp", "--num-epochs", "100000", "--disp-batches", "1")


@pytest.mark.parametrize("killed", [0, 1])
def test_who_loses_another_ends_too(digits: Path, tmp_path: Path, killed: int) -> None:
    options = arguments(digits, tmp_path, *ENDLESS)
    with DdpProcesses(tmp_path / "members", options) as running:
        running.wait_for_line("pod-0", "epoch 1 batch 3")
        other = f"pod-{1 - killed}"
        running.members[f"pod-{killed}"].kill()
        assert running.wait(other)[other] == 1
        assert "error: another process has ended" in running.output(other)


def test_sigterm_to_one_saves_and_ends_both(digits: Path, tmp_path: Path) -> None:
    options = arguments(digits, tmp_path, *ENDLESS, "--checkpoint-every-epochs", "0")
    with DdpProcesses(tmp_path / "members", options) as running:
        running.wait_for_line("pod-0", "epoch 1 batch 3")
        os.kill(running.members["pod-1"].pid, signal.SIGTERM)
        codes = running.wait()
    assert set(codes.values()) == {128 + signal.SIGTERM}
    (checkpoint,) = (tmp_path / "out/attempts/r0/checkpoints").iterdir()
    assert (checkpoint / "manifest.json").exists()


@pytest.mark.parametrize(
    ("alone", "message"),
    [(0, "gave up after 5 s of waiting for 2 processes to join"), (1, "waiting for rank 0 127.")],
)
def test_who_waits_too_long_for_another_ends(
    digits: Path, tmp_path: Path, alone: int, message: str
) -> None:
    options = arguments(digits, tmp_path, "--join-timeout", "5")
    with DdpProcesses(tmp_path / "members", options, present=0) as running:
        running.start(alone)
        name = f"pod-{alone}"
        assert running.wait(name)[name] == 1
        assert message in running.output(name)
