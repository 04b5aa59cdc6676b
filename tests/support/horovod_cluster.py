"""A Horovod job of real processes: a rendezvous, and pods with an own 127.x.y.z address each."""

import secrets
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from support.processes import wait_until
from support.training_cluster import METRICS_PORT, ask, plain_environment

PROGRAMS = Path(sys.executable).parent
RENDEZVOUS = "rendezvous"
PORT = 9091


@dataclass
class HorovodCluster:
    """Starts the rendezvous and the pods; what still runs at the end of the block is killed.

    Attributes:
        folder: for the members' output.
        arguments: of `imagenet-train` in every slot.
        pods: how many.
        slots: of each pod.
        environment: of all members.
        of_pod: additional arguments of single pods.
        absent: pods that never come.
        programs: the folder of the environment's programs.
    """

    folder: Path
    arguments: Sequence[str]
    pods: int = 2
    slots: int = 1
    environment: Mapping[str, str] = field(default_factory=dict)
    of_pod: Mapping[int, Sequence[str]] = field(default_factory=dict)
    absent: Sequence[int] = ()
    programs: Path = PROGRAMS

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._network = f"127.{secrets.randbelow(40) + 20}.{secrets.randbelow(255)}"
        self.members: dict[str, subprocess.Popen[bytes]] = {}
        hosts = ",".join(f"pod-{number}:{self.slots}" for number in range(self.pods))
        self._start(RENDEZVOUS, 1, ["imagenet-rendezvous"], IMAGENET_HOROVOD_HOSTS=hosts)
        for number in range(self.pods):
            if number not in self.absent:
                self._start_pod(number)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for member in self.members.values():
            member.kill()
            member.wait()

    def output(self, name: str) -> str:
        return (self.folder / f"{name}.txt").read_text(errors="replace")

    def get(self, name: str, path: str) -> tuple[int, str]:
        """What a member answers over HTTP; (0, "") before it answers at all."""
        number = 1 if name == RENDEZVOUS else int(name.rpartition("-")[2]) + 2
        return ask(f"{self._network}.{number}", METRICS_PORT, path)

    def wait(self, *names: str) -> dict[str, int]:
        """Exit codes of these members (all pods, if none is named), when they have ended."""
        wanted = names or tuple(name for name in self.members if name != RENDEZVOUS)
        for name in wanted:
            wait_until(lambda name=name: self.members[name].poll() is not None, f"{name} ends")  # type: ignore[misc]
        return {name: self.members[name].wait() for name in wanted}

    def wait_for_line(self, name: str, text: str) -> None:
        wait_until(lambda: text in self.output(name), f"{name} says {text!r}")

    def slots_of(self, name: str) -> list[int]:
        """The process ids of a pod's slots, by local rank."""
        pid = self.members[name].pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text()
        return [int(child) for child in children.split()]

    def _start_pod(self, number: int) -> None:
        command = ["imagenet-slots", "--slots", str(self.slots), "--", "imagenet-train"]
        command += ["--kv-store", "horovod", *self.arguments, *self.of_pod.get(number, ())]
        variables = {
            "HOROVOD_CONTROLLER": "gloo",
            "HOROVOD_CPU_OPERATIONS": "gloo",
            "HOROVOD_GLOO_RENDEZVOUS_ADDR": f"{self._network}.1",
            "HOROVOD_GLOO_TIMEOUT_SECONDS": "600",
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
        with (self.folder / f"{name}.txt").open("wb") as output:
            self.members[name] = subprocess.Popen(
                [str(self.programs / command[0]), *command[1:]],
                env=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
