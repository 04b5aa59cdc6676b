"""Measures whether every strategy learns as well as one process: accuracies over several seeds.

    make fidelity                                   # 20 minutes on 2 cores, if idle
    .venv/bin/python benchmarks/fidelity.py --strategies parameterServer --report -

Trains the handwritten digits of examples/digits.yaml with each strategy and several seeds, the
same data, global batch and epochs, by the same code as `imagenetctl run`; two series are killed in
the middle and resumed. Trainings are jobs under build/fidelity: typed again, the command goes on
where it was, and reads what is done. Writes docs/fidelity.md, and exits 1 if a synchronous
strategy is further than two standard errors from the single process.
"""

import argparse
import math
import os
import shlex
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import sleep
from typing import Any

import yaml

from imagenet_operator.cli import local_resources
from imagenet_operator.cli.sweep import Here, Outcome
from imagenet_operator.clusters.local.state import JobFolder
from imagenet_operator.manifests import names
from imagenet_operator.scaling import variants
from imagenet_operator.scaling.points import Point, Size, fitting_name

ROOT = Path(__file__).resolve().parents[1]
WORKDIR = ROOT / "build" / "fidelity"
PAGE = ROOT / "docs" / "fidelity.md"
EXAMPLE = ROOT / "examples" / "digits.yaml"
CLAIM = "fidelity-dataset"
# Of each of the 9 classes; more than in the example: an accuracy is as coarse as they are few.
VALIDATION = 50

# Divides the CPU of a process that imports TensorFlow, and prints a line.
TWO_DEVICES = ROOT / "benchmarks" / "two_devices"
SAID_OF_DEVICES = "TensorFlow has 2 devices"

OTHER_SECTION = "## CIFAR-10 on a GPU"
"""The heading of what follows in the page, which `fidelity_gpu` measures."""

SINGLE = "single"
MIRRORED = "mirrored:TensorFlow"
SINGLE_PYTORCH = "single:PyTorch"
KILLED = ", killed and resumed"
ASYNCHRONOUS = "parameterServer:dist_async"
OTHERS = (
    "parameterServer:dist_sync",
    "parameterServer:dist_device_sync",
    "horovod:MXNet",
    "horovod:TensorFlow",
    MIRRORED,
    "multiWorkerMirrored:TensorFlow",
    SINGLE_PYTORCH,
    "distributedDataParallel:PyTorch",
    f"parameterServer:dist_sync{KILLED}",
    f"distributedDataParallel:PyTorch{KILLED}",
    ASYNCHRONOUS,
)
ONE_WORKER = (SINGLE, SINGLE_PYTORCH, MIRRORED)


@dataclass(frozen=True)
class Series:
    """The accuracies of one strategy, a seed each.

    Attributes:
        name: the strategy's.
        accuracies: top-1 on the validation images.
    """

    name: str
    accuracies: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Over the seeds."""
        return statistics.fmean(self.accuracies)

    @property
    def error(self) -> float:
        """The standard error of the mean."""
        return statistics.stdev(self.accuracies) / math.sqrt(len(self.accuracies))


@dataclass(frozen=True)
class Comparison:
    """A strategy beside the single process.

    Attributes:
        series: the strategy's accuracies.
        difference: of its mean to the single process's.
        error: the standard error of that difference.
    """

    series: Series
    difference: float
    error: float

    @property
    def agrees(self) -> bool:
        """Whether the means are within two standard errors of each other."""
        # Where all runs agree to the last image, the difference of equal means may be 1e-17.
        return abs(self.difference) <= 2 * self.error + 1e-9


def compare(single: Series, other: Series) -> Comparison:
    """Compares the means of two series, whose errors are independent."""
    return Comparison(other, other.mean - single.mean, math.hypot(other.error, single.error))


def point(name: str, seed: int) -> Point:
    """The job of one training."""
    variant = variants.read(name.removesuffix(KILLED))
    manifest: dict[str, Any] = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))
    manifest = variants.applied(variant, manifest)
    workers = workers_of(name)
    dataset, training = manifest["spec"]["dataset"], manifest["spec"]["training"]
    tail = f"-killed-s{seed}" if name.endswith(KILLED) else f"-s{seed}"
    return Point(
        name,
        Size(workers["replicas"]),
        manifest
        | {
            "metadata": {"name": fitting_name(variant.slug, tail, f"-{{digest}}{tail}")},
            "spec": {
                "dataset": dataset
                | {
                    "validation": {"split": {"imagesPerClass": VALIDATION}},
                    "volume": {"claimName": CLAIM},
                },
                "training": training | {"workers": workers, "extraArgs": ["--seed", str(seed)]},
            },
        },
    )


def workers_of(name: str) -> dict[str, Any]:
    """The workers of a series; with one device, MirroredStrategy would have nothing to add up."""
    if name != MIRRORED:
        return {"replicas": 1 if name in ONE_WORKER else 2}
    variable = {"name": "PYTHONPATH", "value": str(TWO_DEVICES)}
    container = {"name": names.CONTAINER, "env": [variable]}
    return {"replicas": 1, "template": {"spec": {"containers": [container]}}}


def train(runner: Here, wanted: Point) -> float:
    """The accuracy of one training, which runs unless it is done; the program ends if it fails."""
    if wanted.strategy.endswith(KILLED):
        kill_in_the_middle(wanted)
    outcome: Outcome = runner.run(wanted)
    if outcome.measured is None or outcome.measured.top1 is None:
        sys.exit(outcome.failure or 130)
    if wanted.strategy.endswith(KILLED):
        check_that_it_was_killed(wanted)
    if wanted.strategy == MIRRORED:
        check_that_it_had_two_devices(wanted)
    return outcome.measured.top1


def kill_in_the_middle(wanted: Point) -> None:
    """Runs a job that is new until half of its epochs are saved, and kills it then."""
    if JobFolder(WORKDIR, wanted.name).stored() is not None:
        return
    half = wanted.manifest["spec"]["training"]["epochs"] // 2
    manifest = WORKDIR / f"{wanted.name}.yaml"
    manifest.write_text(yaml.safe_dump(wanted.manifest), encoding="utf-8")
    program = Path(sys.executable).parent / "imagenetctl"
    pattern = f"volumes/{CLAIM}/jobs/{wanted.name}-*/attempts/r0/checkpoints/epoch-{half:04}-*"
    with subprocess.Popen([program, "run", manifest, "--workdir", WORKDIR]) as process:
        while process.poll() is None and not any(WORKDIR.glob(pattern)):
            sleep(0.05)
        process.kill()


def check_that_it_was_killed(done: Point) -> None:
    """Ends the program if a training was over before it was killed."""
    stored = JobFolder(WORKDIR, done.name).stored()
    if stored is None or not stored["status"].get("disruptions"):
        sys.exit(f"{done.name} was not killed in time: remove {WORKDIR / 'jobs' / done.name}")


def check_that_it_had_two_devices(done: Point) -> None:
    """Ends the program if a training's worker did not print that line."""
    log = JobFolder(WORKDIR, done.name).logs / f"{done.name}-r0-worker-0.log"
    if SAID_OF_DEVICES not in log.read_text(encoding="utf-8", errors="replace"):
        sys.exit(f"{done.name} had one device: {log} does not say {SAID_OF_DEVICES!r}")


def measure(series: Sequence[str], seeds: int, single_seeds: int) -> Iterator[Series]:
    """Trains what has not been trained, and gives each strategy's accuracies."""
    archive = WORKDIR / "volumes" / "raw" / "digits.tar"
    if not archive.is_file():
        make = [sys.executable, "-m", "imagenet_workloads.commands.digits", str(archive)]
        subprocess.run(make, check=True)
    options = argparse.ArgumentParser()
    local_resources.add_options(options)
    resources = local_resources.from_options(options.parse_args(["--workdir", str(WORKDIR)]))
    runner = Here(resources, CLAIM, "text")
    wanted = {
        name: [point(name, seed) for seed in range(single_seeds if name == SINGLE else seeds)]
        for name in (SINGLE, *series)
    }
    runner.get_ready([item for points in wanted.values() for item in points])
    for name, points in wanted.items():
        accuracies = []
        for item in points:
            print(f"\n{item} ({item.name})", file=sys.stderr, flush=True)
            accuracies.append(train(runner, item))
        yield Series(name, tuple(accuracies))


INTRODUCTION = """# Fidelity
Every synchronous strategy reaches the accuracy of a single process. This command wrote the page:
```
{command}
```
It trains the handwritten digits of [examples/digits.yaml](../examples/digits.yaml) for {epochs}
epochs with a global batch of {batch}, once for each seed. The accuracy is top-1 on {images}
validation images. Distributed strategies have 2 workers; mirrored has one worker with 2 devices.

| strategy | seeds | top-1, mean | standard error | to single | 2 standard errors | verdict |
|---|---:|---:|---:|---:|---:|---|
"""

NOTES = """
*2 standard errors* are those of the difference of the two means. If all strategies were equal,
about one comparison in twenty would still exceed this bound, and more with few seeds.

- *mirrored* copies the network to every device of its worker. Without GPUs, the CPU was divided
  into two devices ([benchmarks/two_devices](../benchmarks/two_devices/sitecustomize.py)), each with
  half of every batch.
- *killed and resumed*: `imagenetctl` and all its processes are killed after half of the epochs. The
  same command then resumes from the checkpoint.
- *dist_async* is not expected to agree. Each worker updates the weights with its half of the batch,
  by gradients of older weights.

## Every run
| strategy | top-1 by seed, from 0 |
|---|---|
"""


def report(single: Series, comparisons: Sequence[Comparison], command: str) -> str:
    """The page, headed by the command that writes it."""
    training = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))["spec"]["training"]
    page = INTRODUCTION.format(
        command=command,
        epochs=training["epochs"],
        batch=training["batchSize"],
        images=9 * VALIDATION,
    )
    page += (
        f"| {SINGLE} | {len(single.accuracies)} | {single.mean:.4f} | {single.error:.4f} | | | |\n"
    )
    for item in comparisons:
        page += (
            f"| {item.series.name} | {len(item.series.accuracies)} | {item.series.mean:.4f} "
            f"| {item.series.error:.4f} | {item.difference:+.4f} | {2 * item.error:.4f} "
            f"| {verdict(item)} |\n"
        )
    page += NOTES
    for series in (single, *(item.series for item in comparisons)):
        figures = ", ".join(f"{accuracy:.4f}" for accuracy in series.accuracies)
        page += f"| {series.name} | {figures} |\n"
    return page


def with_other_section(page: str, former: str) -> str:
    """The page with the section that `fidelity_gpu` writes, from the former page.

    Args:
        page: the new one, without that section.
        former: the one that it replaces.
    """
    _, heading, section = former.partition(f"\n{OTHER_SECTION}\n")
    return f"{page}{heading}{section}"


def verdict(comparison: Comparison) -> str:
    """A comparison in words."""
    if comparison.agrees:
        return "within"
    if comparison.series.name == ASYNCHRONOUS:
        return "outside, as expected"
    return "**outside**"


def main() -> int:
    """Measures and reports; returns the exit code."""
    parser = argparse.ArgumentParser(description="Compare what strategies learn, over seeds.")
    parser.add_argument("--seeds", type=int, default=3, help="of each strategy")
    parser.add_argument("--single-seeds", type=int, default=5, help="of the single process")
    parser.add_argument("--strategies", default=";".join(OTHERS), help="with ; between them")
    parser.add_argument("--report", default=str(PAGE), help="the page to write, or - to print it")
    parsed = parser.parse_args()
    single, *others = measure(parsed.strategies.split(";"), parsed.seeds, parsed.single_seeds)
    comparisons = [compare(single, other) for other in others]
    by_hand = shlex.join([".venv/bin/python", "benchmarks/fidelity.py", *sys.argv[1:]])
    page = report(single, comparisons, by_hand if sys.argv[1:] else "make fidelity")
    if parsed.report == "-":
        print(page)
    else:
        path = Path(parsed.report)
        former = path.read_text(encoding="utf-8") if path.is_file() else ""
        path.write_text(with_other_section(page, former), encoding="utf-8")
    synchronous = [item for item in comparisons if item.series.name != ASYNCHRONOUS]
    return 0 if all(item.agrees for item in synchronous) else 1


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
