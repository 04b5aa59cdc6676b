"""Measures reading and preparing beside the libraries that do the same, in turn.

    make bench-reading                             # and then this
    .venv/bin/python -m benchmarks.field --images 500 --runs 1

Prints Markdown. Reading: the same JPEGs of 256 pixels, the same crops and cores; each reading is a
process of its own and gives batches of normalized float32, and its second epoch is measured. Each
library reads as its documentation has it, and with its fastest decoder. Preparing: the same
photographs; the libraries copy them, and im2rec and imagenet-pack resize them. The libraries are in
.venv-field, which `make install-field` makes.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks.field.read import RANDOM, READERS, RESIZED
from benchmarks.field.write import CORES, WRITERS
from benchmarks.photographs import make_photographs
from benchmarks.preparation.encoders import Im2Rec, OurPrograms
from benchmarks.preparation.programs import BENCH, THREADS, Outcome, run, script
from benchmarks.read_datasets import records_of, write_files

from benchmarks import reading
from imagenet_workloads.dataset import RECORD_IO, read_dataset

PYTHON = Path(".venv-field/bin/python")
EDGE, BATCH = 256, 64
CROPS = {
    RANDOM: ["--random-crop", "1"],
    RESIZED: ["--random-resized-crop", "1", "--min-random-area", "0.08"],
}
OURS = ("Ordered, threads", "Ordered, processes")
NAMES = {
    "torchvision": "torchvision, files",
    "webdataset": "WebDataset",
    "litdata": "litdata",
    "mosaicml": "MosaicML Streaming",
    "dali": "DALI on the CPU, files",
}
DECODERS = {
    "torchvision-default": "Pillow",
    "torchvision-fastest": "torchvision.io",
    "webdataset-default": "Pillow",
    "webdataset-fastest": "torchvision.io",
    "litdata-default": "torchvision.io",
    "mosaicml-default": "Pillow",
    "mosaicml-fastest": "torchvision.io",
    "dali-default": "nvImageCodec",
    "dali-fastest": "nvImageCodec, fast IDCT",
}
COPIERS = {
    "webdataset": "WebDataset's ShardWriter",
    "mosaicml": "MosaicML's MDSWriter",
    "litdata": f"litdata's optimize, {CORES} processes",
}


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--skip-reading", action="store_true")
    parser.add_argument("--skip-preparing", action="store_true")
    options = parser.parse_args()
    BENCH.mkdir(parents=True, exist_ok=True)
    if not options.skip_reading:
        _print_reading(options.images, options.runs)
    if not options.skip_preparing:
        _print_preparing(options.images, options.runs)


def _print_reading(images: int, runs: int) -> None:
    records = records_of(BENCH, EDGE, images, RECORD_IO)
    folders = _write_datasets(records)
    cores = sorted(os.sched_getaffinity(0))[:CORES]
    # Whatever threads and processes a reader has, it gets these cores.
    pinned = ["taskset", "--cpu-list", ",".join(map(str, cores))]
    print(
        f"{images} JPEGs of {EDGE} pixels, crops of 224, mirrored; {len(cores)} cores, batches of "
        f"{BATCH}, median of {runs} in turn.\n"
    )
    print("| crop | reader | decoder | images/s | CPU, ms an image | imagenet-train to it |")
    print("|---|---|---|---:|---:|---:|")
    for crop, more in CROPS.items():
        commands = {name: [*pinned, *reading.command(records, name, more)] for name in OURS}
        for name in READERS:
            program = [str(PYTHON), "-W", "ignore", "-m", "benchmarks.field.read", name]
            size = ["--crop", crop, "--cores", str(CORES), "--batch", str(BATCH)]
            folder = folders[name.partition("-")[0]]
            commands[name] = [*pinned, *program, str(folder), *size]
        found = reading.in_turn(commands, runs)
        ours = max(OURS, key=lambda name: reading.median(found[name], "speed"))
        for name, measured in found.items():
            library = name if name in OURS else NAMES[name.partition("-")[0]]
            decoder = "OpenCV" if name in OURS else DECODERS[name]
            pairs = zip(found[ours], measured, strict=True)
            ratio = statistics.median(one["speed"] / other["speed"] for one, other in pairs)
            figures = (
                f"{reading.median(measured, 'speed'):,.0f} "
                f"| {reading.median(measured, 'cpu'):.2f} | {ratio:.2f}"
            )
            print(f"| {crop} | {library} | {decoder} | {figures} |", flush=True)


def _write_datasets(records: Path) -> dict[str, Path]:
    """Write the images of a dataset for each library; return the folders."""
    place = BENCH / "field"
    shutil.rmtree(place, ignore_errors=True)
    files = place / "files"
    files.mkdir(parents=True)
    write_files(read_dataset(records), records, files)
    for library in WRITERS:
        _copy(library, files, place / library)
    return {name: place / name if name in WRITERS else files for name in NAMES}


def _copy(library: str, images: Path, into: Path) -> Outcome:
    """Copy images by a library's writer; its seconds are without its start."""
    shutil.rmtree(into, ignore_errors=True)
    program = [str(PYTHON), "-W", "ignore", "-m", "benchmarks.field.write"]
    command = [*program, library, str(images), str(into)]
    *_, found = subprocess.check_output(command, stderr=subprocess.DEVNULL).splitlines()
    measured = json.loads(found)
    return Outcome(measured["seconds"], measured["cpu"], "")


def _print_preparing(images: int, runs: int) -> None:
    photographs = make_photographs(BENCH, images)
    count = sum(1 for path in photographs.rglob("*.JPEG") if path.read_bytes())  # all cached now
    programs: Mapping[tuple[str, str], Callable[[], list[Outcome]]] = {
        ("im2rec.py", f"resizes to {EDGE}"): lambda: _im2rec(photographs),
        ("imagenet-index, pack, seal", f"resize to {EDGE}, `opencv`"): (
            lambda: _ours(photographs, "opencv")
        ),
        ("imagenet-index, pack, seal", f"resize to {EDGE}, `planes`"): (
            lambda: _ours(photographs, "planes")
        ),
        ("imagenet-index, pack, seal", "copy"): lambda: _copied_by_ours(photographs),
        **{
            (name, "copies"): lambda library=library: [  # type: ignore[misc]
                _copy(library, photographs, BENCH / "field-copies" / library)
            ]
            for library, name in COPIERS.items()
        },
    }
    measured: dict[tuple[str, str], list[list[Outcome]]] = {row: [] for row in programs}
    for _ in range(runs):
        for row, prepare in programs.items():
            measured[row].append(prepare())
    print(
        f"\n{count} photographs, all steps of each, median of {runs} in turn; the libraries of the "
        "field without their start.\n"
    )
    print("| by | images | images/s | CPU, ms an image |")
    print("|---|---|---:|---:|")
    for row, found in measured.items():
        seconds = statistics.median(sum(step.seconds for step in steps) for steps in found)
        cpu = statistics.median(sum(step.cpu for step in steps) for steps in found)
        print(f"| {' | '.join(row)} | {count / seconds:,.0f} | {cpu / count * 1000:.2f} |")


def _im2rec(photographs: Path) -> list[Outcome]:
    tool = Im2Rec(photographs, EDGE, real_time=False)
    return [tool.prepare(), tool.pack()]


def _ours(photographs: Path, codec: str) -> list[Outcome]:
    programs = OurPrograms(photographs, EDGE, codec, real_time=False)
    return [programs.prepare(), programs.pack(), programs.finish()]


def _copied_by_ours(photographs: Path) -> list[Outcome]:
    """Pack without --resize, which copies JPEGs as the libraries do."""
    data = BENCH / "field-copies" / "ours"
    shutil.rmtree(data, ignore_errors=True)
    source = ("--source", photographs)
    indexed = run(script("index"), *source, "--data", data, "--shards", "1")
    dataset = ("--data", data, "--key", json.loads(indexed.output)["key"])
    packed = run(script("pack"), *dataset, *source, "--shard", "0", "--threads", str(THREADS))
    return [indexed, packed, run(script("seal"), *dataset)]


if __name__ == "__main__":
    main()
