"""A job of DistributedDataParallel as real processes, with one 127.x.y.z address for each pod."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from support import loopback
from support.members import Members
from support.training_cluster import MEMBER_PORT, METRICS_PORT, plain_environment

STRATEGY = ("--framework", "PyTorch", "--distribution-strategy", "distributed_data_parallel")


@dataclass
class DdpProcesses(Members):
    """Starts the pods.

    Attributes:
        arguments: of all processes.
        pods: how many there are.
        slots: processes of each pod.
        present: how many pods, from the first, come by themselves.
        programs: the folder of the environment's programs.
        environment: of all processes.
    """

    arguments: Sequence[str]
    pods: int = 2
    slots: int = 1
    present: int = 2
    programs: Path = Path(sys.executable).parent
    environment: Mapping[str, str] = field(default_factory=dict)

    def __enter__(self) -> Self:
        self.begin()
        self._network = loopback.network()
        for index in range(min(self.present, self.pods)):
            self.start(index)
        return self

    def host(self, index: int) -> str:
        """A pod's address."""
        return f"{self._network}.{index + 1}"

    def start(self, index: int) -> None:
        """Have a pod come."""
        environment = plain_environment(
            MASTER_ADDR=f"{self._network}.1",
            MASTER_PORT=str(MEMBER_PORT),
            RANK=str(index * self.slots),
            WORLD_SIZE=str(self.pods * self.slots),
            LOCAL_RANK="0",
            LOCAL_WORLD_SIZE=str(self.slots),
            POD_IP=self.host(index),
            IMAGENET_METRICS_PORT=str(METRICS_PORT),
            **self.environment,
        )
        command = [str(self.programs / "imagenet-train"), *STRATEGY, *self.arguments]
        if self.slots > 1:
            slots = self.programs / "imagenet-slots"
            command = [str(slots), "--slots", str(self.slots), "--", *command]
        self.launch(f"pod-{index}", command, environment)
