"""How much memory index and pack take at most, at 1x and 10x the images.

    .venv/bin/python -m benchmarks.preparation.memory --images 14000000

measures index alone. Its images are empty, 1,000 in each inner tar: 14 million take 7.4 GB of disk
below build/bench.
"""

import argparse
import io
import json
import shutil
import sys
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.photographs import CLASSES
from benchmarks.preparation.programs import BENCH, THREADS, run, script

# As in ImageNet; the images of some classes are in memory until their turn.
IMAGES_OF_CLASS = 1000
# Of the larger archive for index.
IMAGES = 1_500_000

# Runs a console script, and says at its end how much memory it took at most, in kB: the kernel's
# account for waiting parents would begin with the memory of this program.
TELL_PEAK = """
import atexit, runpy, sys
def tell():
    with open("/proc/self/status") as file:
        print(next(line.split()[1] for line in file if line.startswith("VmHWM")))
atexit.register(tell)
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def compare_memory(photographs: Path) -> None:
    """Prints the table of peak memory at 1x and 10x the images."""
    compare_index(IMAGES)
    jpegs = [path.read_bytes() for path in sorted(photographs.rglob("*.JPEG"))[:50]]
    real = [tar_of_tars(BENCH / f"real-{count}.tar", jpegs, count) for count in (500, 5_000)]
    print_memory("pack", [(count, pack_peak(path)) for path, count in real])
    for path, _ in real:
        path.unlink()


def compare_index(images: int) -> None:
    """Prints the head of the table, and the rows of index at a tenth of the images and at all."""
    print("| program | images | peak memory | bytes more an image |")
    print("|---|---|---|---|")
    peaks = []
    for count in (images // 10, images):
        archive = BENCH / f"tiny-{count}.tar"
        path, _ = tar_of_tars(archive, [b""], count, count // IMAGES_OF_CLASS)
        peaks.append((count, index_peak(path)[0]))
        path.unlink()
    print_memory("index", peaks)


def print_memory(program: str, peaks: Sequence[tuple[int, int]]) -> None:
    """Prints a program's rows."""
    (few, low), (many, high) = peaks
    print(f"| imagenet-{program} | {few:,} | {low / 2**20:.1f} MiB | |")
    slope = (high - low) / (many - few)
    print(f"| | {many:,} | {high / 2**20:.1f} MiB | {slope:.1f} |", flush=True)


def index_peak(source: Path) -> tuple[int, str]:
    """The peak memory of imagenet-index, and the key that it made."""
    data = BENCH / "memory"
    shutil.rmtree(data, ignore_errors=True)
    options = ("--shards", "1", "--validation-per-class", "5", "--resize", "256")
    output, peak = run_for_peak("index", "--source", source, "--data", data, *options)
    return peak, json.loads(output)["key"]


def pack_peak(source: Path) -> int:
    """The peak memory of imagenet-pack, on one shard."""
    _, key = index_peak(source)
    options = ("--source", source, "--shard", "0", "--threads", str(THREADS))
    return run_for_peak("pack", "--data", BENCH / "memory", "--key", key, *options)[1]


def run_for_peak(name: str, *options: str | Path) -> tuple[str, int]:
    """The output of one of our programs, and its peak memory in bytes."""
    outcome = run(sys.executable, "-c", TELL_PEAK, script(name), *options)
    *output, kilobytes = outcome.output.splitlines()
    return "\n".join(output), int(kilobytes) * 1024


def tar_of_tars(
    path: Path, contents: list[bytes], images: int, classes: int = CLASSES
) -> tuple[Path, int]:
    """Writes a tar of class tars whose images repeat `contents`; returns it with its count."""
    with tarfile.open(path, "w") as outer:
        for number in range(classes):
            inner = io.BytesIO()
            with tarfile.open(fileobj=inner, mode="w") as archive:
                for image in range(number, images, classes):
                    add(archive, f"n{number:08}_{image}.JPEG", contents[image % len(contents)])
            add(outer, f"n{number:08}.tar", inner.getvalue())
    return path, images


def add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    """Adds a member to a tar."""
    member = tarfile.TarInfo(name)
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))


def multiple_of(number: int) -> Callable[[str], int]:
    """The type of an option that counts images, for argparse."""

    def read(text: str) -> int:
        images = int(text)
        if images <= 0 or images % number:
            raise argparse.ArgumentTypeError(f"must be a multiple of {number:,}, as {10 * number}")
        return images

    return read


def main() -> None:
    """Measures index alone."""
    parser = argparse.ArgumentParser(description="Measure the peak memory of index.")
    # A tenth of them fills inner tars too.
    size = multiple_of(10 * IMAGES_OF_CLASS)
    parser.add_argument("--images", type=size, default=IMAGES, help="of the larger archive")
    images = parser.parse_args().images
    BENCH.mkdir(parents=True, exist_ok=True)
    compare_index(images)


if __name__ == "__main__":
    main()
