"""A parameter-server job of real processes, each with an own 127.x.y.z address and fixed ports."""

import http.client
import json
import os
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from support import loopback
from support.loopback import free_port
from support.members import Members
from support.processes import DEADLINE_SECONDS

PROGRAM = Path(sys.executable).parent / "imagenet-train"
SCHEDULER_PORT = 9091
MEMBER_PORT = 9092
METRICS_PORT = 9090


def plain_environment(**more: str) -> dict[str, str]:
    """The environment of a training process, without what a surrounding job may have set."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("DMLC_", "PS_", "HOROVOD_", "IMAGENET_", "MXNET_"))
    }
    return kept | {"OMP_NUM_THREADS": "1"} | more


def train(arguments: Sequence[str], **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `imagenet-train` in one process to its end."""
    return subprocess.run(
        [str(PROGRAM), *arguments],
        env=plain_environment(**environment),
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )


def result(output: Path, attempt: int = 0) -> dict[str, Any]:
    """The result.json of an attempt, in the folder of `--output`."""
    text = (output / f"attempts/r{attempt}/result.json").read_text()
    document: dict[str, Any] = json.loads(text)
    return document


def ask(address: str, port: int, path: str) -> tuple[int, str]:
    """Status and body of an HTTP answer; (0, "") without a server."""
    connection = http.client.HTTPConnection(address, port, timeout=60)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode().strip()
    except OSError:
        return 0, ""
    finally:
        connection.close()


@dataclass
class TrainingCluster(Members):
    """Starts scheduler, server and workers.

    Attributes:
        kv_store: of all of them.
        arguments: of the workers.
        workers: how many.
        environment: of all of them.
        of_worker: additional arguments of single workers.
        absent: members that never come.
        by_name: whether members know the scheduler by a name, as in Kubernetes, and not by address.
        servers: how many; the first is `server`, the second `server-1`.
        own_program: what workers run in place of `imagenet-train`; empty for none.
    """

    kv_store: str
    arguments: Sequence[str]
    workers: int = 2
    environment: Mapping[str, str] = field(default_factory=dict)
    of_worker: Mapping[int, Sequence[str]] = field(default_factory=dict)
    absent: Collection[str] = ()
    by_name: bool = False
    servers: int = 1
    own_program: Sequence[str] = ()

    def __enter__(self) -> Self:
        self.begin()
        self._network = loopback.network()
        # A scheduler that is known by name binds its port on every address, so it needs a free one.
        self._root = ("localhost", free_port()) if self.by_name else None
        self._start("scheduler", "scheduler", [])
        for number in range(self.servers):
            self._start(f"server-{number}" if number else "server", "server", [])
        for number in range(self.workers):
            arguments = [*self.arguments, *self.of_worker.get(number, ())]
            self._start(f"worker-{number}", "worker", arguments)
        return self

    def address(self, name: str) -> str:
        return f"{self._network}.{list(self.members).index(name) + 1}"

    def metrics(self, name: str) -> str:
        return ask(self.address(name), METRICS_PORT, "/metrics")[1]

    def readiness(self, name: str) -> tuple[int, str]:
        """What a member answers to a readiness probe; (0, "") before it answers at all."""
        return ask(self.address(name), METRICS_PORT, "/readyz")

    def rank(self, name: str) -> int:
        """A worker's rank, as it has logged it."""
        self.wait_for_line(name, "INFO rank ")
        return int(self.output(name).partition("INFO rank ")[2].split()[0])

    def worker_of_rank(self, rank: int) -> str:
        names = [f"worker-{number}" for number in range(self.workers)]
        return next(name for name in names if self.rank(name) == rank)

    def _start(self, name: str, role: str, arguments: Sequence[str]) -> None:
        if name in self.absent:
            return
        address = f"{self._network}.{len(self.members) + 1}"
        host, port = self._root or (f"{self._network}.1", SCHEDULER_PORT)
        environment = plain_environment(
            DMLC_ROLE=role,
            DMLC_PS_ROOT_URI=host,
            DMLC_PS_ROOT_PORT=str(port),
            DMLC_NUM_WORKER=str(self.workers),
            DMLC_NUM_SERVER=str(self.servers),
            DMLC_NODE_HOST=address,
            POD_IP=address,
            IMAGENET_ROLE=role,
            IMAGENET_METRICS_PORT=str(METRICS_PORT),
            **self.environment,
        )
        if role != "scheduler":
            environment["PORT"] = str(MEMBER_PORT)
        ours = [str(PROGRAM), "--kv-store", self.kv_store, *arguments]
        is_own = role == "worker" and self.own_program
        self.launch(name, self.own_program if is_own else ours, environment)
