"""A local cluster in a temporary folder, its time and its processes, for tests."""

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from imagenet_operator.api import ImageNetJob
from imagenet_operator.clusters.local import addresses, environments
from imagenet_operator.clusters.local.cluster import LocalCluster
from imagenet_operator.clusters.local.gpus import Gpus
from imagenet_operator.clusters.local.kubelet import Machine
from imagenet_operator.clusters.local.volumes import Volumes
from imagenet_operator.reconcile.types import Event, Manifest
from support import job_table
from support.processes import DEADLINE_SECONDS, processes_with


class LocalDriver:
    """A local cluster under test."""

    def __init__(
        self,
        folder: Path,
        *,
        gpus: tuple[str, ...] = (),
        mapped: Mapping[str, Path] | None = None,
        slots: int = 8,
    ) -> None:
        self.image = "the-workloads"
        self.job = ImageNetJob.model_validate(job_table.manifest())
        self.folder = folder
        self.saved: list[Manifest] = []
        self.told: list[Event] = []
        self.block = addresses.claim()
        for name in ("logs", "scratch"):
            (folder / name).mkdir(exist_ok=True)
        machine = Machine(
            volumes=Volumes(folder / "volumes", mapped or {}),
            addresses=self.block,
            gpus=Gpus(gpus),
            programs=environments.programs(),
            environment={"PATH": os.environ["PATH"], "IMAGENET_TEST_MARK": str(folder)},
            images=frozenset({self.image}),
            logs=folder / "logs",
            scratch=folder / "scratch",
            slots=slots,
        )
        self.cluster = LocalCluster(machine, self.saved.append, self.told.append)

    def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        """Let the cluster go on until a condition holds."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not condition():
            assert time.monotonic() < deadline, f"never happened: {what}"
            self.cluster.wait(deadline - time.monotonic())

    def log(self, pod: str) -> str:
        """What a pod has printed."""
        return (self.folder / "logs" / f"{pod}.log").read_text()

    def close(self) -> None:
        """End every process; afterwards none may be left."""
        self.cluster.close()
        self.block.close()
        assert processes_with(str(self.folder)) == []
