"""Measures what the perceptual hash takes of pack, and how long seal compares a million of them.

    .venv/bin/python -m benchmarks.preparation.hashing
    .venv/bin/python -m benchmarks.preparation.hashing --photographs FOLDER

A part of `make bench`. The functions that make the hashes and the list are timed where pack calls
them, with the pixels in the processor's caches as they are then.
"""

import argparse
import io
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, redirect_stdout
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from benchmarks.photographs import make_photographs
from benchmarks.preparation.encoders import QUALITY
from benchmarks.preparation.programs import BENCH

from imagenet_workloads.commands import index, pack
from imagenet_workloads.dataset import Dataset, Shard, Split, WriterVersion
from imagenet_workloads.prepare import checks, codecs, transcode
from imagenet_workloads.prepare import pack as packing
from imagenet_workloads.prepare.codecs import opencv, planes
from imagenet_workloads.prepare.codecs.perceptual_hash import perceptual_hashes, thumbnail
from imagenet_workloads.records import image_list
from imagenet_workloads.records.image_list import ListedImage, read_image_list

EDGES = (480, 256, None)
RUNS = 3
HASHES, COPIES = 1_000_000, 10_000


def measure_hash(photographs: Path, edges: Sequence[int | None] = EDGES) -> None:
    """Print the table of pack's CPU, by shorter edge and codec."""
    images = sum(1 for _ in photographs.rglob("*.JPEG"))
    print(
        f"CPU of imagenet-pack on {images} images, in one process without its start, and of the "
        f"hashes and the list in it, median of {RUNS} runs.\n"
    )
    print("| shorter edge | codec | pack, ms an image | hash, ms | share |\n|---|---|---|---|---|")
    for edge in edges:
        for codec in codecs.NAMES if edge else (codecs.OPENCV,):
            runs = [_pack(photographs, edge, codec) for _ in range(RUNS)]
            whole, hashing = sorted(runs, key=lambda run: run[1] / run[0])[RUNS // 2]
            named = (str(edge or "as it is"), codec if edge else "copied")
            figures = (1000 * whole / images, 1000 * hashing / images, hashing / whole)
            print("| {} | {} | {:.2f} | {:.3f} | {:.1%} |".format(*named, *figures), flush=True)


def _pack(photographs: Path, edge: int | None, codec: str) -> tuple[float, float]:
    """Pack images; return the CPU seconds of pack, and those of the hashes and the list."""
    spent: list[float] = []

    def timed(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            begin = time.thread_time()
            found = function(*arguments)
            spent.append(time.thread_time() - begin)
            return found

        return call

    resize = ("--resize", str(edge), "--codec", codec) if edge else ()
    with tempfile.TemporaryDirectory(prefix="hashing-", dir=BENCH) as data, ExitStack() as stack:
        places = ("--source", str(photographs), "--data", data)
        output = stack.enter_context(redirect_stdout(io.StringIO()))
        if index.main([*places, "--shards", "1", "--quality", str(QUALITY), *resize]) != 0:
            sys.exit("imagenet-index failed")
        for module in (opencv, planes, transcode):
            stack.enter_context(patch.object(module, "thumbnail", timed(thumbnail)))
        hashes, line = timed(perceptual_hashes), timed(image_list.to_line)
        stack.enter_context(patch.object(packing, "perceptual_hashes", hashes))
        stack.enter_context(patch.object(image_list, "to_line", line))
        begin = time.process_time()
        if pack.main([*places, "--key", json.loads(output.getvalue())["key"]]) != 0:
            sys.exit("imagenet-pack failed")
        return time.process_time() - begin, sum(spent)


def measure_seal(hashes: int = HASHES, copies: int = COPIES) -> None:
    """Print the time in which seal reads the lists of a dataset and compares its images."""
    rng = np.random.default_rng(0)
    drawn = rng.integers(0, 2**64, hashes, dtype=np.uint64)
    flipped = np.uint64(1) << rng.integers(0, 64, copies, dtype=np.uint64)
    drawn[:copies] = drawn[-copies:] ^ flipped
    with tempfile.TemporaryDirectory(prefix="imagenet-hashes-") as name:
        folder = Path(name)
        shard = Shard("train-00000-of-00001.rec", None, hashes, 0, "", image_list.name_of("train"))
        lines = (
            image_list.to_line(ListedImage(f"n{n % 1000:08}/{n}.JPEG", f"{h:016x}", 500, 375, 0))
            for n, h in enumerate(drawn.tolist())
        )
        (folder / image_list.name_of(shard.record)).write_bytes(b"".join(lines))
        sealed = Dataset(
            key="", writer=WriterVersion("", ""), options={}, classes=("one",),
            train=Split(hashes, (shard,)), validation=Split(0, ()),
            mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0),
        )  # fmt: skip
        begin = time.process_time()
        checked = checks.check_shards(sealed, lambda one: read_image_list(folder / one.record))
        seconds = time.process_time() - begin
    assert checked is not None
    found = checked.findings.near_duplicates
    print(
        f"Seal reads and compares {hashes:,} hashes in {seconds:.1f} s of one core, and finds "
        f"{0 if found is None else found.images:,} of {copies:,} planted copies."
    )


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description="Measure the perceptual hash of pack and seal.")
    parser.add_argument("--photographs", type=Path, help="class folders of .JPEG files of your own")
    parsed = parser.parse_args()
    BENCH.mkdir(parents=True, exist_ok=True)
    measure_hash(parsed.photographs or make_photographs(BENCH, 600))
    print()
    measure_seal()


if __name__ == "__main__":
    main()
