"""The process beside rank 0 that sends its events: `imagenet-track`.

`pid1` and `slots` start it, and nothing that it does reaches training: it has its own interpreter,
the lowest priority, and no pipe to the others. Its death is ignored. After a training that
succeeded it has some seconds to send the rest; in any other case it is killed at once, because the
process of the next attempt reads the same logs.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Self

from imagenet_spec.names import IMAGENET_TRACKING
from imagenet_workloads.process import parent_death_signal

FLUSH_SECONDS = 30.0
"""How long it may run after the training."""
_MODULE = "imagenet_workloads.commands.track"
_LOWEST_PRIORITY = 19


class SideProcess:
    """The process, once it is started. All calls are those of the thread that reaps processes."""

    def __init__(self, command: Sequence[str], variables: Mapping[str, str]) -> None:
        """Start it; where that fails, training goes on without."""
        wrapper = [sys.executable, "-m", parent_death_signal.__name__, str(os.getpid())]
        self._process = 0
        # A ValueError is of an argument that no process can have, with a zero byte.
        with suppress(OSError, ValueError):
            # A training may be over before the program listens; it then finds the signal waiting.
            self._process = os.posix_spawn(
                sys.executable, [*wrapper, *command], variables, setsigmask=[signal.SIGTERM]
            )
            os.setpriority(os.PRIO_PROCESS, self._process, _LOWEST_PRIORITY)

    @classmethod
    def from_environment(cls, variables: Mapping[str, str]) -> Self | None:
        text = variables.get(IMAGENET_TRACKING)
        try:
            arguments = json.loads(text) if text else None
        except ValueError:
            arguments = None
        if not isinstance(arguments, list):
            return None
        return cls([sys.executable, "-m", _MODULE, *map(str, arguments)], variables)

    def reaped(self, process: int) -> None:
        """Take in that a process has ended, whose id may be used again."""
        if process == self._process:
            self._process = 0

    def kill(self) -> None:
        self._send(signal.SIGKILL)

    def finish(self, waited: set[signal.Signals]) -> None:
        """Let it send the rest, for a limited time or until this process is to end.

        `waited` are the signals that this thread waits for, SIGCHLD among them.
        """
        self._send(signal.SIGTERM)
        deadline = time.monotonic() + FLUSH_SECONDS
        while self._process:
            found = signal.sigtimedwait(waited, max(deadline - time.monotonic(), 0))
            if found is None or found.si_signo != signal.SIGCHLD:
                break
            with suppress(ChildProcessError):
                while ended := os.waitpid(-1, os.WNOHANG)[0]:
                    self.reaped(ended)
        self.kill()

    def _send(self, number: signal.Signals) -> None:
        if self._process:
            with suppress(ProcessLookupError):
                os.kill(self._process, number)
