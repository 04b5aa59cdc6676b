"""Real processes that are killed, starved or run twice: nothing half-written, nothing lost."""

import json
import subprocess
from pathlib import Path

import pytest

from imagenet_workloads.commands import pack, seal
from support.pictures import collection, write_tar_of_tars
from support.preparation import (
    contents,
    dataset_of,
    finish,
    killed_at,
    prepare,
    run_index,
    stamps,
    start,
    visible,
)
from support.sentences import assert_says

IMAGES = collection({"a": 20, "b": 20})
OPTIONS = ("--shards", "2", "--validation-per-class", "3", "--resize", "20")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_tar_of_tars(tmp_path / "x.tar", IMAGES)


@pytest.fixture
def expected(source: Path, tmp_path: Path) -> dict[str, bytes]:
    return contents(prepare(source, tmp_path / "expected", *OPTIONS))


@pytest.mark.costly
@pytest.mark.parametrize("first", [1, 2])
def test_a_kill_at_any_moment_leaves_only_whole_files(
    first: int, source: Path, expected: dict[str, bytes], tmp_path: Path
) -> None:
    data = tmp_path / "data"
    key = run_index(source, tmp_path / "expected", *OPTIONS)["key"]
    dataset = dataset_of(data, key)
    common = ("--data", data, "--key", key)
    steps: list[tuple[str, tuple[str | Path, ...]]] = [
        ("index", ("--source", source, "--data", data, *OPTIONS)),
        ("pack", (*common, "--source", source, "--threads", "2")),
        ("seal", common),
    ]
    for program, arguments in steps:
        # Every second moment in each of the two tests, which run at the same time.
        n, alive = first, True
        while alive:
            alive = killed_at(n, program, *arguments)
            for name, content in visible(dataset).items():
                assert content == expected[name], f"{program} killed at {n}: {name} is not whole"
            n += 2
    assert contents(dataset) == expected


def test_sigterm_ends_pack_at_once_and_cleanly(source: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    key = run_index(source, data, *OPTIONS)["key"]
    # The first image of the shard is held up until the signal has come.
    hook = """
import os, signal, threading
from imagenet_workloads.prepare import pack
real, told = pack.transcode, threading.Event()
def held(*arguments):
    if not told.is_set():
        told.set()
        os.kill(os.getpid(), signal.SIGTERM)
    return real(*arguments)
pack.transcode = held
"""
    code, _, errors = finish(
        start("pack", "--data", data, "--key", key, "--source", source, hook=hook)
    )
    assert code == 143, errors
    assert {path.name for path in dataset_of(data, key).iterdir()} == {"plan", "limits.json"}


# Ways to fill a disk that need no disk of one's own: files of 1000 bytes at most, and files that
# turn, once they are open, into the device that has no space left.
FULL = {
    "File too large": """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
""",
    "No space left on device": """
import os
from pathlib import Path
real = Path.open
def open(path, mode="r", *arguments, **options):
    file = real(path, mode, *arguments, **options)
    if mode.startswith("x"):
        os.dup2(os.open("/dev/full", os.O_RDWR), file.fileno())
    return file
Path.open = open
""",
}


@pytest.mark.parametrize("reason", FULL)
def test_a_full_disk_is_told_and_leaves_nothing(
    reason: str, source: Path, expected: dict[str, bytes], tmp_path: Path
) -> None:
    data, log = tmp_path / "data", tmp_path / "termination-log"
    index = ("--source", source, "--data", data, *OPTIONS)
    variables = [("IMAGENET_TERMINATION_LOG", str(log))]

    def told(program: str, *arguments: str | Path) -> str:
        started = start(program, *arguments, hook=FULL[reason], variables=variables)
        code, _, errors = finish(started)
        assert code == 3, errors
        assert_says(errors, f": {reason}: ", "the volume", "the quota", "is full")
        assert_says(errors, "enlarge it", "finished shards are kept")
        assert errors.splitlines()[-1] == f"imagenet-{program}: error: {log.read_text()}"
        return errors

    told("index", *index)
    assert contents(data) == {}
    key = run_index(source, data, *OPTIONS)["key"]
    dataset, common = dataset_of(data, key), ("--data", data, "--key", key)
    assert f"{dataset}/train-00000-of-00002.rec" in told("pack", *common, "--source", source)
    assert {path.name for path in dataset.iterdir()} == {"plan", "limits.json"}
    assert pack.main([str(part) for part in (*common, "--source", source)]) == 0
    assert f"{dataset}/dataset.json" in told("seal", *common)
    assert not (dataset / "dataset.json").exists()
    assert seal.main([str(part) for part in common]) == 0
    assert contents(dataset) == expected


@pytest.mark.costly
def test_runs_at_the_same_time_end_in_one_dataset(
    source: Path, expected: dict[str, bytes], tmp_path: Path
) -> None:
    data = tmp_path / "data"

    def both(program: str, *arguments: str | Path) -> list[str]:
        processes: list[subprocess.Popen[str]] = [start(program, *arguments) for _ in range(3)]
        results = [finish(process) for process in processes]
        assert [code for code, _, _ in results] == [0] * 3, results
        return [output for _, output, _ in results]

    found = [
        json.loads(text) for text in both("index", "--source", source, "--data", data, *OPTIONS)
    ]
    key = found[0]["key"]
    assert found == [found[0]] * 3
    both("pack", "--data", data, "--key", key, "--source", source)
    both("seal", "--data", data, "--key", key)
    assert contents(dataset_of(data, key)) == expected
    assert [path.name for path in (data / "datasets").iterdir()] == [key]


def test_what_is_sealed_survives_a_kill_of_everything_after(
    source: Path, expected: dict[str, bytes], tmp_path: Path
) -> None:
    dataset = prepare(source, tmp_path / "data", *OPTIONS)
    before = stamps(dataset)
    for n in range(1, 4):
        killed_at(n, "index", "--source", source, "--data", tmp_path / "data", *OPTIONS)
        killed_at(n, "pack", "--data", tmp_path / "data", "--key", dataset.name)
        killed_at(n, "seal", "--data", tmp_path / "data", "--key", dataset.name)
    assert stamps(dataset) == before
    assert contents(dataset) == expected
    common = ["--data", str(tmp_path / "data"), "--key", dataset.name]
    assert (pack.main(common), seal.main(common)) == (0, 0)
