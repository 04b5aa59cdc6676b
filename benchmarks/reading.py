"""Measures how training reads: the ordered reader beside MXNet's ImageRecordIter, in turn.

    make bench-reading

It prints the table of docs/benchmarks.md. Each reading of an epoch is a process of its own. CPU
time is that of all its threads in the second epoch, divided by the images. Opens are counted by
strace in a reading apart, and left out without it.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from benchmarks.photographs import make_photographs

from imagenet_workloads.commands.train import parse
from imagenet_workloads.dataset import Dataset, Shard, Split, WriterVersion
from imagenet_workloads.frameworks.mxnet.data import choose
from imagenet_workloads.prepare.codecs import choose as choose_codec
from imagenet_workloads.prepare.codecs.codec import Recipe
from imagenet_workloads.prepare.formats.format import StoredImage
from imagenet_workloads.prepare.formats.recordio import Writer
from imagenet_workloads.prepare.transcode import transcode

BENCH = Path("build/bench")
READERS = ("ImageRecordIter", "Ordered")
SHARDS, THREADS, BATCH = 4, 2, 64
# The shorter edge of the records, and how they are augmented.
CASES = {
    "480, resized crop": (480, ["--random-resized-crop", "1", "--min-random-area", "0.08"]),
    "256, random crop": (256, ["--random-crop", "1"]),
}


def main() -> None:
    """Measure, or read one epoch if asked for by this program."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--read", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read:
        print(json.dumps(_read(options.read)))
        return
    print(
        f"{options.images} photographs, {SHARDS} shards, {THREADS} threads, batches of {BATCH}, "
        f"{os.cpu_count()} cores, median of {options.runs}.\n"
    )
    print("| records, augmentation | reader | CPU, ms an image | images/s | reads | MiB | opens |")
    print("|---|---|---:|---:|---:|---:|---:|")
    datasets = {edge: _dataset(edge, options.images) for edge in (480, 256)}
    for name, (edge, more) in CASES.items():
        for reader, found in _measure(datasets[edge], more, options.runs).items():
            print(f"| {name} | {reader} | {' | '.join(found)} |", flush=True)


def _measure(folder: Path, more: list[str], runs: int) -> dict[str, list[str]]:
    commands = {
        reader: [
            *(sys.executable, "-m", "benchmarks.reading", "--read", "--dataset", str(folder)),
            *("--reader", reader, "--random-mirror", "1", "--batch-size", str(BATCH)),
            *("--data-nthreads", str(THREADS), *more),
        ]
        for reader in READERS
    }
    results: dict[str, list[dict[str, Any]]] = {reader: [] for reader in READERS}
    for _ in range(runs):
        for reader, command in commands.items():
            results[reader].append(json.loads(subprocess.check_output(command)))
    table = {}
    for reader, found in results.items():
        cpu, speed = (statistics.median(one[key] for one in found) for key in ("cpu", "speed"))
        one = found[0]
        table[reader] = [f"{cpu:.2f}", f"{speed:.0f}", f"{one['reads']:,}", f"{one['mib']:.1f}"]
        table[reader].append(_opens(commands[reader]))
    return table


def _opens(command: list[str]) -> str:
    """Count the files of records that a reading of two epochs opens."""
    if shutil.which("strace") is None:
        return ""
    log = BENCH / "strace.txt"
    subprocess.check_output(["strace", "-f", "-qq", "-e", "trace=openat", "-o", log, *command])
    return f"{len(re.findall(r'train-[0-9]+.rec', log.read_text())):,}"


def _read(arguments: list[str]) -> dict[str, Any]:
    """Read two epochs, and measure the second."""
    BENCH.mkdir(parents=True, exist_ok=True)
    training = choose(parse(arguments), 0, 1, 1, BENCH).training
    for epoch in range(2):
        before, started, cpu = _io(), time.monotonic(), time.process_time()
        images = 0
        for batch in training.epoch(epoch, 0):
            batch.data.wait_to_read()
            images += batch.images
        after = _io()
    return {
        "cpu": (time.process_time() - cpu) / images * 1000,
        "speed": images / (time.monotonic() - started),
        "reads": after["syscr"] - before["syscr"],
        "mib": (after["rchar"] - before["rchar"]) / 2**20,
    }


def _io() -> dict[str, int]:
    """Return the kernel's counts of this process's reads and their bytes."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return {name: int(count) for name, count in (line.split(": ") for line in lines)}


def _dataset(edge: int, images: int) -> Path:
    """Write the records of one size, unless they are there."""
    folder = BENCH / f"reading-{edge}-{images}"
    if (folder / "dataset.json").exists():
        return folder
    cv2.setNumThreads(1)
    folder.mkdir(parents=True, exist_ok=True)
    stored = list(_stored(edge, make_photographs(BENCH, images)))
    numbers = np.random.default_rng(0).permutation(len(stored))
    shards = tuple(
        _shard(folder / f"train-{place:05}", [stored[number] for number in part])
        for place, part in enumerate(np.array_split(numbers, SHARDS))
    )
    classes = tuple(f"{number:03}" for number in range(20))
    colour = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
    writer = WriterVersion("1", "opencv")
    train, none = Split(len(stored), shards), Split(0, ())
    sealed = Dataset("0", writer, {}, classes, train, none, *colour)
    (folder / "dataset.json").write_text(sealed.to_json())
    return folder


def _stored(edge: int, photographs: Path) -> Iterator[StoredImage]:
    codec, recipe = choose_codec("opencv"), Recipe(edge, 90)
    for key, path in enumerate(sorted(photographs.rglob("*.JPEG"))):
        packed = transcode(path.read_bytes(), recipe, codec)
        size = packed.height, packed.width
        yield StoredImage(key, key % 20, "", "", path.name.encode(), *size, packed.jpeg)


def _shard(path: Path, images: list[StoredImage]) -> Shard:
    record, index = path.with_suffix(".rec"), path.with_suffix(".idx")
    with record.open("wb") as records, index.open("wb") as lines:
        Writer(records, lines).append(images)
    return Shard(record.name, index.name, len(images), record.stat().st_size, "")


if __name__ == "__main__":
    main()
