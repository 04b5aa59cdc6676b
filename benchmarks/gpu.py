"""Measures imagenet-train on a GPU beside plain training loops of PyTorch, in at most 8 minutes.

    make bench-gpu                                   # on a machine with a GPU; needs no network
    .venv-pytorch/bin/python -m benchmarks.gpu --skip resnet-20 reading --runs 1

Prints Markdown, each table as soon as its part is done, and each measure on stderr. The parts:

- `reading`: batches of 256 images for a GPU, without a network, on 1, 4, 8 and 16 pinned cores;
- `resnet-20`: 32x32 pixels, 512 images a step, eager, from RecordIO; the plain loop of the same
  network has all images on the GPU;
- `resnet-50`: 224x224 pixels, 256 images a step, eager and compiled, of one batch that stays on the
  GPU, and from RecordIO. The plain loop is channels last with a fused optimizer.

Both networks are trained in bfloat16. Each measure is a process of its own, in turn, and a figure
the median of the rounds; ratios are medians of the rounds' ratios. The first third of the steps is
not measured: decoders start there, networks are compiled, and cuDNN measures its algorithms. A part
that this machine cannot run is "not run"; no round begins for which the time is too short.
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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from benchmarks.plain_torch import RESNET_20, RESNET_50
from benchmarks.read_datasets import records_of, small_records_of

from imagenet_workloads.dataset import RECORD_IO, Shard, Split, read_dataset

BENCH = Path("build/bench/gpu")
CORES = (1, 4, 8, 16)
EDGE, SMALL_EDGE = 256, 32
OPTIONS = (
    *("--framework", "PyTorch", "--distribution-strategy", "single", "--gpus", "0"),
    *("--dtype", "bfloat16", "--num-epochs", "1", "--lr-step-epochs", "", "--warmup-epochs", "0"),
    *("--network", "resnet"),
)
CROP = ("--random-crop", "1", "--random-mirror", "1")
PLAIN, OURS = "plain loop", "imagenet-train"
Row = tuple[str, ...]
"""The cells that say what is measured."""


@dataclass(frozen=True)
class Size:
    """How much is trained.

    Attributes:
        batch: images a step.
        steps: a multiple of 3.
    """

    batch: int
    steps: int

    @property
    def images(self) -> int:
        """In all."""
        return self.batch * self.steps


def main() -> None:
    """Run the benchmark."""
    options = _options()
    deadline = time.monotonic() + options.seconds
    BENCH.mkdir(parents=True, exist_ok=True)
    has_gpu = torch.cuda.is_available()
    cores = sorted(os.sched_getaffinity(0))
    print(
        f"{torch.cuda.get_device_name() if has_gpu else 'no GPU'}, {len(cores)} cores "
        f"({platform.machine()}), PyTorch {torch.__version__}, median of {options.runs} rounds.",
        flush=True,
    )
    parts: dict[str, Callable[[], None]] = {
        "reading": lambda: _reading(options, cores, deadline),
        "resnet-20": lambda: _resnet_20(options, deadline),
        "resnet-50": lambda: _resnet_50(options, deadline),
    }
    for name, measure in parts.items():
        if name in options.skip:
            print(f"\n{name}: not run, skipped", flush=True)
        elif name != "reading" and not has_gpu:
            print(f"\n{name}: not run, PyTorch finds no GPU", flush=True)
        else:
            measure()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--skip", nargs="*", default=[], help="parts", metavar="PART")
    parser.add_argument("--runs", type=int, default=3, help="rounds of each part, at most")
    parser.add_argument("--steps", type=int, default=96, help="of ResNet-50, a multiple of 3")
    parser.add_argument("--photographs", type=int, default=1024, help="different ones")
    parser.add_argument("--small-images", type=int, default=50_176, help="of ResNet-20")
    parser.add_argument("--seconds", type=float, default=470.0, help="of all parts")
    return parser.parse_args()


def _reading(options: argparse.Namespace, cores: Sequence[int], deadline: float) -> None:
    records = _repeated(records_of(BENCH, EDGE, options.photographs, RECORD_IO), 24)
    program = [sys.executable, "-m", "benchmarks.reading_alone", str(records)]
    commands: dict[Row, list[str]] = {
        (str(count),): ["taskset", "--cpu-list", ",".join(map(str, cores[:count])), *program]
        for count in CORES
        if count <= len(cores)
    }
    rounds = _rounds(
        commands, lambda line: float(subprocess.check_output(line)), options.runs, deadline
    )
    rows: list[Row] = [(str(count),) for count in CORES]
    _print_table(
        f"Reading alone, {EDGE} pixels, crops of 224, batches of 256",
        *(("cores", "images/s", "x 1 core"), rows, ("1",), rounds),
    )


def _resnet_20(options: argparse.Namespace, deadline: float) -> None:
    once = small_records_of(BENCH, SMALL_EDGE, options.small_images)
    size = Size(512, options.small_images * 3 // 512 // 3 * 3)
    records = _repeated(once, 3)
    train = _trainer("20", (3, SMALL_EDGE, SMALL_EDGE), size)
    commands: dict[Row, list[str]] = {
        ("on the GPU", "eager", PLAIN): _plain(RESNET_20, size, options.small_images),
        ("RecordIO", "eager", OURS): [*train, *CROP, "--pad-size", "4", "--dataset", str(records)],
    }
    _compare("ResNet-20", size, commands, options.runs, deadline)


def _resnet_50(options: argparse.Namespace, deadline: float) -> None:
    size = Size(256, options.steps)
    times = -(-size.images // options.photographs)
    records = _repeated(records_of(BENCH, EDGE, options.photographs, RECORD_IO), times)
    train = _trainer("50", (3, 224, 224), size)
    one = [*train, "--benchmark", "1", "--num-examples", str(size.images)]
    read = [*train, *CROP, "--dataset", str(records)]
    plain = _plain(RESNET_50, size)
    commands: dict[Row, list[str]] = {
        ("one batch", "compiled", PLAIN): [*plain, "--compile"],
        ("one batch", "compiled", OURS): [*one, "--compile", "1"],
        ("RecordIO", "compiled", OURS): [*read, "--compile", "1"],
        ("one batch", "eager", PLAIN): plain,
        ("one batch", "eager", OURS): one,
        ("RecordIO", "eager", OURS): read,
    }
    _compare("ResNet-50", size, commands, options.runs, deadline)


def _plain(network: str, size: Size, images: int = 0) -> list[str]:
    program = [sys.executable, "-m", "benchmarks.plain_torch", "--network", network]
    more = ["--images-on-gpu", str(images)] if images else []
    return [*program, "--batch", str(size.batch), "--steps", str(size.steps), *more]


def _trainer(layers: str, shape: tuple[int, ...], size: Size) -> list[str]:
    program = [sys.executable, "-m", "imagenet_workloads.commands.train", *OPTIONS]
    network = ["--num-layers", layers, "--image-shape", ",".join(map(str, shape))]
    steps = ["--batch-size", str(size.batch), "--disp-batches", str(size.steps // 3)]
    return [*program, *network, *steps]


def _compare(
    network: str, size: Size, commands: Mapping[Row, list[str]], runs: int, deadline: float
) -> None:
    rounds = _rounds(commands, lambda line: _speed(line, size), runs, deadline)
    base = next(iter(commands))
    _print_table(
        f"{network}, bfloat16, {size.batch} images a step, {size.steps} steps",
        ("images", "network", "program", "images/s", f"x {base[1]} {PLAIN}"),
        *(list(commands), base, rounds),
    )


def _rounds(
    commands: Mapping[Row, list[str]],
    measure: Callable[[list[str]], float],
    runs: int,
    deadline: float,
) -> list[dict[Row, float]]:
    """Measure each command once a round; no round begins that would end after the deadline."""
    rounds: list[dict[Row, float]] = []
    took = 0.0
    for number in range(runs):
        started = time.monotonic()
        if started + took > deadline:
            print(f"round {number + 1}: not run, the time is over", file=sys.stderr, flush=True)
            break
        found: dict[Row, float] = {}
        for row, command in commands.items():
            found[row] = measure(command)
            words = f"round {number + 1}: {', '.join(row)}: {found[row]:,.0f} images/s"
            print(words, file=sys.stderr, flush=True)
        rounds.append(found)
        took = time.monotonic() - started
    return rounds


def _print_table(
    title: str,
    headings: Sequence[str],
    rows: Sequence[Row],
    base: Row,
    rounds: Sequence[Mapping[Row, float]],
) -> None:
    print(f"\n{title}:\n\n| {' | '.join(headings)} |")
    texts = len(headings) - 2
    print("|" + "---|" * texts + "---:|" * 2)
    for row in rows:
        speeds = [found[row] for found in rounds if row in found]
        if not speeds:
            print(f"| {' | '.join(row)} | not run | |", flush=True)
            continue
        ratio = statistics.median(found[row] / found[base] for found in rounds)
        figures = f"{statistics.median(speeds):,.0f} | {ratio:.3f}"
        print(f"| {' | '.join(row)} | {figures} |", flush=True)


def _speed(command: Sequence[str], size: Size) -> float:
    """Return the images per second of a training, after the first third of its steps."""
    if "benchmarks.plain_torch" in command:
        return float(subprocess.check_output(command))
    output = BENCH / "output"
    shutil.rmtree(output, ignore_errors=True)
    log = BENCH / "train.log"
    with log.open("wb") as file:
        line = [*command, "--output", str(output)]
        done = subprocess.run(line, check=False, stdout=file, stderr=subprocess.STDOUT)
    if done.returncode:
        sys.exit(f"{line} failed: {done.returncode}\n{log.read_text()}")
    lines = (output / "attempts" / "r0" / "metrics.jsonl").read_text().splitlines()
    events = [json.loads(line) for line in lines]
    times = {one["batch"]: float(one["time"]) for one in events if one["event"] == "progress"}
    measured = size.steps - size.steps // 3
    return measured * size.batch / (times[size.steps] - times[size.steps // 3])


def _repeated(once: Path, times: int) -> Path:
    """Return a dataset in which each image of another one comes so many times."""
    records = BENCH / f"{once.name}-{times}"
    shutil.rmtree(records, ignore_errors=True)
    records.mkdir()
    dataset = read_dataset(once)

    def linked(shard: Shard, copy: int) -> Shard:
        def link(name: str) -> str:
            (records / f"{copy:03}-{name}").hardlink_to(once / name)
            return f"{copy:03}-{name}"

        index = None if shard.index is None else link(shard.index)
        return replace(shard, record=link(shard.record), index=index)

    shards = tuple(linked(shard, copy) for copy in range(times) for shard in dataset.train.shards)
    many = replace(dataset, train=Split(dataset.train.images * times, shards))
    (records / "dataset.json").write_text(many.to_json())
    return records


if __name__ == "__main__":
    main()
