"""Where it is measured: a kind cluster of one node, many nodes that KWOK only claims to have.

KWOK says of the pods on its nodes that they run, and of pods that are deleted that they are gone;
API server, etcd, scheduler and controllers are real. The operator is a process beside them, as
`imagenet-operator` starts it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from prometheus_client.parser import text_string_to_metric_families

from kind.airgap import build
from kind.cluster import Cluster
from kind.environment import prepare

NAME = "imagenetjob-bench"
FAKE_NODES = 20
DEFINITION = Path("charts/imagenet-operator/files/imagenetjobs.yaml")
_FAKE = "kwok.x-k8s.io/node"
_TICKS = os.sysconf("SC_CLK_TCK")


@contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    """Make the cluster with its fake nodes, and delete it at the end.

    Args:
        folder: For what belongs to this run.
    """
    made = Cluster(NAME, prepare())
    try:
        made.create(workers=0)
        kubectl = made.kubectl
        # Nothing that is measured runs on the real node.
        (real,) = made.nodes
        kubectl("cordon", real)
        kubectl.define(DEFINITION)
        with _kwok(made, folder):
            kubectl.apply(*(_node(number) for number in range(FAKE_NODES)))
            kubectl.wait(f"nodes --selector={_FAKE}=fake", "condition=Ready")
            yield made
    finally:
        made.delete()


@contextmanager
def _kwok(made: Cluster, folder: Path) -> Iterator[None]:
    program = shutil.which("kwok") or str(Path(build.build(["kwok"])["kwok"]) / "kwok")
    command = [
        program,
        f"--kubeconfig={made.kubeconfig}",
        "--manage-all-nodes=false",
        f"--manage-nodes-with-label-selector={_FAKE}=fake",
        # Without a lease, nodes are given up after 50 s, and reported ready again by KWOK.
        "--node-lease-duration-seconds=40",
        "--server-address=127.0.0.1:0",
    ]
    with (folder / "kwok.log").open("w") as log, _process(command, log):
        yield


@contextmanager
def _process(
    command: list[str], log: Any, environment: dict[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program until the block ends; it has to last as long."""
    process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _node(number: int) -> dict[str, Any]:
    amounts = {"cpu": "1000", "memory": "10Ti", "pods": "5000"}
    name = f"fake-{number}"
    labels = {_FAKE: "fake", "kubernetes.io/hostname": name}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": {_FAKE: "fake"}},
        "status": {"allocatable": amounts, "capacity": amounts},
    }


class OperatorProcess:
    """One operator, from its start.

    Attributes:
        started: When, by the monotonic clock.
    """

    def __init__(self, process: subprocess.Popen[bytes], address: str) -> None:
        self.started = time.monotonic()
        self._process = process
        self._address = address

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def leads(self) -> bool:
        """Whether it is at work; one that waits for the lease is ready, too."""
        return self._is_ready() and bool(self.metrics()["imagenet_operator_leader"])

    def _is_ready(self) -> bool:
        if not self.is_alive:
            raise SystemExit("the operator has ended by itself; its log says why")
        try:
            with urllib.request.urlopen(f"{self._address}/readyz", timeout=5):
                return True
        except (urllib.error.URLError, OSError):
            return False

    def metrics(self) -> dict[str, float]:
        """Return what it says of itself, series of one name and verb added up."""
        with urllib.request.urlopen(f"{self._address}/metrics", timeout=30) as answer:
            text = answer.read().decode()
        # A series without a count yet is not exported.
        found: dict[str, float] = defaultdict(float)
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                for name in (sample.name, f"{sample.name}/{sample.labels.get('verb', '')}"):
                    found[name] += sample.value
        return found

    def megabytes(self) -> tuple[float, float]:
        """Return its memory now and at most, in MB."""
        lines = Path(f"/proc/{self._process.pid}/status").read_text().splitlines()
        fields = {line.split(":")[0]: line.split()[1] for line in lines if line.endswith(" kB")}
        return int(fields["VmRSS"]) * 1024 / 1e6, int(fields["VmHWM"]) * 1024 / 1e6

    def cpu_seconds(self) -> float:
        """Return the processor time that it has used."""
        # The program's name, in brackets, may contain spaces.
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS


@contextmanager
def operator(made: Cluster, folder: Path, port: int) -> Iterator[OperatorProcess]:
    """Run the operator until the block ends, without the sampler and without waits.

    Args:
        made: The cluster.
        folder: For its log and configuration.
        port: Where it serves its metrics.
    """
    configuration = folder / "configuration.yaml"
    waits = {"delaySeconds": 0, "disruptionDelaySeconds": 0}
    configuration.write_text(yaml.safe_dump({"sampler": {"enabled": False}, "restarts": waits}))
    command = [
        str(Path(sys.executable).with_name("imagenet-operator")),
        f"--configuration={configuration}",
        f"--port={port}",
    ]
    environment = {
        **os.environ,
        "KUBECONFIG": str(made.kubeconfig),
        # As in an image, where pip has compiled what is installed.
        "PYTHONPYCACHEPREFIX": str(folder / "compiled"),
    }
    with (
        (folder / "operator.log").open("a") as log,
        _process(command, log, environment) as process,
    ):
        yield OperatorProcess(process, f"http://127.0.0.1:{port}")


@contextmanager
def scratch() -> Iterator[Path]:
    """Return a folder that is gone at the end."""
    with tempfile.TemporaryDirectory(prefix="imagenet-bench-") as name:
        yield Path(name)
