"""Measures preprocessing against MXNet's own im2rec.py: speed, CPU, PSNR, memory; index's latency.

    make bench                                     # and then bench-reading
    .venv/bin/python -m benchmarks.preparation
    .venv/bin/python -m benchmarks.preparation --images 500 --runs 1 --skip-memory --skip-latency
    .venv/bin/python -m benchmarks.preparation --real-time     # as root, on a machine that is busy

Prints Markdown. The programs run as they are delivered, in
turn, on the same files in the page cache and the same cores; a figure is the median of its runs.
The photographs and all outputs stay under build/bench; the photographs are made once.
"""

import argparse
import os
import platform
import statistics
from pathlib import Path

from benchmarks.photographs import make_photographs
from benchmarks.preparation.codecs import compare_codecs
from benchmarks.preparation.encoders import QUALITY
from benchmarks.preparation.hashing import measure_hash, measure_seal
from benchmarks.preparation.latency import measure_latency
from benchmarks.preparation.memory import compare_memory
from benchmarks.preparation.programs import BENCH, THREADS
from benchmarks.preparation.speed import compare_speed


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description="Measure preprocessing against im2rec.py.")
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--photographs", type=Path, help="class folders of .JPEG files of your own")
    parser.add_argument("--runs", type=int, default=5, help="of each program")
    parser.add_argument("--skip-memory", action="store_true")
    parser.add_argument("--skip-latency", action="store_true")
    parser.add_argument(
        "--skip-newest-opencv",
        action="store_true",
        help="measure no im2rec's calls of the newest OpenCV, which pip installs under build/",
    )
    parser.add_argument(
        "--real-time", action="store_true", help="let nothing else run beside a program (as root)"
    )
    parsed = parser.parse_args()
    BENCH.mkdir(parents=True, exist_ok=True)
    photographs = parsed.photographs or make_photographs(BENCH, parsed.images)
    sizes = [path.stat().st_size for path in photographs.rglob("*.JPEG")]
    print(
        f"{len(sizes)} JPEGs {'' if parsed.photographs else 'like ILSVRC2012 '}"
        f"of {statistics.fmean(sizes) / 1000:.0f} KB on average, "
        f"quality {QUALITY}, --num-thread {THREADS} of im2rec.py and --threads {THREADS} of "
        f"imagenet-pack on {len(os.sched_getaffinity(0))} cores ({platform.machine()}), "
        f"median of {parsed.runs} runs in turn"
        f"{', each with real-time priority' if parsed.real_time else ''}.\n"
    )
    newest = not parsed.skip_newest_opencv
    compare_speed(photographs, parsed.runs, parsed.real_time, newest)
    print()
    compare_codecs(photographs)
    print()
    measure_hash(photographs)
    print()
    measure_seal()
    if not parsed.skip_memory:
        print()
        compare_memory(photographs)
    if not parsed.skip_latency:
        print()
        measure_latency()


if __name__ == "__main__":
    main()
