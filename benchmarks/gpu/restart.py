"""What checkpoints and a kill cost a training of one process, measured on real processes."""

import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.gpu.stall import Stall, stall
from benchmarks.recovery.parts import figures_of

CHECKPOINTS = 10
"""Checkpoints within an epoch, before the kill."""

_POLL_SECONDS = 0.05
_ADDRESS = "127.0.0.1"
_JOB = {"IMAGENET_JOB_UID": "bench-gpu", "IMAGENET_SPEC_HASH": "bench-gpu"}

_IMPORTS = """
import time
started = time.perf_counter()
import imagenet_workloads.frameworks.pytorch.framework
import torch
imported = time.perf_counter()
torch.zeros(1, device={device!r}).item()
print(imported - started, time.perf_counter() - imported)
"""

RestartParts = dict[str, float]
"""Seconds of each part, in the order of time; they add up to the time from kill to next step."""


class MeasureFailedError(Exception):
    """A program that is measured has failed."""


class Restart:
    """A training that saves checkpoints, is killed and starts again.

    Args:
        command: of imagenet-train, without its output; it must train for longer than it may.
        output: a folder that is made new.
        interval: seconds between two checkpoints.
    """

    def __init__(self, command: Sequence[str], output: Path, interval: float) -> None:
        self._output = output
        self._command = [
            *(*command, "--output", str(output), "--disp-batches", "1", "--checkpoint-keep", "2"),
            *("--checkpoint-every-epochs", "0", "--checkpoint-every-seconds", str(interval)),
        ]
        shutil.rmtree(output, ignore_errors=True)
        output.mkdir(parents=True)

    def measure(self, deadline: float) -> tuple[Stall, RestartParts]:
        """Train, kill after `CHECKPOINTS` checkpoints, and train the next step.

        Args:
            deadline: of `time.monotonic`; the processes are killed then.

        Raises:
            TimeoutError: the time was over before the next step.
        """
        first = self._start(0)
        try:
            self._wait(first, 0, deadline, lambda events: _within_epoch(events) >= CHECKPOINTS)
        finally:
            killed = time.time()
            first.send_signal(signal.SIGKILL)
            first.wait()
        found = stall(self._events(0))
        if found is None:
            raise MeasureFailedError(
                "each step was touched by a checkpoint: write a longer --interval"
            )
        launched = time.time()
        second = self._start(1)
        try:
            self._wait(second, 1, deadline, lambda events: "progress" in _kinds(events))
            figures = self._figures()
        finally:
            second.kill()
            second.wait()
        stepped = next(one["time"] for one in self._events(1) if one["event"] == "progress")
        return found, durations(killed, launched, stepped, figures, found.median)

    def _start(self, attempt: int) -> "subprocess.Popen[bytes]":
        with socket.socket() as free:
            free.bind((_ADDRESS, 0))
            self._port = free.getsockname()[1]
        variables = {
            "IMAGENET_ATTEMPT": str(attempt),
            "IMAGENET_METRICS_PORT": str(self._port),
            "POD_IP": _ADDRESS,
        }
        if attempt:
            # As on another machine: compiled code comes from the job's folder alone.
            variables["TORCHINDUCTOR_CACHE_DIR"] = str((self._output / "inductor").resolve())
        with (self._output / f"r{attempt}.log").open("wb") as log:
            return subprocess.Popen(
                self._command, env={**os.environ, **_JOB, **variables}, stdout=log, stderr=log
            )

    def _wait(
        self, process: "subprocess.Popen[bytes]", attempt: int, deadline: float, is_there: Any
    ) -> None:
        while not is_there(self._events(attempt)):
            if process.poll() is not None:
                log = (self._output / f"r{attempt}.log").read_text()
                raise MeasureFailedError(f"{self._command} ended with {process.returncode}\n{log}")
            if time.monotonic() > deadline:
                raise TimeoutError
            time.sleep(_POLL_SECONDS)

    def _events(self, attempt: int) -> list[dict[str, Any]]:
        path = self._output / "attempts" / f"r{attempt}" / "metrics.jsonl"
        # The last line may be incomplete.
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def _figures(self) -> dict[str, float]:
        with urllib.request.urlopen(
            f"http://{_ADDRESS}:{self._port}/metrics", timeout=10
        ) as answer:
            return figures_of(answer.read().decode())


def durations(
    killed: float, launched: float, stepped: float, figures: Mapping[str, float], step: float
) -> RestartParts:
    """Divide the time from a kill to the next step.

    Args:
        killed: seconds since 1970.
        launched: of the next process, likewise.
        stepped: its first step was trained, likewise.
        figures: the seconds of its phases.
        step: seconds of a usual step, which are what the first one takes without its trace.
    """
    phases = {name: figures.get(name, 0.0) for name in ("starting", "joining", "restoring", "data")}
    first = max(0.0, stepped - launched - sum(phases.values()))
    return {
        "kill": launched - killed,
        "starting": phases["starting"],
        "joining": phases["joining"],
        "loading": phases["restoring"],
        "data": phases["data"],
        "trace": max(0.0, first - step),
        "step": min(step, first),
    }


def of_starting(device: str) -> tuple[float, float]:
    """Return the seconds of importing the program and PyTorch, and of taking the device.

    Measured in a process of its own; median of 3.
    """
    command = [sys.executable, "-c", _IMPORTS.format(device=device)]
    rounds = [[float(one) for one in subprocess.check_output(command).split()] for _ in range(3)]
    imported, taken = (statistics.median(column) for column in zip(*rounds, strict=True))
    return imported, taken


def _kinds(events: Sequence[Mapping[str, Any]]) -> set[str]:
    return {str(one["event"]) for one in events}


def _within_epoch(events: Sequence[Mapping[str, Any]]) -> int:
    return sum(one["event"] == "checkpoint" and bool(one["batch"]) for one in events)
