"""Measures preprocessing against MXNet's own im2rec.py: speed, likeness of the pixels, memory.

    make bench                                     # about 10 minutes on 2 cores
    .venv/bin/python benchmarks/preparation.py --images 500 --runs 1 --skip-memory

Prints Markdown; docs/benchmarks.md holds a run's output. The programs run as they are delivered, in
turn, on the same files in the page cache and the same cores; a figure is the median of its runs.
The photographs (scikit-learn's two, cropped, warped and lit in many ways, about 500x375) and all
outputs stay under build/bench; the photographs are made once.
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
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import cv2
import numpy as np
import numpy.typing as npt
from sklearn.datasets import load_sample_images

Pixels = npt.NDArray[np.uint8]

BENCH = Path("build/bench")
THREADS = 2
QUALITY = 90
EDGES = (480, 256)
WAYS = ("im2rec", "opencv", "planes")
# Records whose pixels are compared.
COMPARED = 200
CLASSES = 20


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


class Outcome(NamedTuple):
    """How a program ran.

    Attributes:
        seconds: from its start to its end.
        output: its stdout.
    """

    seconds: float
    output: str


def run(*command: str | Path) -> Outcome:
    """Runs a program to its end.

    Raises:
        SystemExit: it failed.
    """
    output, errors = BENCH / "stdout.txt", BENCH / "stderr.txt"
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
    return Outcome(seconds, output.read_text())


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

    def __init__(self, photographs: Path, edge: int) -> None:
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
        return run(sys.executable, tool, *options, self._prefix, self._photographs).seconds


class Ours:
    """imagenet-index, imagenet-pack and imagenet-seal, with one of the codecs."""

    def __init__(self, photographs: Path, edge: int, codec: str) -> None:
        self._photographs = photographs
        self._options = ("--resize", str(edge), "--quality", str(QUALITY), "--codec", codec)
        self._data = BENCH / f"{codec}-{edge}"
        self._key = ""

    def prepare(self) -> float:
        """Runs imagenet-index."""
        shutil.rmtree(self._data, ignore_errors=True)
        command = (script("index"), "--source", self._photographs, "--data", self._data)
        outcome = run(*command, "--shards", "1", *self._options)
        self._key = json.loads(outcome.output)["key"]
        return outcome.seconds

    def pack(self) -> float:
        """Runs imagenet-pack on the one shard."""
        for path in self._dataset().glob("train-*"):
            path.unlink()
        options = ("--source", self._photographs, "--threads", str(THREADS))
        return run(script("pack"), "--data", self._data, "--key", self._key, *options).seconds

    def finish(self) -> float:
        """Runs imagenet-seal."""
        return run(script("seal"), "--data", self._data, "--key", self._key).seconds

    def images(self) -> Iterator[tuple[str, bytes]]:
        """Name and JPEG of the records."""
        (listing,) = (self._dataset() / "plan").glob("*.jsonl")
        rows = map(json.loads, listing.read_text().splitlines())
        (record,) = self._dataset().glob("*.rec")
        return named_records(record.with_suffix(""), {row[0]: row[4] for row in rows})

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


# The photographs.


def make_photographs(images: int) -> Path:
    """Makes the folder of photographs, in class folders, where it is not there yet."""
    folder = BENCH / f"photographs-{images}"
    if folder.exists():
        return folder
    making = folder.with_suffix(".making")
    shutil.rmtree(making, ignore_errors=True)
    photographs = [np.asarray(image)[:, :, ::-1] for image in load_sample_images().images]
    random = np.random.default_rng(0)
    for number in range(images):
        path = making / f"n{number % CLASSES:08}" / f"{number:06}.JPEG"
        path.parent.mkdir(parents=True, exist_ok=True)
        view = take_view(photographs[number % len(photographs)], random)
        quality = [cv2.IMWRITE_JPEG_QUALITY, int(random.integers(75, 91))]
        cv2.imwrite(str(path), view, quality)
    making.rename(folder)
    return folder


def take_view(photograph: Pixels, random: np.random.Generator) -> Pixels:
    """A part of a photograph in another perspective and light, one in four upright."""
    width, height = (500, 375) if random.integers(4) else (375, 500)
    width -= int(random.integers(8))
    rows, columns = photograph.shape[:2]
    part = random.uniform(0.75, 1) * min(columns / width, rows / height)
    left = random.uniform(0, columns - part * width)
    top = random.uniform(0, rows - part * height)
    corners = np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float32)
    seen = corners * part + (left, top) + random.uniform(-20, 20, (4, 2))
    view: npt.NDArray[Any] = cv2.warpPerspective(
        photograph,
        cv2.getPerspectiveTransform(seen.astype(np.float32), corners),
        (width, height),
        flags=cv2.INTER_CUBIC,
        borderMode=cv2.BORDER_REFLECT,
    )
    light = view * random.uniform(0.8, 1.2) + random.uniform(-15, 15)
    return np.asarray(np.clip(light, 0, 255), np.uint8)


# Speed and likeness.


def compare_speed(photographs: Path, runs: int) -> None:
    """Prints the table of speeds and of the pixels' likeness to im2rec's."""
    images = sum(1 for path in photographs.rglob("*.JPEG") if path.read_bytes())  # all cached now
    print(
        "| shorter edge | by | images/s | x im2rec | all steps, s | PSNR to im2rec | to no JPEG |"
    )
    print("|---|---|---|---|---|---|---|")
    for edge in EDGES:
        ways: dict[str, Way] = {
            name: Im2Rec(photographs, edge) if name == "im2rec" else Ours(photographs, edge, name)
            for name in WAYS
        }
        before = {name: way.prepare() for name, way in ways.items()}
        times: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(runs):
            for name, way in ways.items():
                times[name].append(way.pack())
        after = {name: way.finish() for name, way in ways.items()}
        median = {name: statistics.median(values) for name, values in times.items()}
        reference = some_pixels(ways["im2rec"])
        for name, way in ways.items():
            found = reference if name == "im2rec" else some_pixels(way)
            to_im2rec = mean_psnr((found[key], reference[key]) for key in reference)
            to_source = mean_psnr(
                (found[key], resized(photographs / key, edge)) for key in reference
            )
            print(
                f"| {edge} | {name} | {images / median[name]:.0f} "
                f"| {median['im2rec'] / median[name]:.2f} "
                f"| {before[name] + median[name] + after[name]:.1f} "
                f"| {'' if name == 'im2rec' else f'{to_im2rec:.1f} dB'} | {to_source:.1f} dB |",
                flush=True,
            )


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
    parsed = parser.parse_args()
    BENCH.mkdir(parents=True, exist_ok=True)
    photographs = make_photographs(parsed.images)
    sizes = [path.stat().st_size for path in photographs.rglob("*.JPEG")]
    print(
        f"{len(sizes)} JPEGs of about 500x375 and {statistics.fmean(sizes) / 1024:.0f} KiB, "
        f"quality {QUALITY}, --num-thread {THREADS} of im2rec.py and --threads {THREADS} of "
        f"imagenet-pack on {len(os.sched_getaffinity(0))} cores ({platform.machine()}), "
        f"median of {parsed.runs} runs in turn.\n"
    )
    compare_speed(photographs, parsed.runs)
    if not parsed.skip_memory:
        print()
        compare_memory(photographs)


if __name__ == "__main__":
    main()
