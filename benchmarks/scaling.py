"""Measures what a job costs over the program by itself, and two workers over two single processes.

    make bench-training                             # about 15 minutes on 2 cores
    .venv/bin/python benchmarks/scaling.py --runs 1 --epochs 1

Prints Markdown; docs/benchmarks.md holds a run's output. Everything trains resnet-20 on the same
packed images of 32 pixels, with as many images a step for each process, and is run in turn; a
figure is the median of its runs. Speeds are those of result.json, which counts training alone.
Needs two free cores and nothing else on them; all files stay under build/bench/training.
"""

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from imagenet_operator.cli import run
from imagenet_operator.cli.sweep_here import Here
from imagenet_operator.clusters.local.state import JobFolder
from imagenet_operator.scaling import variants
from imagenet_operator.scaling.points import Point

BENCH = Path("build/bench/training").resolve()
CLAIM = "training-dataset"
BATCH = 64
IMAGES_PER_CLASS = 300
PROGRAM = Path(sys.executable).parent / "imagenet-train"
METRICS_PORT = 19095

# As a job's worker has them, in `worker_options` of the job that `point` makes.
OPTIONS = (
    *("--network", "resnet", "--num-layers", "20", "--image-shape", "3,32,32"),
    *("--kv-store", "device", "--data-nthreads", "1", "--lr", "0.1", "--lr-step-epochs", ""),
    *("--warmup-epochs", "0", "--random-crop", "0", "--random-mirror", "1"),
)


def point(strategy: str, workers: int, epochs: int, name: str) -> Point:
    """A job on the images that all share."""
    manifest: dict[str, Any] = {
        "apiVersion": "imagenet.dev/v1alpha1",
        "kind": "ImageNetJob",
        "metadata": {"name": name},
        "spec": {
            "dataset": {
                "source": {
                    "synthetic": {
                        "classes": 10,
                        "imagesPerClass": IMAGES_PER_CLASS,
                        "imageShape": [3, 32, 32],
                    }
                },
                "validation": {"split": {"imagesPerClass": 5}},
                "preprocessing": {"shards": 2, "minImagesPerClass": 1},
                "volume": {"claimName": CLAIM},
            },
            "training": {
                "strategy": {"single": {}},
                "model": {"network": "resnet", "numLayers": 20, "imageShape": [3, 32, 32]},
                "batchSize": BATCH * workers,
                "epochs": epochs,
                "optimizer": {"learningRate": 0.1, "stepEpochs": [], "warmupEpochs": 0},
                "augmentation": {"randomMirror": True},
                "dataThreads": 1,
                "workers": {"replicas": workers},
            },
        },
    }
    return Point(strategy, workers, variants.applied(variants.read(strategy), manifest))


class Bench:
    """Runs jobs and programs on one dataset.

    Args:
        epochs: of each run.
    """

    def __init__(self, epochs: int) -> None:
        self._epochs = epochs
        shutil.rmtree(BENCH / "jobs", ignore_errors=True)
        shutil.rmtree(BENCH / "by-hand", ignore_errors=True)
        (BENCH / "volumes" / CLAIM).mkdir(parents=True, exist_ok=True)
        options = argparse.ArgumentParser()
        run.add_place_options(options)
        place = run.place(options.parse_args(["--workdir", str(BENCH)]))
        self._runner = Here(place, None, "text")
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
        outcome = self._runner.run(wanted)
        if outcome.measured is None or outcome.measured.images_per_second is None:
            sys.exit(outcome.failure or 130)
        return outcome.measured.images_per_second

    def by_hand(self, cores: Sequence[int | None], **environment: str) -> "ByHand":
        """Start the program once for each of these cores, pinned to it; None leaves it free."""
        shutil.rmtree(BENCH / "by-hand", ignore_errors=True)
        command = [str(PROGRAM), *OPTIONS, "--dataset", str(self._dataset)]
        command += ["--batch-size", str(BATCH), "--num-epochs", str(self._epochs)]
        return ByHand(command, cores, environment)


class ByHand:
    """The training program, some times at once.

    Args:
        command: without its output.
        cores: of each process; None leaves it free.
        environment: further variables.
    """

    def __init__(
        self, command: Sequence[str], cores: Sequence[int | None], environment: dict[str, str]
    ) -> None:
        self._outputs = [BENCH / "by-hand" / str(number) for number in range(len(cores))]
        threads = len(os.sched_getaffinity(0)) // len(cores)
        variables = {**os.environ, "OMP_NUM_THREADS": str(threads), **environment}
        self._processes = []
        for core, output in zip(cores, self._outputs, strict=True):
            pinned = [] if core is None else ["taskset", "--cpu-list", str(core)]
            output.mkdir(parents=True)
            with (output / "log.txt").open("wb") as log:
                self._processes.append(
                    subprocess.Popen(
                        [*pinned, *command, "--output", str(output)],
                        env=variables,
                        stdout=log,
                        stderr=subprocess.STDOUT,
                    )
                )

    def lives(self) -> bool:
        """Whether one of them still runs."""
        return any(process.poll() is None for process in self._processes)

    def speed(self) -> float:
        """Images per second of all together, once they have ended."""
        for process, output in zip(self._processes, self._outputs, strict=True):
            if process.wait() != 0:
                sys.exit(f"the program by hand failed: see {output / 'log.txt'}")
        documents = [
            json.loads((output / "attempts" / "r0" / "result.json").read_text())
            for output in self._outputs
        ]
        return float(sum(document["train"]["imagesPerSecond"] for document in documents))


def in_turn(runs: int, ways: dict[str, Callable[[], float]]) -> dict[str, float]:
    """The median of each way's speeds, measured in turn."""
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(runs):
        for name, measure in ways.items():
            found[name].append(measure())
            print(f"{name}: {found[name][-1]:.1f} images/s", file=sys.stderr, flush=True)
    return {name: statistics.median(speeds) for name, speeds in found.items()}


def waiting_share(bench: Bench) -> float:
    """The part of the training steps' time that is spent waiting for data."""
    address = "127.0.0.1"
    processes = bench.by_hand([None], POD_IP=address, IMAGENET_METRICS_PORT=str(METRICS_PORT))
    text = ""
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


def print_comparison(title: str, speeds: dict[str, float], base: str, aim: float) -> None:
    """Prints a table of speeds, each against that of `base`."""
    print(f"\n| {title} | images/s | ratio | aim |\n|---|---:|---:|---|")
    for name, speed in speeds.items():
        aimed = "" if name == base else f"at least {aim:.2f}"
        print(f"| {name} | {speed:,.0f} | {speed / speeds[base]:.3f} | {aimed} |", flush=True)


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description="Measure jobs against the program by hand.")
    parser.add_argument("--runs", type=int, default=3, help="of each way")
    parser.add_argument("--epochs", type=int, default=4, help="of each run")
    parser.add_argument(
        "--strategies", default="parameterServer:dist_sync,horovod:MXNet", help="of two workers"
    )
    parsed = parser.parse_args()
    bench = Bench(parsed.epochs)
    cores = sorted(os.sched_getaffinity(0))
    print(
        f"resnet-20, {10 * (IMAGES_PER_CLASS - 5)} images of 32x32, {BATCH} a step for each "
        f"process, {parsed.epochs} epochs, {len(cores)} cores ({platform.machine()}), median of "
        f"{parsed.runs} runs in turn."
    )
    hand, job = "imagenet-train by hand", "a job under imagenetctl run"
    one = in_turn(
        parsed.runs,
        {hand: lambda: bench.by_hand([None]).speed(), job: lambda: bench.job("single", 1)},
    )
    print_comparison("one process on all cores", one, hand, 0.98)
    print(f"\nWaiting for data takes {waiting_share(bench):.2%} of the steps' time.", flush=True)
    apart = "two processes by hand, each pinned to a core"
    ways: dict[str, Callable[[], float]] = {apart: lambda: bench.by_hand(cores[:2]).speed()}
    for strategy in parsed.strategies.split(","):
        ways[f"two workers, {strategy}"] = lambda strategy=strategy: bench.job(strategy, 2)  # type: ignore[misc]
    print_comparison("two cores", in_turn(parsed.runs, ways), apart, 0.90)


if __name__ == "__main__":
    main()
