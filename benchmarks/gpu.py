"""Measures imagenet-train on a GPU beside a plain training loop of PyTorch, in turn.

    make bench-gpu                                   # on a machine with a GPU
    .venv-pytorch/bin/python -m benchmarks.gpu --batch 128 --runs 1

Prints Markdown. Everything trains ResNet-50 in bfloat16 on 224x224 pixels, eager and compiled.
Without reading, both have one batch that stays on the GPU. With reading, imagenet-train reads
RecordIO by its own reader, and the plain loop the same JPEGs as files by a DataLoader with a
process for each core; both crop and flip. Each training is a process of its own. The first third of
its steps is not measured: readers start there, networks are compiled, and cuDNN measures its
algorithms. Ratios are to the best plain loop, the compiled one without reading; each is the median
of the rounds' ratios. Without a GPU it says "not run".
"""

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from benchmarks.read_datasets import records_of, write_files

from imagenet_workloads.dataset import RECORD_IO, Shard, Split, read_dataset

BENCH = Path("build/bench/gpu")
EDGE = 256
OPTIONS = (
    *("--framework", "PyTorch", "--distribution-strategy", "single", "--gpus", "0"),
    *("--network", "resnet", "--num-layers", "50", "--image-shape", "3,224,224"),
    *("--dtype", "bfloat16", "--num-epochs", "1", "--lr-step-epochs", "", "--warmup-epochs", "0"),
)
PLAIN, OURS = "plain loop", "imagenet-train"
Row = tuple[str, str, str]
"""Which images, how the network computes, and the program."""


def main() -> None:
    """Run the benchmark."""
    options = _options()
    if not torch.cuda.is_available():
        print("not run: PyTorch finds no GPU")
        return
    cores = len(os.sched_getaffinity(0))
    print(
        f"ResNet-50, bfloat16, {options.batch} images of 224x224 a step, {options.steps} steps, "
        f"{torch.cuda.get_device_name()}, {cores} cores ({platform.machine()}), "
        f"PyTorch {torch.__version__}, median of {options.runs}.\n"
    )
    print("| images | network | program | images/s | x compiled plain loop without reading |")
    print("|---|---|---|---:|---:|")
    BENCH.mkdir(parents=True, exist_ok=True)
    commands = _commands(options, cores)
    rounds = [_round(commands, options.steps, options.batch) for _ in range(options.runs)]
    base = next(iter(commands))
    for row in commands:
        speeds = [found[row] for found in rounds]
        ratios = [found[row] / found[base] for found in rounds]
        figures = f"{statistics.median(speeds):,.0f} | {statistics.median(ratios):.3f}"
        print(f"| {' | '.join(row)} | {figures} |")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--batch", type=int, default=256, help="images a step")
    parser.add_argument("--steps", type=int, default=96, help="a multiple of 3")
    parser.add_argument("--runs", type=int, default=3, help="rounds")
    parser.add_argument("--photographs", type=int, default=1024, help="different ones")
    return parser.parse_args()


def _commands(options: argparse.Namespace, cores: int) -> dict[Row, list[str]]:
    """Return the command of each row; the first one is the best plain loop."""
    images = options.batch * options.steps
    records, files = _dataset(options.photographs, -(-images // options.photographs))
    size = ["--batch", str(options.batch), "--steps", str(options.steps)]
    plain = [sys.executable, "-m", "benchmarks.plain_torch", *size]
    train = [sys.executable, "-m", "imagenet_workloads.commands.train", *OPTIONS]
    train += ["--batch-size", str(options.batch), "--disp-batches", str(options.steps // 3)]
    crop = ["--random-crop", "1", "--random-mirror", "1"]
    one = [*train, "--benchmark", "1", "--num-examples", str(images)]
    read = [*train, "--dataset", str(records), *crop]
    from_files = [*plain, "--images", str(files), "--threads", str(cores)]
    compiled = ["--compile", "1"]
    return {
        ("one batch", "compiled", PLAIN): [*plain, "--compile"],
        ("one batch", "eager", PLAIN): plain,
        ("one batch", "compiled", OURS): [*one, *compiled],
        ("one batch", "eager", OURS): one,
        ("JPEG files", "compiled", PLAIN): [*from_files, "--compile"],
        ("RecordIO", "compiled", OURS): [*read, *compiled],
        ("RecordIO", "eager", OURS): read,
    }


def _round(commands: Mapping[Row, list[str]], steps: int, batch: int) -> dict[Row, float]:
    """Train each once; return the images per second."""
    found = {}
    for name, command in commands.items():
        found[name] = _speed(command, steps, batch)
        print(f"{', '.join(name)}: {found[name]:,.0f} images/s", file=sys.stderr, flush=True)
    return found


def _speed(command: Sequence[str], steps: int, batch: int) -> float:
    """Return the images per second of a training, after the first third of its steps."""
    if "benchmarks.plain_torch" in command:
        return float(subprocess.check_output(command))
    output = BENCH / "output"
    shutil.rmtree(output, ignore_errors=True)
    with (BENCH / "train.log").open("wb") as log:
        command = [*command, "--output", str(output)]
        subprocess.run(command, check=True, stdout=log, stderr=subprocess.STDOUT)
    lines = (output / "attempts" / "r0" / "metrics.jsonl").read_text().splitlines()
    events = [json.loads(line) for line in lines]
    times = {one["batch"]: float(one["time"]) for one in events if one["event"] == "progress"}
    return (steps - steps // 3) * batch / (times[steps] - times[steps // 3])


def _dataset(photographs: int, times: int) -> tuple[Path, Path]:
    """Return a dataset in which each photograph comes so many times, and its JPEGs as files."""
    once = records_of(BENCH, EDGE, photographs, RECORD_IO)
    records, files = BENCH / f"records-{times}", BENCH / f"files-{times}"
    for folder in (records, files):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
    dataset = read_dataset(once)
    shards = tuple(
        _linked(shard, copy, once, records)
        for copy in range(times)
        for shard in dataset.train.shards
    )
    many = replace(dataset, train=Split(photographs * times, shards))
    (records / "dataset.json").write_text(many.to_json())
    write_files(dataset, once, files, times)
    return records, files


def _linked(shard: Shard, copy: int, once: Path, records: Path) -> Shard:
    """Link a shard's files under other names."""

    def link(name: str) -> str:
        linked = f"{copy:03}-{name}"
        (records / linked).hardlink_to(once / name)
        return linked

    index = None if shard.index is None else link(shard.index)
    return replace(shard, record=link(shard.record), index=index)


if __name__ == "__main__":
    main()
