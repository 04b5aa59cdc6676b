"""Encoders that make a .rec file of the photographs: im2rec.py, its calls, and our programs."""

import json
import shutil
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

from benchmarks.preparation import im2rec_calls
from benchmarks.preparation.programs import BENCH, NOTHING, THREADS, Outcome, run, script

QUALITY = 90

_NEWEST_PYTHON = BENCH / "newest-opencv" / "bin" / "python"


class Encoder(Protocol):
    """A program that makes a .rec file of the photographs."""

    def prepare(self) -> Outcome:
        """Lists the photographs."""

    def pack(self) -> Outcome:
        """Makes the .rec file, and replaces an existing one."""

    def finish(self) -> Outcome:
        """Checks what was made."""

    def images(self) -> Iterator[tuple[str, bytes]]:
        """Name and JPEG of the records."""


class Im2Rec:
    """The wheel's im2rec.py, which neither checks nor finishes anything."""

    name = "im2rec"

    def __init__(self, photographs: Path, edge: int, real_time: bool) -> None:
        self._real_time = real_time
        self._photographs = photographs.resolve()
        self._edge = edge
        self._prefix = BENCH.resolve() / f"{self.name}-{edge}" / "set"

    def start(self) -> Outcome:
        """Runs im2rec without any work: its imports."""
        return self._run("--help")

    def prepare(self) -> Outcome:
        """Runs im2rec --list."""
        shutil.rmtree(self._prefix.parent, ignore_errors=True)
        self._prefix.parent.mkdir(parents=True)
        return self._run("--list", "--recursive")

    def pack(self) -> Outcome:
        """Runs im2rec on the list."""
        options = ("--resize", self._edge, "--quality", QUALITY, "--num-thread", THREADS)
        return self._run(*(str(option) for option in options))

    def finish(self) -> Outcome:
        """There is nothing to run."""
        return NOTHING

    def images(self) -> Iterator[tuple[str, bytes]]:
        """Name and JPEG of the records."""
        lines = self._prefix.with_suffix(".lst").read_text().splitlines()
        names = {int(line.split("\t")[0]): line.split("\t")[2] for line in lines}
        return named_records(self._prefix, names)

    def _run(self, *options: str) -> Outcome:
        spec = find_spec("mxnet")
        if spec is None or spec.origin is None:
            sys.exit("mxnet is not installed; run make install")
        tool = Path(spec.origin).parent / "tools" / "im2rec.py"
        places = (self._prefix, self._photographs)
        return run(sys.executable, tool, *options, *places, real_time=self._real_time)


class NewestOpenCv(Im2Rec):
    """im2rec's list, and its own calls of the newest OpenCV in one process (`im2rec_calls`)."""

    name = "newest-opencv"

    @classmethod
    def install(cls) -> str:
        """Installs the newest OpenCV in a virtual environment of its own.

        Returns:
            Its version; empty if it cannot be installed, which stderr then says.
        """
        packages = ("numpy", "opencv-python-headless")
        try:
            # Both also complete and update what an earlier run left.
            run(sys.executable, "-m", "venv", _NEWEST_PYTHON.parents[1])
            run(_NEWEST_PYTHON, "-m", "pip", "install", "--quiet", "--upgrade", *packages)
            return run(_NEWEST_PYTHON, "-c", "import cv2; print(cv2.__version__)").output.strip()
        except SystemExit as error:
            reason = str(error).strip().splitlines()[-1]
            print(f"{cls.name} is left out: {reason}", file=sys.stderr)
            return ""

    def pack(self) -> Outcome:
        """Runs `im2rec_calls` on the list."""
        places = (self._prefix, self._photographs)
        options = (str(option) for option in (self._edge, QUALITY, THREADS))
        program = Path(im2rec_calls.__file__)
        return run(_NEWEST_PYTHON, program, *places, *options, real_time=self._real_time)


class OurPrograms:
    """imagenet-index, imagenet-pack and imagenet-seal, with one of the codecs."""

    def __init__(self, photographs: Path, edge: int, codec: str, real_time: bool) -> None:
        self._real_time = real_time
        self._photographs = photographs
        self._options = ("--resize", str(edge), "--quality", str(QUALITY), "--codec", codec)
        self._data = BENCH / f"{codec}-{edge}"
        self._key = ""

    def prepare(self) -> Outcome:
        """Runs imagenet-index."""
        shutil.rmtree(self._data, ignore_errors=True)
        places = ("--source", self._photographs, "--data", self._data)
        outcome = self._run("index", *places, "--shards", "1", *self._options)
        self._key = json.loads(outcome.output)["key"]
        return outcome

    def pack(self) -> Outcome:
        """Runs imagenet-pack on the one shard."""
        for path in self._dataset().glob("train-*"):
            path.unlink()
        options = ("--source", self._photographs, "--threads", str(THREADS))
        return self._run("pack", "--data", self._data, "--key", self._key, *options)

    def finish(self) -> Outcome:
        """Runs imagenet-seal."""
        return self._run("seal", "--data", self._data, "--key", self._key)

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


def named_records(prefix: Path, names: dict[int, str]) -> Iterator[tuple[str, bytes]]:
    """Name and JPEG of the records of a .rec file, read by MXNet."""
    from mxnet import recordio

    file = recordio.MXIndexedRecordIO(f"{prefix}.idx", f"{prefix}.rec", "r")
    for key in file.keys:
        yield names[key], recordio.unpack(file.read_idx(key))[1]
