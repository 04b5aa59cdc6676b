"""On this machine: jobs under `imagenetctl run`, and the bare program, on the same cores."""

import argparse
import itertools
import os
import shutil
import statistics
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.scaling.bare_program import BareProgram, command
from benchmarks.scaling.jobs import CLAIM, point
from benchmarks.scaling.speeds import in_pairs, in_turn, table

from imagenet_operator.cli import local_resources
from imagenet_operator.cli.local_resources import LocalResources
from imagenet_operator.cli.sweep_here import Here
from imagenet_operator.clusters.local.state import JobFolder

BENCH = Path("build/bench/training").resolve()
METRICS_PORT = 19095
BARE, JOB = "imagenet-train", "a job under imagenetctl run"


def resources(workdir: Path) -> LocalResources:
    """This machine, as `imagenetctl run --workdir` uses it."""
    options = argparse.ArgumentParser()
    local_resources.add_options(options)
    return local_resources.from_options(options.parse_args(["--workdir", str(workdir)]))


class Bench:
    """Runs jobs, and the bare program on the dataset of a job with one worker.

    Args:
        epochs: of each run.
    """

    def __init__(self, epochs: int) -> None:
        self._epochs = epochs
        # What a run before this one has trained would be gone on with; the dataset may stay.
        for left in (BENCH / "jobs", BENCH / "volumes" / CLAIM / "jobs"):
            shutil.rmtree(left, ignore_errors=True)
        (BENCH / "volumes" / CLAIM).mkdir(parents=True, exist_ok=True)
        self._jobs = 0
        self.job("single", 1, epochs=1)
        stored = JobFolder(BENCH, "bench-1").stored()
        assert stored is not None
        key = stored["status"]["dataset"]["key"]
        self._dataset = BENCH / "volumes" / CLAIM / "datasets" / key

    def job(self, strategy: str, workers: int, epochs: int | None = None) -> float:
        """The images per second of a job under `imagenetctl run`."""
        self._jobs += 1
        wanted = point(strategy, workers, epochs or self._epochs, f"bench-{self._jobs}")
        # Created for each run: a job has as many threads as there are cores now.
        outcome = Here(resources(BENCH), None, "text").run(wanted)
        if outcome.measured is None or outcome.measured.images_per_second is None:
            sys.exit(outcome.failure or 130)
        return outcome.measured.images_per_second

    def bare(self, cores: Sequence[int | None], **variables: str) -> BareProgram:
        """Start the program once for each of these cores, pinned to it; None leaves it free."""
        words = command(self._dataset, self._epochs)
        return BareProgram(BENCH / "bare", words, cores, **variables)

    def bare_speed(self, cores: Sequence[int | None]) -> float:
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
                of_job = self.job("single", 1)
                return process.speed(), of_job
        finally:
            os.sched_setaffinity(0, cores)


def compare(runs: int, epochs: int, strategies: Sequence[str], cores: Sequence[int]) -> None:
    """Measure and print.

    Args:
        runs: of each way.
        epochs: of each run.
        strategies: of two workers.
        cores: the two that this process has.
    """
    bench = Bench(epochs)
    one = in_pairs(runs, (BARE, JOB), lambda: bench.side_by_side(cores))
    print(table("one process on a core", one, BARE, 0.98))
    print(f"\nWaiting for data takes {waiting_share(bench):.2%} of the steps' time.", flush=True)
    apart = "two independent processes, each pinned to a core"
    measurements: dict[str, Callable[[], float]] = {apart: lambda: bench.bare_speed(cores)}
    for strategy in strategies:
        measurements[f"two workers, {strategy}"] = lambda strategy=strategy: bench.job(strategy, 2)  # type: ignore[misc]
    print(table("two at once", in_turn(runs, measurements), apart, 0.90))


def waiting_share(bench: Bench) -> float:
    """The part of the training steps' time that is spent waiting for data."""
    address = "127.0.0.1"
    served = {"POD_IP": address, "IMAGENET_METRICS_PORT": str(METRICS_PORT)}
    text = ""
    with bench.bare([None], **served) as processes:
        while processes.lives():
            try:
                with urllib.request.urlopen(f"http://{address}:{METRICS_PORT}/metrics") as answer:
                    text = answer.read().decode()
            except (urllib.error.URLError, ConnectionError):
                pass  # not yet, or no more
            time.sleep(0.5)
        processes.speed()
    waited, stepped = (
        total(text, f"imagenet_train_{name}_seconds_sum") for name in ("data_wait", "step")
    )
    return waited / stepped


def total(text: str, series: str) -> float:
    """The sum of a metric's values in what a program serves."""
    return sum(
        float(line.rpartition(" ")[2])
        for line in text.splitlines()
        if line.startswith((f"{series}{{", f"{series} "))
    )
