"""A local cluster in a temporary folder, its time and its processes, for tests."""

import os
from collections.abc import Mapping
from pathlib import Path

from imagenet_operator.clusters.local import environments
from imagenet_operator.clusters.local.cluster import LocalCluster
from imagenet_operator.clusters.local.machine import Gpus, Machine, Volumes, claim_addresses
from imagenet_operator.reconcile.types import Event, Manifest
from imagenet_spec.resource import ImageNetJob
from support import job_table
from support.cluster_driver import ClusterDriver
from support.processes import processes_with, wait_until


class LocalDriver(ClusterDriver):
    """A local cluster under test."""

    def __init__(
        self,
        folder: Path,
        *,
        gpus: tuple[str, ...] = (),
        mapped: Mapping[str, Path] | None = None,
        slots: int = 8,
    ) -> None:
        super().__init__()
        self.image = "the-workloads"
        self.job = ImageNetJob.model_validate(job_table.manifest())
        self.folder = folder
        self.saved: list[Manifest] = []
        self.told: list[Event] = []
        self.block = claim_addresses()
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
        self.local = LocalCluster(
            machine, self.saved.append, lambda _, event: self.told.append(event), self.note_change
        )
        self.cluster = self.local
        self.start(self.local.run())

    def stored_status(self) -> Manifest:
        """The status that was saved last."""
        return dict(self.saved[-1]["status"])

    def recorded_events(self) -> list[tuple[str, str, str]]:
        """Type, reason and message of each event that was shown."""
        return [(event.type, event.reason, event.message) for event in self.told]

    def log(self, pod: str) -> str:
        """What a pod has printed."""
        return (self.folder / "logs" / f"{pod}.log").read_text()

    def wait_for_trap(self, name: str) -> None:
        """Wait for the line that the pod prints after its trap."""
        wait_until(lambda: "ready" in self.log(name), f"{name} ignores SIGTERM")

    def close(self) -> None:
        """End every process; afterwards none may be left."""
        super().close()
        self.local.close()
        self.block.close()
        assert processes_with(str(self.folder)) == []
