"""A Horovod job of real processes: a rendezvous, and pods with an own 127.x.y.z address each."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from support import loopback
from support.members import Members
from support.training_cluster import METRICS_PORT, ask, plain_environment

PROGRAMS = Path(sys.executable).parent
RENDEZVOUS = "rendezvous"
PORT = 9091


@dataclass
class HorovodCluster(Members):
    """Starts the rendezvous and the pods.

    Attributes:
        arguments: of the program in every slot.
        pods: how many.
        slots: of each pod.
        environment: of all members.
        of_pod: additional arguments of single pods.
        absent: pods that never come.
        programs: the folder of the environment's programs.
        program: what every slot runs.
    """

    arguments: Sequence[str]
    pods: int = 2
    slots: int = 1
    environment: Mapping[str, str] = field(default_factory=dict)
    of_pod: Mapping[int, Sequence[str]] = field(default_factory=dict)
    absent: Sequence[int] = ()
    programs: Path = PROGRAMS
    program: Sequence[str] = ("imagenet-train", "--kv-store", "horovod")

    def __enter__(self) -> Self:
        self.begin()
        self._network = loopback.network()
        hosts = ",".join(f"pod-{number}:{self.slots}" for number in range(self.pods))
        self._start(RENDEZVOUS, 1, ["imagenet-rendezvous"], IMAGENET_HOROVOD_HOSTS=hosts)
        for number in range(self.pods):
            if number not in self.absent:
                self._start_pod(number)
        return self

    def get(self, name: str, path: str) -> tuple[int, str]:
        """What a member answers over HTTP; (0, "") before it answers at all."""
        return ask(self.host(name), METRICS_PORT, path)

    def host(self, name: str) -> str:
        """A member's address."""
        number = 1 if name == RENDEZVOUS else int(name.rpartition("-")[2]) + 2
        return f"{self._network}.{number}"

    def wait(self, *names: str) -> dict[str, int]:
        """Exit codes of these members, of all pods if none is named; the rendezvous goes on."""
        return super().wait(*(names or [name for name in self.members if name != RENDEZVOUS]))

    def slots_of(self, name: str) -> list[int]:
        """The process ids of a pod's slots, by local rank."""
        pid = self.members[name].pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text()
        return [int(child) for child in children.split()]

    def trainer_of(self, name: str) -> int:
        """The process id of the program that trains in a pod's only slot."""
        (slot,) = self.slots_of(name)
        (trainer,) = Path(f"/proc/{slot}/task/{slot}/children").read_text().split()
        return int(trainer)

    def _start_pod(self, number: int) -> None:
        command = ["imagenet-slots", "--slots", str(self.slots), "--", *self.program]
        command += [*self.arguments, *self.of_pod.get(number, ())]
        variables = {
            "HOROVOD_CONTROLLER": "gloo",
            "HOROVOD_CPU_OPERATIONS": "gloo",
            "HOROVOD_GLOO_RENDEZVOUS_ADDR": f"{self._network}.1",
            "HOROVOD_GLOO_TIMEOUT_SECONDS": "900",
            "HOROVOD_HOSTNAME": f"pod-{number}",
            "HOROVOD_SIZE": str(self.pods * self.slots),
            "HOROVOD_RANK": str(number * self.slots),
            "HOROVOD_LOCAL_SIZE": str(self.slots),
            "HOROVOD_LOCAL_RANK": "0",
            "HOROVOD_CROSS_SIZE": str(self.pods),
            "HOROVOD_CROSS_RANK": str(number),
        }
        self._start(f"pod-{number}", number + 2, command, **variables | dict(self.environment))

    def _start(self, name: str, address: int, command: Sequence[str], **variables: str) -> None:
        environment = plain_environment(
            HOROVOD_GLOO_RENDEZVOUS_PORT=str(PORT),
            POD_IP=f"{self._network}.{address}",
            IMAGENET_ROLE="rendezvous" if name == RENDEZVOUS else "worker",
            IMAGENET_METRICS_PORT=str(METRICS_PORT),
            **variables,
        )
        self.launch(name, [str(self.programs / command[0]), *command[1:]], environment)
