"""The members of a job as real processes, for as long as a block lasts."""

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from support.processes import wait_until


@dataclass
class Members:
    """Processes by name; what still runs at the end of the block is killed.

    Attributes:
        folder: for the members' output.
    """

    folder: Path

    def begin(self) -> None:
        """Start without members."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.members: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        self.begin()
        return self

    def launch(self, name: str, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start a member; all that it says goes into a file of its name."""
        with self._path(name).open("wb") as output:
            self.members[name] = subprocess.Popen(
                command, env=environment, stdout=output, stderr=subprocess.STDOUT
            )

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
        return self._path(name).read_text(errors="replace")

    def process(self, name: str) -> int:
        """The process that works in a member without slots, whose first process is its init."""
        init = self.members[name].pid
        (child,) = Path(f"/proc/{init}/task/{init}/children").read_text().split()
        return int(child)

    def wait(self, *names: str) -> dict[str, int]:
        """Exit codes of these members (all of them, if none is named), when they have ended."""
        wanted = names or tuple(self.members)
        for name in wanted:
            wait_until(lambda name=name: self.members[name].poll() is not None, f"{name} ends")  # type: ignore[misc]
        return {name: self.members[name].wait() for name in wanted}

    def wait_for_line(self, name: str, text: str) -> None:
        wait_until(lambda: text in self.output(name), f"{name} says {text!r}")

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.txt"
