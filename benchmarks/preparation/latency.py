"""How long index takes when each read of the volume waits, as behind a network file system.

    .venv/bin/python -m benchmarks.preparation.latency --images 1000000 --latencies 20

The images are empty, 1,000 in each inner tar.
"""

import argparse
import shutil
import sys
from collections.abc import Sequence

from benchmarks.preparation.memory import IMAGES_OF_CLASS, multiple_of, tar_of_tars
from benchmarks.preparation.programs import BENCH, run, script

IMAGES = 100_000
# Of a read, in milliseconds.
LATENCIES = (0, 20)

# Runs a console script in which each read of a file of the source waits.
SLOW_READS = """
import runpy, sys, time
from imagenet_workloads.prepare.stores.volume import File
read, latency = File.read, float(sys.argv[1])
def slow(file, offset, size):
    time.sleep(latency)
    return read(file, offset, size)
File.read = slow
sys.argv = sys.argv[2:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def measure_latency(images: int = IMAGES, latencies: Sequence[int] = LATENCIES) -> None:
    """Prints the table of index behind latency.

    Args:
        images: in the archive.
        latencies: milliseconds that each read waits, one after the other.
    """
    archive = BENCH / "slow.tar"
    path, _ = tar_of_tars(archive, [b""], images, images // IMAGES_OF_CLASS)
    print("| latency of a read | images | inner tars | seconds | images/s |")
    print("|---|---|---|---|---|")
    for latency in latencies:
        data = BENCH / "latency"
        shutil.rmtree(data, ignore_errors=True)
        options = ("--source", path, "--data", data, "--shards", "1")
        command = (sys.executable, "-c", SLOW_READS, str(latency / 1000), script("index"), *options)
        seconds = run(*command).seconds
        print(
            f"| {latency} ms | {images:,} | {images // IMAGES_OF_CLASS:,} | "
            f"{seconds:.1f} | {images / seconds:,.0f} |",
            flush=True,
        )
    path.unlink()


def main() -> None:
    """Measures index alone."""
    parser = argparse.ArgumentParser(description="Measure index behind latency.")
    parser.add_argument("--images", type=multiple_of(IMAGES_OF_CLASS), default=IMAGES)
    parser.add_argument(
        "--latencies", type=int, nargs="+", default=LATENCIES, help="of a read, in milliseconds"
    )
    parsed = parser.parse_args()
    BENCH.mkdir(parents=True, exist_ok=True)
    measure_latency(parsed.images, parsed.latencies)


if __name__ == "__main__":
    main()
