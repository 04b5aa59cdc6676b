"""The strategies of several workers, each as real processes on this machine, by their names."""

import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

from support.ddp_processes import DdpProcesses
from support.horovod_cluster import HorovodCluster
from support.listed_workers import ListedWorkers
from support.members import Members
from support.training_cluster import TrainingCluster

Environment = Mapping[str, str]
Launch = Callable[[Path, list[str], Environment], AbstractContextManager[Members]]


def programs(environment: str) -> Path:
    return Path(f"{sys.prefix}-{environment}") / "bin"


def of_parameter_server(
    kv_store: str, folder: Path, arguments: list[str], environment: Environment
) -> Members:
    return TrainingCluster(folder, kv_store, arguments, environment=environment)


def of_tensorflow(folder: Path, arguments: list[str], environment: Environment) -> Members:
    place = programs("tensorflow")
    return ListedWorkers(folder, arguments, programs=place, environment=environment)


def of_pytorch(pods: int, folder: Path, arguments: list[str], environment: Environment) -> Members:
    place = programs("pytorch")
    return DdpProcesses(
        folder, arguments, pods=pods, present=pods, programs=place, environment=environment
    )


OF_TENSORFLOW = ["--framework", "TensorFlow", "--distribution-strategy", "horovod"]
HOROVOD = {
    "MXNet": (programs("horovod"), ["imagenet-train", "--kv-store", "horovod"]),
    "TensorFlow": (programs("tensorflow"), ["imagenet-train", *OF_TENSORFLOW]),
}


def of_horovod(
    framework: str, folder: Path, arguments: list[str], environment: Environment
) -> Members:
    place, program = HOROVOD[framework]
    return HorovodCluster(
        folder, arguments, programs=place, program=program, environment=environment
    )


def deterministic(launch: Launch) -> Launch:
    """The same, in an order of sums that is always the same."""
    return lambda folder, arguments, environment: launch(
        folder, [*arguments, "--deterministic", "1"], environment
    )


PARAMETER_SERVER = "deterministic parameter server"
STRATEGIES: dict[str, Launch] = {
    PARAMETER_SERVER: deterministic(partial(of_parameter_server, "dist_sync")),
    "parameter server of devices": partial(of_parameter_server, "dist_device_sync"),
    "Horovod": partial(of_horovod, "MXNet"),
    "Horovod of TensorFlow": partial(of_horovod, "TensorFlow"),
    "MultiWorkerMirrored": of_tensorflow,
    "DistributedDataParallel": partial(of_pytorch, 2),
    # From three on, a sum's bits depend on its order.
    "three deterministic of DistributedDataParallel": deterministic(partial(of_pytorch, 3)),
}


PROGRAMS = {
    PARAMETER_SERVER: Path(sys.executable).parent,
    "parameter server of devices": Path(sys.executable).parent,
    "Horovod": programs("horovod"),
    "Horovod of TensorFlow": programs("tensorflow"),
    "MultiWorkerMirrored": programs("tensorflow"),
    "DistributedDataParallel": programs("pytorch"),
    "three deterministic of DistributedDataParallel": programs("pytorch"),
}
"""Where `imagenet-verify` trains with each of them."""


def workers_of(members: Members) -> list[str]:
    """The members that train."""
    return [one for one in members.members if one.startswith(("worker", "pod"))]


def assert_succeeds(members: Members) -> None:
    """Wait for the workers' ends, which must be good."""
    workers = workers_of(members)
    assert set(members.wait(*workers).values()) == {0}, members.output(workers[0])
