"""Measures how training reads: the ordered reader beside MXNet's ImageRecordIter, in turn.

    make bench-reading
    .venv/bin/python -m benchmarks.reading --throttle     # as root: from a slow disk

Prints Markdown. Each reading of an epoch is a process of its own. CPU time is that of all its
threads, and of its decoders, in the second epoch, divided by the images. Opens are counted by
strace in a reading apart, and left out without it. With --throttle, the disk is as slow as a hard
disk (`throttled_disk`), and the page cache has none of the records before each epoch.
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
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.cpu_time import cpu_seconds
from benchmarks.read_datasets import SHARDS, records_of
from benchmarks.throttled_disk import (
    DiskLimit,
    device_of,
    disk_reads,
    drop_cache,
    join,
    throttled_disk,
)

from imagenet_spec.program.train import PROCESSES, THREADS
from imagenet_workloads.commands.train import parse
from imagenet_workloads.dataset import RECORD_IO, TF_RECORD
from imagenet_workloads.frameworks.mxnet.data import choose

BENCH = Path("build/bench")
CORES, BATCH = 2, 64
# MXNet's own reader knows RecordIO alone.
READERS = {
    "ImageRecordIter": ((RECORD_IO,), ["--reader", "ImageRecordIter"]),
    "Ordered, threads": ((RECORD_IO, TF_RECORD), ["--decoding", THREADS]),
    "Ordered, processes": ((RECORD_IO, TF_RECORD), ["--decoding", PROCESSES]),
}
# The shorter edge of the records, and how they are augmented.
CASES = {
    "480, resized crop": (480, ["--random-resized-crop", "1", "--min-random-area", "0.08"]),
    "256, random crop": (256, ["--random-crop", "1"]),
}
# About those of a hard disk.
DISK = DiskLimit(mib=100, requests=100)

Measurements = list[dict[str, Any]]


def main() -> None:
    """Measure, or read two epochs if asked for by this program."""
    options = _options()
    if options.read:
        print(json.dumps(_read(options.read, options.group)))
        return
    limit = DiskLimit(options.throttle_mib, options.throttle_requests)
    disk = f"a disk of {limit.mib} MiB and {limit.requests} requests a second, "
    print(
        f"{options.images} photographs, {SHARDS} shards, {CORES} decoders, batches of {BATCH}, "
        f"{os.cpu_count()} cores, {disk if options.throttle else ''}median of {options.runs}.\n"
    )
    if options.throttle:
        _print_throttled(options.images, options.runs, limit)
    else:
        _print_cached(options.images, options.runs)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--throttle", action="store_true", help="read from a slow disk (as root)")
    parser.add_argument("--throttle-mib", type=int, default=DISK.mib, help="a second")
    parser.add_argument("--throttle-requests", type=int, default=DISK.requests, help="a second")
    parser.add_argument("--group", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--read", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser.parse_args()


def _print_cached(images: int, runs: int) -> None:
    """Measure readers of records that are in the page cache."""
    print("| records, augmentation | reader | CPU, ms an image | images/s | reads | MiB | opens |")
    print("|---|---|---:|---:|---:|---:|---:|")
    for name, (edge, more) in CASES.items():
        folder = records_of(BENCH, edge, images, RECORD_IO)
        commands = {reader: command(folder, reader, more) for reader in READERS}
        for reader, found in in_turn(commands, runs).items():
            one, opens = found[0], _opens(commands[reader])
            figures = (
                f"{median(found, 'cpu'):.2f} | {median(found, 'speed'):.0f} "
                f"| {one['reads']:,} | {one['mib']:.1f} | {opens}"
            )
            print(f"| {name} | {reader} | {figures} |", flush=True)


def _print_throttled(images: int, runs: int, limit: DiskLimit) -> None:
    """Measure readers of records on a slow disk."""
    print("| records, augmentation | format | reader | images/s | disk requests | MiB | opens |")
    print("|---|---|---|---:|---:|---:|---:|")
    for name, (edge, more) in CASES.items():
        formats = (RECORD_IO, TF_RECORD)
        folders = {format: records_of(BENCH, edge, images, format) for format in formats}
        with throttled_disk(BENCH, limit) as group:
            commands = {
                f"{format} | {reader}": command(folders[format], reader, more, group)
                for reader, (known, _) in READERS.items()
                for format in known
            }
            results = in_turn(commands, runs)
        for row, found in results.items():
            format, _, reader = row.partition(" | ")
            opens = _opens(command(folders[format], reader, more))
            figures = (
                f"{median(found, 'speed'):.0f} | {median(found, 'disk requests'):,.0f} "
                f"| {median(found, 'disk mib'):.1f} | {opens}"
            )
            print(f"| {name} | {row} | {figures} |", flush=True)


def command(folder: Path, reader: str, more: Sequence[str], group: Path | None = None) -> list[str]:
    """Return the command that reads two epochs."""
    return [
        *(sys.executable, "-m", "benchmarks.reading"),
        *(() if group is None else ("--group", str(group))),
        *("--read", "--dataset", str(folder), *READERS[reader][1], "--random-mirror", "1"),
        *("--batch-size", str(BATCH), "--data-nthreads", str(CORES), *more),
    ]


def in_turn(commands: Mapping[str, Sequence[str]], runs: int) -> dict[str, Measurements]:
    """Run the commands so often, one after the other; return what they measured."""
    results: dict[str, Measurements] = {name: [] for name in commands}
    for _ in range(runs):
        for name, line in commands.items():
            # Libraries of the field print before it.
            *_, found = subprocess.check_output(line).splitlines()
            results[name].append(json.loads(found))
    return results


def median(found: Measurements, key: str) -> float:
    """Return the median of one figure."""
    values: list[float] = [one[key] for one in found]
    return statistics.median(values)


def _opens(line: list[str]) -> str:
    """Count the files of records that a reading of two epochs opens."""
    if shutil.which("strace") is None:
        return ""
    log = BENCH / "strace.txt"
    subprocess.check_output(["strace", "-f", "-qq", "-e", "trace=openat", "-o", log, *line])
    return f"{len(re.findall(r'train-[0-9]+[.](?:rec|tfrecord)', log.read_text())):,}"


def _read(arguments: list[str], group: Path | None) -> dict[str, Any]:
    """Read two epochs, and measure the second; with a group, from its disk."""
    BENCH.mkdir(parents=True, exist_ok=True)
    # Of one epoch, the next one is not read ahead.
    options = parse([*arguments, "--num-epochs", "1"])
    data = choose(options, 0, 1, 1, BENCH)
    if group is not None:
        join(group)
    for epoch in range(2):
        if group is not None and options.data.dataset is not None:
            drop_cache(options.data.dataset)
        # Last, as looking for decoders reads as well.
        cpu, started, before = cpu_seconds(), time.monotonic(), _io(group)
        images = 0
        for batch in data.training.epoch(epoch, 0):
            batch.data.wait_to_read()
            images += batch.images
        after = _io(group)
    found = {key: after[key] - before[key] for key in after}
    found["cpu"] = (cpu_seconds() - cpu) / images * 1000
    found["speed"] = images / (time.monotonic() - started)
    data.close()
    return found


def _io(group: Path | None) -> dict[str, float]:
    """Return the kernel's counts of this process's reads, and of those of its group's disk."""
    lines = Path("/proc/self/io").read_text().splitlines()
    counts = {name: int(count) for name, count in (line.split(": ") for line in lines)}
    own: dict[str, float] = {"reads": counts["syscr"], "mib": counts["rchar"] / 2**20}
    if group is None:
        return own
    disk = disk_reads(group, device_of(BENCH))
    return {**own, "disk requests": disk.requests, "disk mib": disk.bytes / 2**20}


if __name__ == "__main__":
    main()
