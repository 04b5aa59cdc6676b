"""A job of workers that TF_CONFIG lists, as real processes."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from support import loopback
from support.members import Members
from support.processes import wait_until
from support.training_cluster import METRICS_PORT, PROGRAM, plain_environment

# TensorFlow listens on IPv6 where there is any, and thereby on IPv4 too.
_SOCKETS = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LISTEN = "0A"
STRATEGY = ("--framework", "TensorFlow", "--distribution-strategy", "multi_worker_mirrored")


@dataclass
class ListedWorkers(Members):
    """Starts the workers.

    Attributes:
        arguments: of all of them.
        workers: how many are listed.
        present: how many of them, from the first, come by themselves.
        programs: the folder of the environment's programs.
        environment: of all of them.
    """

    arguments: Sequence[str]
    workers: int = 2
    present: int = 2
    programs: Path = PROGRAM.parent
    environment: Mapping[str, str] = field(default_factory=dict)

    def __enter__(self) -> Self:
        self.begin()
        self._network = loopback.network()
        self._listed = [f"127.0.0.1:{loopback.free_port()}" for _ in range(self.workers)]
        for index in range(self.present):
            self.start(index)
        return self

    def host(self, index: int) -> str:
        """Where a worker serves its metrics."""
        return f"{self._network}.{index + 1}"

    def start(self, index: int) -> None:
        """Have a worker come."""
        task = {"type": "worker", "index": index}
        config = json.dumps({"cluster": {"worker": self._listed}, "task": task})
        command = [str(self.programs / "imagenet-train"), *STRATEGY, *self.arguments]
        environment = plain_environment(
            TF_CONFIG=config,
            POD_IP=self.host(index),
            IMAGENET_METRICS_PORT=str(METRICS_PORT),
            **self.environment,
        )
        self.launch(f"worker-{index}", command, environment)

    def wait_until_joining(self, index: int) -> None:
        """Return when TensorFlow's server of a worker listens, from when on it waits for others."""
        port = int(self._listed[index].rpartition(":")[2])
        wait_until(lambda: _listens(port), f"worker-{index} listens on port {port}")


def _listens(port: int) -> bool:
    tables = [path.read_text() for path in _SOCKETS if path.exists()]
    rows = [line.split() for table in tables for line in table.splitlines()[1:]]
    return any(row[1].endswith(f":{port:04X}") and row[3] == _LISTEN for row in rows)
