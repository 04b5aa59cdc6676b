"""The last lines that a failed member wrote to its standard error, in the folder of its attempt.

    OUTPUT/attempts/r0/last-lines/digits-r0-worker-1.txt

`pid1` passes the standard error of its child on, and keeps its end. So the lines outlive the pod,
whose logs the cluster deletes with it. Without an output volume nothing is kept.
"""

import os
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Self

from imagenet_spec.names import ATTEMPTS_FOLDER, IMAGENET_ATTEMPT, IMAGENET_RESULTS, POD_NAME
from imagenet_workloads.process.program import INTERRUPTED, TERMINATED

FOLDER = "last-lines"
LINES = 20
BYTES = 2048

# Seconds to wait for a process that outlives the child and holds the pipe, and for the volume.
_PIPE_TIMEOUT = 1.0
_VOLUME_TIMEOUT = 5.0
_STANDARD_ERROR = 2


class LastLines:
    """Passes the standard error of a child on to that of its parent, and keeps its end."""

    def __init__(self, file: Path) -> None:
        """Make the pipe; `file` gets the lines."""
        self._file, self._end = file, b""
        self._reading, self._writing = os.pipe()

    @classmethod
    def from_environment(cls, variables: Mapping[str, str]) -> Self | None:
        """Return those of a pod; None if it has no output volume or no attempt."""
        names = (IMAGENET_RESULTS, IMAGENET_ATTEMPT, POD_NAME)
        results, attempt, pod = (variables.get(name) for name in names)
        if not (results and attempt and pod):
            return None
        return cls(Path(results) / ATTEMPTS_FOLDER / f"r{attempt}" / FOLDER / f"{pod}.txt")

    def divert(self) -> None:
        """In the child: send the standard error to the parent."""
        os.dup2(self._writing, _STANDARD_ERROR)
        os.close(self._writing)
        os.close(self._reading)

    def begin(self) -> None:
        """In the parent, after the fork: begin to pass on what the child writes."""
        os.close(self._writing)
        self._copier = threading.Thread(target=self._copy, daemon=True)
        self._copier.start()

    def finish(self, code: int) -> None:
        """Pass the rest on after the child's end, and write the file if the child has failed."""
        self._copier.join(_PIPE_TIMEOUT)
        if code in (0, TERMINATED, INTERRUPTED):
            return
        # A volume that hangs must not keep the pod from its end.
        writer = threading.Thread(target=self._write, daemon=True)
        writer.start()
        writer.join(_VOLUME_TIMEOUT)

    def _copy(self) -> None:
        while content := os.read(self._reading, 1 << 16):
            self._end = (self._end + content)[-BYTES:]
            with suppress(OSError):
                while content:
                    content = content[os.write(_STANDARD_ERROR, content) :]

    def _write(self) -> None:
        lines = self._end.decode(errors="ignore").splitlines()[-LINES:]
        with suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            # Of a pod's slots, the first that failed says why.
            with self._file.open("x", encoding="utf-8") as file:
                file.write("".join(f"{line}\n" for line in lines))
