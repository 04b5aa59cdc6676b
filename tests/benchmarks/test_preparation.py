"""What `make bench` measures: CPU of whole processes, and im2rec's own calls of OpenCV."""

from __future__ import annotations

import sys
from argparse import ArgumentTypeError
from pathlib import Path

import cv2
import numpy as np
import pytest
from benchmarks.photographs import make_photographs
from benchmarks.preparation import (
    codecs,
    encoders,
    hashing,
    im2rec_calls,
    latency,
    memory,
    programs,
    psnr,
)
from benchmarks.preparation.encoders import Im2Rec
from benchmarks.preparation.programs import NOTHING, Outcome
from benchmarks.preparation.speed import Runs, judge, rows

from support.codecs import needs_libturbojpeg
from support.sentences import assert_says

# A child that computes until it has used 0.2 s of CPU, and a parent that waits for it.
COMPUTE = "import time\nwhile time.process_time() < 0.2: pass"
WITH_CHILD = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {COMPUTE!r}])"


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(programs, "BENCH", tmp_path)
    monkeypatch.setattr("benchmarks.preparation.encoders.BENCH", tmp_path)
    return tmp_path


def test_the_cpu_of_children_counts(bench: Path) -> None:
    assert programs.run(sys.executable, "-c", WITH_CHILD).cpu >= 0.2


def test_time_without_work_is_not_cpu(bench: Path) -> None:
    found = programs.run("sleep", "0.5")
    assert found.seconds >= 0.5
    assert found.cpu < 0.2


def test_figures_are_those_of_the_run_in_the_middle() -> None:
    tool = Runs(NOTHING, [Outcome(seconds, seconds * 2, "") for seconds in (9, 4, 1)], start=2.0)
    ours = Runs(NOTHING, [Outcome(seconds, seconds, "") for seconds in (1, 8, 2)], NOTHING)
    assert rows({"im2rec": tool, "planes": ours}, images=1000) == {
        "im2rec": "250 | 1.00 | 6.00 | 1.00 | 4.0",
        "planes": "500 | 2.00 | 2.00 | 3.00 | 2.0",
    }


def test_the_faster_codec_is_compared_with_the_aim() -> None:
    runs = {"im2rec": 8, "opencv": 4, "planes": 2}
    found = {name: Runs(NOTHING, [Outcome(time, 1, "")]) for name, time in runs.items()}
    facts = ("At 480, `planes`", "4.00 times as fast as im2rec", "aim: at least 4.3")
    assert_says(judge(480, found), *facts)
    found["opencv"].pack[0] = Outcome(1, 1, "")
    facts = ("At 256, `opencv`", "8.00 times as fast as im2rec", "aim: at least 3.9")
    assert_says(judge(256, found), *facts)


@needs_libturbojpeg
def test_the_codecs_are_compared_by_sampling(
    bench: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    codecs.compare_codecs(make_photographs(bench, 8), [64])
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in capsys.readouterr().out.splitlines()
        if line.startswith("| 64")
    ]
    assert [row[1:3] + row[6:] for row in rows] == [
        ["4:4:4", "6", "opencv"], ["4:2:0", "2", "planes"], ["all", "8", "opencv"],
    ]  # fmt: skip
    for row in rows:
        floor, *times = map(float, row[3:6])
        assert floor > 0
        assert min(times) > 0


@pytest.mark.costly
def test_im2rec_s_calls_make_what_im2rec_makes(bench: Path) -> None:
    photographs = make_photographs(bench, 8)
    tool = Im2Rec(photographs, 64, real_time=False)
    tool.prepare()
    tool.pack()
    expected = list(tool.images())
    assert len(expected) == 8
    prefix = bench / "im2rec-64" / "set"
    whole = prefix.with_suffix(".rec").read_bytes()
    prefix.with_suffix(".rec").unlink()

    im2rec_calls.pack(
        prefix, photographs, lambda path: im2rec_calls.encoded(path, 64, 90), threads=2
    )

    assert list(tool.images()) == expected
    assert prefix.with_suffix(".rec").read_bytes() == whole
    for _, jpeg in expected:
        image = cv2.imdecode(np.frombuffer(jpeg, np.uint8), 1)
        assert image is not None and min(image.shape[:2]) == 64


def test_an_opencv_that_cannot_be_installed_is_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    commands: list[tuple[str | Path, ...]] = []
    is_offline = True

    def run(*command: str | Path) -> Outcome:
        commands.append(command)
        if is_offline and "pip" in command:
            sys.exit(f"{command} failed: 1\nWARNING: Retrying\nERROR: No matching distribution\n")
        return Outcome(1.0, 1.0, "4.13.0\n")

    monkeypatch.setattr(encoders, "run", run)
    assert encoders.NewestOpenCv.install() == ""
    said = capsys.readouterr()
    assert_says(said.err, "newest-opencv", "left out", "ERROR: No matching distribution\n")
    assert said.out == ""
    is_offline = False
    commands.clear()
    assert encoders.NewestOpenCv.install() == "4.13.0"
    steps = [command[2] for command in commands]
    assert steps == ["venv", "pip", "import cv2; print(cv2.__version__)"]


@pytest.mark.costly
def test_the_number_of_images_is_an_option(
    bench: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in (latency, memory):
        monkeypatch.setattr(module, "BENCH", bench)
    monkeypatch.setattr(sys, "argv", ["latency", "--images", "2000", "--latencies", "0"])
    latency.main()
    monkeypatch.setattr(sys, "argv", ["memory", "--images", "20000"])
    memory.main()
    printed = capsys.readouterr().out
    assert "| 0 ms | 2,000 | 2 |" in printed
    assert "| imagenet-index | 2,000 |" in printed
    assert "| | 20,000 |" in printed


@pytest.mark.parametrize("text", ["1500", "0", "-1000"])
def test_inner_tars_must_be_full(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match="must be a multiple of 1,000"):
        memory.multiple_of(1000)(text)


@pytest.mark.parametrize(
    ("difference", "said"), [(0, "the same pixels"), (1, "48.1 dB"), (255, "0.0 dB")]
)
def test_pixels_are_compared(difference: int, said: str) -> None:
    black, other = np.zeros((4, 4, 3), np.uint8), np.full((4, 4, 3), difference, np.uint8)
    assert psnr.in_decibels(psnr.mean_psnr(iter([(black, other)]))) == said


@needs_libturbojpeg
def test_the_hash_is_a_part_of_packing(
    bench: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(hashing, "BENCH", bench)
    hashing.measure_hash(make_photographs(bench, 8), [64])
    rows = [line.split("|") for line in capsys.readouterr().out.splitlines() if "| 64" in line]
    assert [row[2].strip() for row in rows] == ["opencv", "planes"]
    for row in rows:
        assert 0 < float(row[4]) < float(row[3])


def test_seal_finds_the_planted_copies(capsys: pytest.CaptureFixture[str]) -> None:
    hashing.measure_seal(2000, 50)
    assert capsys.readouterr().out.endswith("and finds 50 of 50 planted copies.\n")
