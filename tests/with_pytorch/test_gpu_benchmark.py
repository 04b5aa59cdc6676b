"""`make bench-gpu` runs through on a machine without a GPU, and says what it has not run."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import torch
from benchmarks.gpu import __main__ as gpu

from imagenet_workloads.commands.train import parse
from support.pod_subset import REPOSITORY
from support.sentences import assert_says


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


SMALL = ("--runs", "1", "--photographs", "16", "--small-images", "64")
ON_CPU = (*SMALL, "--on-cpu", "--batch", "2", "--steps", "3", "--small-batch", "8")
PARTS = {"reading", "resnet-50", "sizes", "restart", "small", "projection"}


def only(*parts: str) -> tuple[str, ...]:
    return ("--skip", *sorted(PARTS - set(parts)))


def cells(lines: list[str], *first: str) -> list[str]:
    """The figures of the row that begins with some cells."""
    start = f"| {' | '.join(first)} |"
    (line,) = (line for line in lines if line.startswith(start))
    return [cell.strip() for cell in line.removeprefix(start).strip("|").split("|")]


def test_parts_without_their_machine_are_not_run(tmp_path: Path) -> None:
    text = run(tmp_path, "benchmarks.gpu", *SMALL)
    assert_says(text, "needs a GPU is not run", "PyTorch finds none")
    lines = text.splitlines()
    for cores in (4, 8, 16):
        assert cells(lines, "256", "224", str(cores)) == ["not run", ""]
    assert cells(lines, "256", "224", "1")[1] == "1.000"
    for how in ("compiled", "eager"):
        assert cells(lines, "one batch", how, "imagenet-train") == ["not run", ""]
    assert cells(lines, "160", "compiled") == ["not run", ""]
    assert cells(lines, "SIGKILL to next step, s") == ["not run"]
    assert cells(lines, "at most 1.4 GPU-hours on 16 cores") == ["not run"]


def test_on_a_gpu_every_part_but_the_processes_runs_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With 16 cores; what would be measured is made up."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "a card")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "")
    compiled: list[gpu.Device] = []
    monkeypatch.setattr(gpu, "_compile", lambda options, device, deadline: compiled.append(device))
    monkeypatch.setattr(gpu, "_restart", lambda *_: None)

    def speed(command: gpu.Command, deadline: float) -> float:
        if command.size is not None:
            options = parse(command.line[3:])
            assert options.model.dtype == "bfloat16"
            assert options.model.compile is not None
            return 1e12 / options.model.image_shape[1] ** 4 * (2 if options.model.compile else 1)
        count = len(command.line[2].split(",")) if command.line[0] == "taskset" else 4
        return 1000.0 * count

    monkeypatch.setattr(gpu, "_speed", speed)
    monkeypatch.setattr(sys, "argv", ["gpu", "--photographs", "16", "--small-images", "512"])
    gpu.main()
    lines = capsys.readouterr().out.splitlines()
    assert compiled == [gpu.Device("a card", True)]
    # Three rounds of 224 pixels, and one of all others.
    results = Path("build/bench/gpu/results.jsonl").read_text().splitlines()
    counts = Counter(json.loads(one)["row"][0] for one in results)
    assert counts == {"resnet-50": 3 * 6, "reading": 4 + 2, "sizes": 2, "small": 2}
    assert cells(lines, "256", "224", "16") == ["16,000", "16.000"]
    assert cells(lines, "160", "compiled") == ["3,052", ""]
    assert cells(lines, "192", "eager") == ["736", ""]
    assert cells(lines, "32 epochs, 160 to 192")[1::2] != ["not run", "not run"]
    assert cells(lines, "at most 2.0 GPU-hours on 8 cores")[0].endswith(" on a card")
    assert "not run" not in cells(lines, "90 epochs, 224")[1:]


def test_no_part_begins_when_the_time_is_over_or_is_left_out(tmp_path: Path) -> None:
    over = ("--seconds", "0", "--photographs", "16", *only("reading", "projection"))
    lines = run(tmp_path, "benchmarks.gpu", *over).splitlines()
    assert cells(lines, "256", "224", "1") == ["not run", ""]
    assert "ResNet-20, 32 pixels: not run, skipped" in lines
    assert "Checkpoints and a kill: not run, skipped" in lines
    assert not (tmp_path / "build/bench/gpu/results.jsonl").exists()


def test_a_measure_is_kept_at_once_and_counts_in_the_next_call(tmp_path: Path) -> None:
    first = run(tmp_path, "benchmarks.gpu", *ON_CPU, *only("small")).splitlines()
    results = tmp_path / "build/bench/gpu/results.jsonl"
    (plain, ours) = map(json.loads, results.read_text().splitlines())
    assert plain["row"] == ["small", "on the device", "eager", "plain loop"]
    assert ours["row"] == ["small", "RecordIO", "eager", "imagenet-train"]
    # As if the process that measures had been killed.
    results.write_text(json.dumps(plain) + "\n")
    over = run(tmp_path, "benchmarks.gpu", "--continue", "--seconds", "0", *ON_CPU, *only("small"))
    assert cells(over.splitlines(), "on the device") == cells(first, "on the device")
    assert cells(over.splitlines(), "RecordIO", "eager", "imagenet-train", "not run") == [""]


@pytest.mark.timeout(600)
def test_a_training_is_killed_after_ten_checkpoints_and_starts_again(tmp_path: Path) -> None:
    often = ("--interval", "0.2", *only("restart"))
    lines = run(tmp_path, "benchmarks.gpu", *ON_CPU, *often).splitlines()
    assert int(cells(lines, "checkpoints within an epoch (at least 10)")[0]) >= 10
    names = ("end of the killed process", "starting: imports, device, opening of the data")
    parts = [*names, "joining", "loading: network and checkpoint", "data"]
    parts += ["trace: first step, without a usual one", "step"]
    seconds = [float(cells(lines, f"… {name}")[0]) for name in parts]
    whole = float(cells(lines, "SIGKILL to next step, s")[0])
    assert whole > 0
    assert sum(seconds) == pytest.approx(whole, abs=0.05)
    assert float(cells(lines, "… … import of PyTorch and the program (in a process of its own)")[0])


@pytest.mark.timeout(600)
def test_the_sizes_are_trained(tmp_path: Path) -> None:
    lines = run(tmp_path, "benchmarks.gpu", *ON_CPU, *only("sizes")).splitlines()
    for size in ("160", "192"):
        assert cells(lines, size, "eager")[0].isdecimal()


def test_the_plain_loop_trains_images_of_which_it_draws_some(tmp_path: Path) -> None:
    size = ("--batch", "4", "--steps", "3", "--images-on-gpu", "9", "--device", "cpu")
    assert float(run(tmp_path, "benchmarks.plain_torch", "--network", "resnet-20", *size)) > 0
