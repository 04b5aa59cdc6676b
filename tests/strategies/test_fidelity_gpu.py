"""`make fidelity-gpu` on a CPU with few images: every series, with a kill that changes no byte."""

from pathlib import Path

import cv2
import pytest
from benchmarks.fidelity_gpu import ARCHIVE, KILLED, OURS, PLAIN, main

from support.pictures import pixels

pytestmark = pytest.mark.timeout(900)


def test_all_series_run_through(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seed = 0
    for split in ("train", "test"):
        for label in range(10):
            place = tmp_path / "images" / split / str(label)
            place.mkdir(parents=True)
            for number in range(2):
                image = cv2.imencode(".jpg", pixels(seed, 32, 32))[1]
                (place / f"{number}.jpg").write_bytes(bytes(image))
                seed += 1
    small = ("--images-per-class", "2", "--epochs", "2", "--batch", "8", "--seeds", "1")
    work = ("--workdir", str(tmp_path / "work"), "--gpus", "0", "--seconds", "900")
    assert main([str(tmp_path / "images"), *small, *work]) == 0
    said = capsys.readouterr().out
    assert "CPU, 2 images of each class and split, 4 trainings:" in said
    for series in (PLAIN, OURS, KILLED, ARCHIVE):
        assert f"\n| {series} | 1 | " in said
    assert "| killed and resumed: the same bytes | reached: " in said
