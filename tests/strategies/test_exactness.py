"""Synchronous strategies compute what one process computes: the same weights after 20 steps.

Plain SGD, a network without BatchNorm, given weights, and images from memory, of which worker N of
M has its part of the one global batch: nothing is left to chance, so what differs is wrong.

    make test-strategies
"""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import mxnet as mx
import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from support.ddp_processes import DdpProcesses
from support.horovod_cluster import HorovodCluster
from support.loopback import free_port
from support.pod_subset import REPOSITORY
from support.training_cluster import TrainingCluster, plain_environment

STEPS, BATCH, RATE = 20, 16, 0.1
SHAPES = {"fc1": (128, 3 * 28 * 28), "fc2": (64, 128), "fc3": (10, 64)}
ALL_BATCH, HALF_BATCH = ("--batch-size", str(BATCH)), ("--batch-size", str(BATCH // 2))
TRAINING = [
    *("--benchmark", "1", "--num-examples", str(STEPS * BATCH), "--num-classes", "10"),
    *("--network", "mlp", "--image-shape", "3,28,28", "--num-epochs", "1"),
    *("--optimizer", "sgd", "--mom", "0", "--wd", "0"),
    *("--lr", str(RATE), "--warmup-epochs", "0", "--lr-step-epochs", ""),
]

# On PYTHONPATH it splits the CPU of a process that imports TensorFlow, and reports it.
TWO_DEVICES = REPOSITORY / "benchmarks" / "two_devices"

Weights = dict[str, NDArray[np.float32]]


@pytest.fixture(scope="module")
def given() -> Weights:
    random = np.random.default_rng(1)
    drawn: Weights = {}
    for name, shape in SHAPES.items():
        drawn[f"{name}_weight"] = random.normal(0, 0.05, shape).astype(np.float32)
        drawn[f"{name}_bias"] = random.normal(0, 0.05, shape[0]).astype(np.float32)
    return drawn


@dataclass
class Training:
    """A folder of one training, and the weights that it begins with."""

    folder: Path
    given: Weights

    def options(self, *more: str) -> list[str]:
        """Those of a worker; the given weights are written as each framework reads them."""
        prefix = self.folder / "given"
        np.savez(f"{prefix}-0000.npz", **self.given)  # type: ignore[arg-type]  # no array is named allow_pickle
        arrays = {f"arg:{name}": mx.nd.array(array) for name, array in self.given.items()}
        mx.nd.save(f"{prefix}-0000.params", arrays)
        of_pytorch = {_pytorchs(name): array for name, array in self.given.items()}
        save_file(of_pytorch, f"{prefix}-0000.safetensors")
        start = ["--model-prefix", str(prefix), "--load-epoch", "0"]
        return [*more, *TRAINING, *start, "--output", str(self.folder / "out")]

    def weights(self, workers: int) -> Weights:
        """Those that the training has ended with, whichever framework wrote them."""
        folder = self.folder / "out" / "attempts" / "r0"
        result = json.loads((folder / "result.json").read_text())
        assert result["workers"] == workers
        assert result["train"]["images"] == STEPS * BATCH
        if (arrays := folder / "model-0001.npz").exists():
            with np.load(arrays) as saved:
                return dict(saved)
        if (tensors := folder / "model-0001.safetensors").exists():
            loaded = load_file(tensors)
            return {name: loaded[_pytorchs(name)] for name in self.given}
        saved = mx.nd.load(str(folder / "model-0001.params"))
        return {name.partition(":")[2]: array.asnumpy() for name, array in saved.items()}


def _pytorchs(name: str) -> str:
    """PyTorch's name of a weight: fc1.bias for fc1_bias."""
    return ".".join(name.rsplit("_", 1))


def of_environment(name: str) -> Path:
    return Path(f"{sys.prefix}-{name}") / "bin"


def alone(programs: Path, options: list[str], **variables: str) -> subprocess.Popen[bytes]:
    environment = plain_environment(**variables)
    return subprocess.Popen([str(programs / "imagenet-train"), *options], env=environment)


def ends_well(*processes: subprocess.Popen[bytes]) -> None:
    """Wait for processes; if one fails, the others are killed."""
    try:
        for process in processes:
            assert process.wait() == 0
    finally:
        for process in processes:
            process.kill()


@pytest.fixture(scope="module")
def expected(given: Weights, tmp_path_factory: pytest.TempPathFactory) -> Weights:
    """The weights of one process of MXNet on the whole batch."""
    training = Training(tmp_path_factory.mktemp("single"), given)
    options = training.options("--kv-store", "local", *ALL_BATCH)
    ends_well(alone(Path(sys.prefix) / "bin", options))
    found = training.weights(1)
    for name, array in given.items():
        assert np.abs(found[name] - array).max() > 1e-3, f"{name} has not moved"
    return found


@pytest.fixture
def training(tmp_path: Path, given: Weights) -> Training:
    return Training(tmp_path, given)


def same(found: Weights, expected: Weights) -> None:
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-4, atol=2e-6, err_msg=name)


@pytest.mark.parametrize("kv_store", ["dist_sync", "dist_device_sync"])
def test_the_parameter_server(training: Training, expected: Weights, kv_store: str) -> None:
    options = training.options(*HALF_BATCH)
    # The gradients are as many numbers as are divided between the servers.
    divided = {"MXNET_KVSTORE_BIGARRAY_BOUND": "300000"}
    with TrainingCluster(
        training.folder / "members", kv_store, options, environment=divided, servers=2
    ) as cluster:
        assert set(cluster.wait().values()) == {0}, cluster.output("worker-0")
    same(training.weights(2), expected)


@pytest.mark.parametrize(
    ("environment", "more"),
    [
        ("horovod", []),
        ("tensorflow", ["--framework", "TensorFlow", "--distribution-strategy", "horovod"]),
    ],
)
@pytest.mark.parametrize(("pods", "slots"), [(2, 1), (1, 2)])
def test_horovod(
    training: Training, expected: Weights, environment: str, more: list[str], pods: int, slots: int
) -> None:
    options = training.options(*more, *HALF_BATCH)
    programs = of_environment(environment)
    with HorovodCluster(
        training.folder / "members", options, pods=pods, slots=slots, programs=programs
    ) as cluster:
        assert set(cluster.wait().values()) == {0}, cluster.output("pod-0")
    same(training.weights(2), expected)


def test_mirrored(training: Training, expected: Weights) -> None:
    """One worker, each of whose two devices has half of the batch."""
    strategy = ("--framework", "TensorFlow", "--distribution-strategy", "mirrored")
    finished = subprocess.run(
        [of_environment("tensorflow") / "imagenet-train", *training.options(*strategy, *ALL_BATCH)],
        env=plain_environment(PYTHONPATH=str(TWO_DEVICES)),
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    assert "TensorFlow has 2 devices" in finished.stderr
    same(training.weights(1), expected)


def test_multi_worker_mirrored(training: Training, expected: Weights) -> None:
    strategy = ("--framework", "TensorFlow", "--distribution-strategy", "multi_worker_mirrored")
    options = training.options(*strategy, *HALF_BATCH)
    peers = [f"127.0.0.1:{free_port()}" for _ in range(2)]
    configurations = [
        json.dumps({"cluster": {"worker": peers}, "task": {"type": "worker", "index": index}})
        for index in range(2)
    ]
    programs = of_environment("tensorflow")
    ends_well(*[alone(programs, options, TF_CONFIG=text) for text in configurations])
    same(training.weights(2), expected)


@pytest.mark.parametrize(("pods", "slots"), [(2, 1), (1, 2)])
def test_distributed_data_parallel(
    training: Training, expected: Weights, pods: int, slots: int
) -> None:
    options, programs = training.options(*HALF_BATCH), of_environment("pytorch")
    members = training.folder / "members"
    with DdpProcesses(members, options, pods=pods, slots=slots, programs=programs) as running:
        assert set(running.wait().values()) == {0}, running.output("pod-0")
    same(training.weights(2), expected)


def test_one_process_of_pytorch(training: Training, expected: Weights) -> None:
    options = training.options("--framework", "PyTorch", *ALL_BATCH)
    ends_well(alone(of_environment("pytorch"), options))
    same(training.weights(1), expected)
