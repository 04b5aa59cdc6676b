"""Measures preprocessing against MXNet's own im2rec.py: speed, likeness of the pixels, memory.

    make bench                                     # about 4 minutes on 2 cores
    .venv/bin/python -m benchmarks.preparation --images 500 --runs 1 --skip-memory
    .venv/bin/python -m benchmarks.preparation --real-time     # as root, on a machine that is busy

Prints Markdown; docs/benchmarks.md holds a run's output. The programs run as they are delivered, in
turn, on the same files in the page cache and the same cores; a figure is the median of its runs.
The photographs and all outputs stay under build/bench; the photographs are made once.
"""

import argparse
import io
import json
import math
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple, Protocol

import cv2
import numpy as np
import numpy.typing as npt
from benchmarks.photographs import CLASSES, make_photographs

Pixels = npt.NDArray[np.uint8]

BENCH = Path("build/bench")
THREADS = 2
QUALITY = 90
EDGES = (480, 256)
# Records whose pixels are compared.
COMPARED = 200


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


# Runs what follows before all else on the machine, and so as if that were idle.
REAL_TIME = ("chrt", "--rr", "5")


class Outcome(NamedTuple):
    """How a program ran.

    Attributes:
        seconds: from its start to its end.
        output: its stdout.
    """

    seconds: float
    output: str


def run(*command: str | Path, real_time: bool = False) -> Outcome:
    """Runs a program to its end.

    Args:
        command: the program and its arguments.
        real_time: nothing else may run meanwhile; afterwards it may for as long.

    Raises:
        SystemExit: it failed.
    """
    command = (*REAL_TIME, *command) if real_time else command
    output, errors = BENCH / "stdout.txt", BENCH / "stderr.txt"
    # im2rec leaves its output in memory; writing it must not fall into the next program's time.
    os.sync()
    start = time.monotonic()
    with output.open("wb") as stdout, errors.open("wb") as stderr:
        process = subprocess.run(
            [str(part) for part in command],
            stdout=stdout,
            stderr=stderr,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            check=False,
        )
    seconds = time.monotonic() - start
    if process.returncode:
        sys.exit(f"{command} failed: {process.returncode}\n{errors.read_text()}")
    if real_time:
        time.sleep(seconds)
    return Outcome(seconds, output.read_text())


@dataclass
class Times:
    """The seconds that one way takes.

    Attributes:
        prepare: before packing.
        pack: of each run.
        finish: after packing.
    """

    prepare: float
    pack: list[float] = field(default_factory=list)
    finish: float = 0.0

    def packing(self) -> float:
        """Of the run in the middle."""
        return statistics.median(self.pack)

    def all(self) -> float:
        """From the first step to the last."""
        return self.prepare + self.packing() + self.finish


class Way(Protocol):
    """One way to make a .rec file of the photographs."""

    def prepare(self) -> float:
        """Lists the photographs; returns the seconds that it took."""

    def pack(self) -> float:
        """Makes the .rec file, anew if it is there; returns the seconds that it took."""

    def finish(self) -> float:
        """Checks what was made; returns the seconds that it took."""

    def images(self) -> Iterator[tuple[str, bytes]]:
        """Name and JPEG of the records."""


class Im2Rec:
    """The wheel's im2rec.py, which neither checks nor finishes anything."""

    def __init__(self, photographs: Path, edge: int, real_time: bool) -> None:
        self._real_time = real_time
        self._photographs = photographs.resolve()
        self._edge = edge
        self._prefix = BENCH.resolve() / f"im2rec-{edge}" / "set"

    def prepare(self) -> float:
        """Runs im2rec --list."""
        shutil.rmtree(self._prefix.parent, ignore_errors=True)
        self._prefix.parent.mkdir(parents=True)
        return self._run("--list", "--recursive")

    def pack(self) -> float:
        """Runs im2rec on the list."""
        options = ("--resize", self._edge, "--quality", QUALITY, "--num-thread", THREADS)
        return self._run(*(str(option) for option in options))

    def finish(self) -> float:
        """There is nothing to run."""
        return 0.0

    def images(self) -> Iterator[tuple[str, bytes]]:
        """Name and JPEG of the records."""
        lines = self._prefix.with_suffix(".lst").read_text().splitlines()
        names = {int(line.split("\t")[0]): line.split("\t")[2] for line in lines}
        return named_records(self._prefix, names)

    def _run(self, *options: str) -> float:
        spec = find_spec("mxnet")
        if spec is None or spec.origin is None:
            sys.exit("mxnet is not installed; run make install")
        tool = Path(spec.origin).parent / "tools" / "im2rec.py"
        places = (self._prefix, self._photographs)
        return run(sys.executable, tool, *options, *places, real_time=self._real_time).seconds


class Ours:
    """imagenet-index, imagenet-pack and imagenet-seal, with one of the codecs."""

    def __init__(self, photographs: Path, edge: int, codec: str, real_time: bool) -> None:
        self._real_time = real_time
        self._photographs = photographs
        self._options = ("--resize", str(edge), "--quality", str(QUALITY), "--codec", codec)
        self._data = BENCH / f"{codec}-{edge}"
        self._key = ""

    def prepare(self) -> float:
        """Runs imagenet-index."""
        shutil.rmtree(self._data, ignore_errors=True)
        places = ("--source", self._photographs, "--data", self._data)
        outcome = self._run("index", *places, "--shards", "1", *self._options)
        self._key = json.loads(outcome.output)["key"]
        return outcome.seconds

    def pack(self) -> float:
        """Runs imagenet-pack on the one shard."""
        for path in self._dataset().glob("train-*"):
            path.unlink()
        options = ("--source", self._photographs, "--threads", str(THREADS))
        return self._run("pack", "--data", self._data, "--key", self._key, *options).seconds

    def finish(self) -> float:
        """Runs imagenet-seal."""
        return self._run("seal", "--data", self._data, "--key", self._key).seconds

    def images(self) -> Iterator[tuple[str, bytes]]:
        """Name and JPEG of the records."""
        (listing,) = (self._dataset() / "plan").glob("*.jsonl")
        rows = map(json.loads, listing.read_text().splitlines())
        (record,) = self._dataset().glob("*.rec")
        return named_records(record.with_suffix(""), {row[0]: row[4] for row in rows})

    def _run(self, program: str, *options: str | Path) -> Outcome:
        return run(script(program), *options, real_time=self._real_time)

    def _dataset(self) -> Path:
        return self._data / "datasets" / self._key


def script(name: str) -> Path:
    """One of our programs, beside this Python."""
    return Path(sys.executable).with_name(f"imagenet-{name}")


def named_records(prefix: Path, names: dict[int, str]) -> Iterator[tuple[str, bytes]]:
    """Name and JPEG of the records of a .rec file, read by MXNet."""
    from mxnet import recordio

    file = recordio.MXIndexedRecordIO(f"{prefix}.idx", f"{prefix}.rec", "r")
    for key in file.keys:
        yield names[key], recordio.unpack(file.read_idx(key))[1]


# Speed and likeness.


def compare_speed(photographs: Path, runs: int, real_time: bool) -> None:
    """Prints the table of speeds and of the pixels' likeness to im2rec's."""
    images = sum(1 for path in photographs.rglob("*.JPEG") if path.read_bytes())  # all cached now
    print(
        "| shorter edge | by | images/s | x im2rec | all steps, s | PSNR to im2rec | to no JPEG |"
    )
    print("|---|---|---|---|---|---|---|")
    for edge in EDGES:
        ways: dict[str, Way] = {
            "im2rec": Im2Rec(photographs, edge, real_time),
            "opencv": Ours(photographs, edge, "opencv", real_time),
            "planes": Ours(photographs, edge, "planes", real_time),
        }
        times = {name: Times(prepare=way.prepare()) for name, way in ways.items()}
        for _ in range(runs):
            for name, way in ways.items():
                times[name].pack.append(way.pack())
        for name, way in ways.items():
            times[name].finish = way.finish()
        likeness = compare_pixels(photographs, edge, ways)
        for name, taken in times.items():
            print(
                f"| {edge} | {name} | {images / taken.packing():.0f} "
                f"| {times['im2rec'].packing() / taken.packing():.2f} "
                f"| {taken.all():.1f} | {likeness[name]} |",
                flush=True,
            )


def compare_pixels(photographs: Path, edge: int, ways: dict[str, Way]) -> dict[str, str]:
    """By way, the row's cells that tell how like im2rec's pixels, and the source's, its are."""
    cells = {}
    reference = some_pixels(ways["im2rec"])
    sources = {key: resized(photographs / key, edge) for key in reference}
    for name, way in ways.items():
        found = reference if name == "im2rec" else some_pixels(way)
        to_im2rec = mean_psnr((found[key], reference[key]) for key in reference)
        to_source = mean_psnr((found[key], sources[key]) for key in reference)
        itself = name == "im2rec"
        cells[name] = f"{'' if itself else f'{to_im2rec:.1f} dB'} | {to_source:.1f} dB"
    return cells


def some_pixels(way: Way) -> dict[str, Pixels]:
    """The pixels of the first records by name, decoded by OpenCV."""
    first = sorted(way.images())[:COMPARED]
    return {name: decode(jpeg) for name, jpeg in first}


def decode(jpeg: bytes) -> Pixels:
    """The pixels of a JPEG."""
    pixels = cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR)
    return np.asarray(pixels, np.uint8)


def resized(path: Path, edge: int) -> Pixels:
    """What im2rec would store if encoding lost nothing."""
    pixels = decode(path.read_bytes())
    height, width = pixels.shape[:2]
    size = (edge, height * edge // width) if height > width else (width * edge // height, edge)
    return np.asarray(cv2.resize(pixels, size), np.uint8)


def mean_psnr(pairs: Iterator[tuple[Pixels, Pixels]]) -> float:
    """Peak signal-to-noise ratio in dB, over the mean square error of all images."""
    errors = [float(np.mean((one.astype(np.float32) - other) ** 2)) for one, other in pairs]
    mean = statistics.fmean(errors)
    return 10 * math.log10(255**2 / mean) if mean else math.inf


# Memory.


def compare_memory(photographs: Path) -> None:
    """Prints the table of peak memory at 1x and 10x the images."""
    print("| program | images | peak memory | bytes more an image |")
    print("|---|---|---|---|")
    tiny = [tar_of_tars(BENCH / f"tiny-{count}.tar", [b"x"], count) for count in (50_000, 500_000)]
    print_memory("index", [(count, index_peak(path)[0]) for path, count in tiny])
    jpegs = [path.read_bytes() for path in sorted(photographs.rglob("*.JPEG"))[:50]]
    real = [tar_of_tars(BENCH / f"real-{count}.tar", jpegs, count) for count in (500, 5_000)]
    print_memory("pack", [(count, pack_peak(path)) for path, count in real])
    for path, _ in (*tiny, *real):
        path.unlink()


def print_memory(program: str, peaks: Sequence[tuple[int, int]]) -> None:
    """Prints a program's rows."""
    (few, low), (many, high) = peaks
    print(f"| imagenet-{program} | {few} | {low / 2**20:.1f} MiB | |")
    slope = (high - low) / (many - few)
    print(f"| | {many} | {high / 2**20:.1f} MiB | {slope:.1f} |", flush=True)


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


def tar_of_tars(path: Path, contents: list[bytes], images: int) -> tuple[Path, int]:
    """Writes a tar of class tars whose images repeat `contents`; returns it with its count."""
    with tarfile.open(path, "w") as outer:
        for number in range(CLASSES):
            inner = io.BytesIO()
            with tarfile.open(fileobj=inner, mode="w") as archive:
                for image in range(number, images, CLASSES):
                    add(archive, f"n{number:08}_{image}.JPEG", contents[image % len(contents)])
            add(outer, f"n{number:08}.tar", inner.getvalue())
    return path, images


def add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    """Adds a member to a tar."""
    member = tarfile.TarInfo(name)
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description="Measure preprocessing against im2rec.py.")
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--runs", type=int, default=5, help="of each program")
    parser.add_argument("--skip-memory", action="store_true")
    parser.add_argument(
        "--real-time", action="store_true", help="let nothing else run beside a program (as root)"
    )
    parsed = parser.parse_args()
    BENCH.mkdir(parents=True, exist_ok=True)
    photographs = make_photographs(BENCH, parsed.images)
    sizes = [path.stat().st_size for path in photographs.rglob("*.JPEG")]
    print(
        f"{len(sizes)} JPEGs of about 500x375 and {statistics.fmean(sizes) / 1024:.0f} KiB, "
        f"quality {QUALITY}, --num-thread {THREADS} of im2rec.py and --threads {THREADS} of "
        f"imagenet-pack on {len(os.sched_getaffinity(0))} cores ({platform.machine()}), "
        f"median of {parsed.runs} runs in turn"
        f"{', each with real-time priority' if parsed.real_time else ''}.\n"
    )
    compare_speed(photographs, parsed.runs, parsed.real_time)
    if not parsed.skip_memory:
        print()
        compare_memory(photographs)


if __name__ == "__main__":
    main()
