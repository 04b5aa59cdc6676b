"""A job of workers that TF_CONFIG lists, as real processes."""

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from support.processes import wait_until
from support.training_cluster import PROGRAM, free_port, plain_environment

STRATEGY = ("--framework", "TensorFlow", "--distribution-strategy", "multi_worker_mirrored")


@dataclass
class ListedWorkers:
    """Starts the workers; what still runs at the end of the block is killed.

    Attributes:
        folder: for the workers' output.
        arguments: of all of them.
        workers: how many are listed.
        present: how many of them, from the first, come.
    """

    folder: Path
    arguments: Sequence[str]
    workers: int = 2
    present: int = 2

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        listed = [f"127.0.0.1:{free_port()}" for _ in range(self.workers)]
        self.members: dict[str, subprocess.Popen[bytes]] = {}
        for index in range(self.present):
            task = {"type": "worker", "index": index}
            config = json.dumps({"cluster": {"worker": listed}, "task": task})
            with (self.folder / f"worker-{index}.txt").open("wb") as output:
                self.members[f"worker-{index}"] = subprocess.Popen(
                    [str(PROGRAM), *STRATEGY, *self.arguments],
                    env=plain_environment(TF_CONFIG=config),
                    stdout=output,
                    stderr=subprocess.STDOUT,
                )
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

    def wait(self, *names: str) -> dict[str, int]:
        """Exit codes of these workers (all of them, if none is named), when they have ended."""
        wanted = names or tuple(self.members)
        for name in wanted:
            wait_until(lambda name=name: self.members[name].poll() is not None, f"{name} ends")  # type: ignore[misc]
        return {name: self.members[name].wait() for name in wanted}

    def wait_for_line(self, name: str, text: str) -> None:
        wait_until(lambda: text in self.output(name), f"{name} says {text!r}")
