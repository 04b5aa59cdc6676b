"""`make bench-gpu` runs through on a machine without a GPU, and says what it has not run."""

import os
import subprocess
import sys
from pathlib import Path

from support.pod_subset import REPOSITORY


def run(folder: Path, module: str, *options: str) -> str:
    """Run a benchmark on one core, without a GPU, in a folder of its own."""
    path = os.pathsep.join([str(REPOSITORY), *filter(None, sys.path)])
    return subprocess.run(
        [
            *("taskset", "--cpu-list", str(min(os.sched_getaffinity(0)))),
            *(sys.executable, "-m", module, *options),
        ],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, "CUDA_VISIBLE_DEVICES": ""},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout


def test_parts_without_their_machine_are_not_run(tmp_path: Path) -> None:
    size = ("--runs", "1", "--photographs", "16", "--small-images", "64")
    lines = run(tmp_path, "benchmarks.gpu", *size).splitlines()
    for cores in (4, 8, 16):
        assert f"| {cores} | not run | |" in lines
    (one,) = [line for line in lines if line.startswith("| 1 | ")]
    assert one.endswith("| 1.000 |")
    for part in ("resnet-20", "resnet-50"):
        assert f"{part}: not run, PyTorch finds no GPU" in lines


def test_no_round_begins_when_the_time_is_over(tmp_path: Path) -> None:
    lines = run(tmp_path, "benchmarks.gpu", "--seconds", "0", "--photographs", "16").splitlines()
    assert "| 1 | not run | |" in lines


def test_the_plain_loop_trains_images_of_which_it_draws_some(tmp_path: Path) -> None:
    size = ("--batch", "4", "--steps", "3", "--images-on-gpu", "9", "--device", "cpu")
    assert float(run(tmp_path, "benchmarks.plain_torch", "--network", "resnet-20", *size)) > 0
