"""How long index takes when each read of the volume waits, as behind a network file system."""

import shutil
import sys

from benchmarks.preparation.memory import IMAGES_OF_CLASS, tar_of_tars
from benchmarks.preparation.programs import BENCH, run, script

LATENCY = 0.02
IMAGES = 100_000

# Runs a console script in which each read of a file of the source waits.
SLOW_READS = """
import runpy, sys, time
from imagenet_workloads.prepare.sources.volume import File
read, latency = File.read, float(sys.argv[1])
def slow(file, offset, size):
    time.sleep(latency)
    return read(file, offset, size)
File.read = slow
sys.argv = sys.argv[2:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def measure_latency() -> None:
    """Prints the table of index behind latency."""
    path, images = tar_of_tars(BENCH / "slow.tar", [b"x"], IMAGES, IMAGES // IMAGES_OF_CLASS)
    print("| latency of a read | images | inner tars | seconds | images/s |")
    print("|---|---|---|---|---|")
    for latency in (0.0, LATENCY):
        data = BENCH / "latency"
        shutil.rmtree(data, ignore_errors=True)
        options = ("--source", path, "--data", data, "--shards", "1")
        command = (sys.executable, "-c", SLOW_READS, str(latency), script("index"), *options)
        seconds = run(*command).seconds
        print(
            f"| {latency * 1000:.0f} ms | {images:,} | {images // IMAGES_OF_CLASS} | "
            f"{seconds:.1f} | {images / seconds:,.0f} |",
            flush=True,
        )
    path.unlink()
