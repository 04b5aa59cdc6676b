"""On this machine: jobs under `imagenetctl run`, and the bare program, on the same cores."""

import argparse
import itertools
import json
import os
import shutil
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.scaling.bare_program import BareProgram, command
from benchmarks.scaling.jobs import CLAIM, ONE_PROCESS, by_framework, point
from benchmarks.scaling.speeds import in_pairs, in_turn, table

from imagenet_operator.cli import local_resources
from imagenet_operator.cli.local_resources import LocalResources
from imagenet_operator.cli.sweep import Here
from imagenet_operator.clusters.local.state import JobFolder

BENCH = Path("build/bench/training").resolve()
BARE, JOB = "imagenet-train", "a job under imagenetctl run"
AIM, AIMS = 0.90, {"distributedDataParallel": 0.93}


def resources(workdir: Path) -> LocalResources:
    """This machine, as `imagenetctl run --workdir` uses it."""
    options = argparse.ArgumentParser()
    local_resources.add_options(options)
    return local_resources.from_options(options.parse_args(["--workdir", str(workdir)]))


class Bench:
    """Runs jobs, and the bare program on the dataset of a job with one worker.

    Args:
        epochs: of each run.
        framework: of the bare program.

    Attributes:
        waiting: of the jobs by strategy, the part of the steps' time that they waited for data.
    """

    def __init__(self, epochs: int, framework: str) -> None:
        self._epochs = epochs
        self._strategy = ONE_PROCESS[framework].strategy
        self.waiting: dict[str, list[float]] = {}
        # What a run before this one has trained would be gone on with; the dataset may stay.
        for left in (BENCH / "jobs", BENCH / "volumes" / CLAIM / "jobs"):
            shutil.rmtree(left, ignore_errors=True)
        (BENCH / "volumes" / CLAIM).mkdir(parents=True, exist_ok=True)
        self._jobs = 0
        self.job(self._strategy, 1, epochs=1)
        stored = JobFolder(BENCH, "bench-1").stored()
        assert stored is not None
        key = stored["status"]["dataset"]["key"]
        # That job was shorter than those that are measured.
        self.waiting.clear()
        dataset = BENCH / "volumes" / CLAIM / "datasets" / key
        self._command = command(dataset, epochs, framework)

    def job(self, strategy: str, workers: int, epochs: int | None = None) -> float:
        """The images per second of a job under `imagenetctl run`."""
        self._jobs += 1
        wanted = point(strategy, workers, epochs or self._epochs, f"bench-{self._jobs}")
        # Created for each run: a job has as many threads as there are cores now.
        outcome = Here(resources(BENCH), None, "text").run(wanted)
        if outcome.measured is None or outcome.measured.images_per_second is None:
            sys.exit(outcome.failure or 130)
        result = JobFolder(BENCH, wanted.name).path / "model" / "result.json"
        share = waiting_share(json.loads(result.read_text()))
        self.waiting.setdefault(strategy, []).append(share)
        return outcome.measured.images_per_second

    def bare(self, cores: Sequence[int]) -> BareProgram:
        """Start the program once for each of these cores, pinned to it."""
        return BareProgram(BENCH / "bare", self._command, cores)

    def bare_speed(self, cores: Sequence[int]) -> float:
        """The images per second of the program, started once for each of these cores."""
        with self.bare(cores) as processes:
            return processes.speed()

    def side_by_side(self, cores: Sequence[int]) -> tuple[float, float]:
        """The images per second of the bare program and of a job, each on one core.

        Both run at the same time, so a slow machine slows both. A second run exchanges the cores,
        because one core may be busier.
        """
        pairs = [self._at_once(*order) for order in itertools.permutations(cores, 2)]
        bare, of_job = (statistics.mean(speeds) for speeds in zip(*pairs, strict=True))
        return bare, of_job

    def _at_once(self, bare_core: int, job_core: int) -> tuple[float, float]:
        cores = os.sched_getaffinity(0)
        # All that belongs to the job runs there, `imagenetctl run` too.
        os.sched_setaffinity(0, {job_core})
        try:
            with self.bare([bare_core]) as process:
                of_job = self.job(self._strategy, 1)
                return process.speed(), of_job
        finally:
            os.sched_setaffinity(0, cores)


def compare(runs: int, epochs: int, strategies: Sequence[str], cores: Sequence[int]) -> None:
    """Measure and print, once for each framework.

    Args:
        runs: of each way.
        epochs: of each run.
        strategies: of two workers.
        cores: the two that this process has.
    """
    for framework, of_framework in by_framework(strategies).items():
        bench = Bench(epochs, framework)
        one = in_pairs(runs, (BARE, JOB), partial(bench.side_by_side, cores))
        print(table(f"one process of {framework} on a core", one, BARE, {JOB: 0.98}), flush=True)
        print(of_two_workers(bench, runs, of_framework, cores))
        for strategy, shares in bench.waiting.items():
            share = statistics.median(shares)
            print(f"\n{strategy}: {share:.2%} of the steps' time is waiting for data, aim 2 %.")


def of_two_workers(bench: Bench, runs: int, strategies: Sequence[str], cores: Sequence[int]) -> str:
    """The table of jobs with two workers."""
    apart = "two independent processes, each pinned to a core"
    measurements: dict[str, Callable[[], float]] = {apart: lambda: bench.bare_speed(cores)}
    for strategy in strategies:
        measurements[f"two workers, {strategy}"] = partial(bench.job, strategy, 2)
    aims = {f"two workers, {strategy}": AIMS.get(strategy, AIM) for strategy in strategies}
    return table("two at once", in_turn(runs, measurements), apart, aims)


def waiting_share(result: Mapping[str, Any]) -> float:
    """The part of the training steps' time that rank 0 has waited for data, from result.json."""
    phases = result["time"]["phases"]
    return float(phases["data"] / (phases["data"] + phases["stepping"]))
