"""Runs the preparing programs as a pod or a person does, and reads what they leave."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from imagenet_workloads.commands import index, pack, seal
from support import tfrecord
from support.processes import DEADLINE_SECONDS

# A hook for `start`: permissions then apply to root, too, as which tests may run.
WITHOUT_PRIVILEGES = """
import ctypes
version, nothing = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
assert ctypes.CDLL(None).capset(version, nothing) == 0
"""

# Ends the process by SIGKILL at the n-th call of one of the functions that change the volume.
KILL = """
import os, signal, sys
calls = 0
def deadly(real):
    def call(*arguments, **options):
        global calls
        calls += 1
        if calls == {n}:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments, **options)
    return call
for name in ("rename", "fsync", "mkdir", "unlink"):
    setattr(os, name, deadly(getattr(os, name)))
"""


class Record(NamedTuple):
    """One record of a dataset, as MXNet reads it."""

    split: str
    key: int
    label: float
    jpeg: bytes


def prepare(source: Path | None, data: Path, *options: str, threads: int = 2) -> Path:
    """Runs index, pack and seal in this process; returns the dataset's folder."""
    key = run_index(source, data, *options)["key"]
    sources = [] if source is None else ["--source", str(source)]
    for option in ("--validation-source", "--path-in-archive", "--prepared"):
        if option in options:
            place = options.index(option)
            sources += options[place : place + 2]
    common = ["--data", str(data), "--key", key]
    assert pack.main([*common, *sources, "--threads", str(threads)]) == 0
    assert seal.main(common) == 0
    return dataset_of(data, key)


def run_index(source: Path | None, data: Path, *options: str) -> dict[str, Any]:
    """Runs imagenet-index in this process; returns its result."""
    log = data.parent / f"{data.name}-termination-log"
    arguments = [] if source is None else ["--source", str(source)]
    before = os.environ.get("IMAGENET_TERMINATION_LOG")
    os.environ["IMAGENET_TERMINATION_LOG"] = str(log)
    try:
        code = index.main([*arguments, "--data", str(data), *options])
    finally:
        if before is None:
            del os.environ["IMAGENET_TERMINATION_LOG"]
        else:
            os.environ["IMAGENET_TERMINATION_LOG"] = before
    assert code == 0, log.read_text()
    result: dict[str, Any] = json.loads(log.read_text())
    return result


def refused(capfd: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    """Runs imagenet-index, which must end with exit code 3; returns what it says on stderr."""
    assert index.main([str(argument) for argument in arguments]) == 3
    return capfd.readouterr().err


def dataset_of(data: Path, key: str) -> Path:
    """The folder of a dataset."""
    return data / "datasets" / key


def records(dataset: Path) -> Iterator[Record]:
    """Every record of a sealed dataset, read by mx.recordio through its index."""
    from mxnet import recordio

    document = json.loads((dataset / "dataset.json").read_text())
    for split, content in document["splits"].items():
        for shard in content["shards"]:
            file = recordio.MXIndexedRecordIO(
                str(dataset / shard["index"]), str(dataset / shard["record"]), "r"
            )
            for key in file.keys:
                header, jpeg = recordio.unpack(file.read_idx(key))
                assert (header.flag, header.id) == (0, key)
                yield Record(split, key, header.label, jpeg)


def examples(dataset: Path) -> Iterator[tuple[str, tfrecord.Features]]:
    """Split and features of every record of a sealed TFRecord dataset, in order."""
    document = json.loads((dataset / "dataset.json").read_text())
    for split, content in document["splits"].items():
        for shard in content["shards"]:
            for record in tfrecord.records((dataset / shard["record"]).read_bytes()):
                yield split, tfrecord.features(record)


def contents(folder: Path) -> dict[str, bytes]:
    """The bytes of every file under a folder, by its path."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def visible(dataset: Path) -> dict[str, bytes]:
    """The bytes of every file that is there under its own name."""
    return {name: content for name, content in contents(dataset).items() if "/." not in f"/{name}"}


def stamps(folder: Path) -> dict[Path, tuple[int, int, int]]:
    """What shows that a file under a folder was written again: inode, size and time of change."""
    status = {path: path.stat() for path in folder.rglob("*")}
    return {path: (s.st_ino, s.st_size, s.st_mtime_ns) for path, s in status.items()}


def start(
    name: str, *arguments: str | Path, hook: str = "", variables: Sequence[tuple[str, str]] = ()
) -> subprocess.Popen[str]:
    """Starts a preparing program as a process of its own.

    Args:
        name: `index`, `pack` or `seal`.
        arguments: its command line.
        hook: Python that runs in the process before the program, such as to break something.
        variables: of its environment.
    """
    code = (
        f"{hook}\nimport sys\nfrom imagenet_workloads.commands.{name} import main\nsys.exit(main())"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A process that may write little would leave half a .pyc, which Python then believes.
        env={
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            **dict(variables),
        },
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Waits for a process; returns exit code, stdout and stderr."""
    output, errors = process.communicate(timeout=DEADLINE_SECONDS)
    return process.returncode, output, errors


def killed_at(n: int, program: str, *arguments: str | Path) -> bool:
    """Runs a program that is killed at its n-th change of the volume; False if it has fewer."""
    code, _, errors = finish(start(program, *arguments, hook=KILL.format(n=n)))
    assert code in (0, -signal.SIGKILL), errors
    return code != 0


def verify(dataset: Path) -> int:
    """Compare a sealed dataset's checksums; return the exit code of imagenet-seal."""
    return seal.main(["--data", str(dataset.parents[1]), "--key", dataset.name, "--verify"])


def flip(path: Path) -> None:
    """Damage a file in its middle; its length stays."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def cut(path: Path) -> None:
    """Take the end of a file away."""
    path.write_bytes(path.read_bytes()[:-4])
