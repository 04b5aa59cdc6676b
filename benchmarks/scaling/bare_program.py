"""The training program without an operator: processes of this machine."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from benchmarks.scaling.jobs import BATCH, ONE_PROCESS, OPTIONS

from imagenet_operator.clusters.local import environments, pods

THREADS = "OMP_NUM_THREADS"


def take_cores(count: int) -> list[int]:
    """Let this process, and all that it starts, have so many cores and share them by themselves.

    Where the environment says how many threads to take, `imagenetctl run` obeys it, and what is
    started without it divides the cores: the two sides would train with different numbers.
    """
    cores = sorted(os.sched_getaffinity(0))[:count]
    if len(cores) < count:
        sys.exit(f"{count} cores are needed, and there is {len(cores)}")
    os.sched_setaffinity(0, cores)
    os.environ.pop(THREADS, None)
    return cores


def command(dataset: Path, epochs: int, framework: str) -> list[str]:
    """The command line of one process, without its output.

    Raises:
        LocalError: the framework is not installed.
    """
    programs = environments.programs(environments.of_framework(framework))
    program = programs.find("imagenet-train", trains=True)
    length = ["--batch-size", str(BATCH), "--num-epochs", str(epochs)]
    options = [*OPTIONS, *ONE_PROCESS[framework].options]
    return [str(program), *options, "--dataset", str(dataset), *length]


def variables(processes: int) -> dict[str, str]:
    """The environment of each of so many processes, which share the cores as workers would."""
    threads = max(1, len(os.sched_getaffinity(0)) // processes)
    return {**pods.inherited(os.environ), THREADS: str(threads)}


class BareProgram:
    """Several copies of the program at the same time.

    Args:
        folder: of all outputs; what was there before is removed.
        command: the command line, without the output.
        cores: to pin each process to.
    """

    def __init__(self, folder: Path, command: Sequence[str], cores: Sequence[int]) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        self._outputs = [folder / str(number) for number in range(len(cores))]
        environment = variables(len(cores))
        self._processes = []
        for core, output in zip(cores, self._outputs, strict=True):
            pinned = ["taskset", "--cpu-list", str(core)]
            output.mkdir(parents=True)
            with (output / "log.txt").open("wb") as log:
                self._processes.append(
                    subprocess.Popen(
                        [*pinned, *command, "--output", str(output)],
                        env=environment,
                        stdout=log,
                        stderr=subprocess.STDOUT,
                    )
                )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End what an interrupted measurement leaves."""
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.wait()

    def lives(self) -> bool:
        """Whether one of them still runs."""
        return any(process.poll() is None for process in self._processes)

    def speed(self) -> float:
        """Images per second of all together, once they have ended."""
        for process, output in zip(self._processes, self._outputs, strict=True):
            if process.wait() != 0:
                sys.exit(f"the bare program failed: see {output / 'log.txt'}")
        return sum(speed_of(output) for output in self._outputs)


def speed_of(output: Path) -> float:
    """The images per second of a program, from its result.json."""
    document = json.loads((output / "attempts" / "r0" / "result.json").read_text())
    return float(document["train"]["imagesPerSecond"])
