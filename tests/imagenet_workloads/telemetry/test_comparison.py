"""The plot of a comparison, from the JSON of `imagenetctl compare`."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes

from imagenet_workloads.commands import plot as command
from imagenet_workloads.errors import InputError
from imagenet_workloads.telemetry.plot import draw_comparison, read_comparison


def epoch(number: int, gpu_hours: float, top1: float | None, loss: float | None = 0.5) -> Any:
    return {
        "images": 1000 * number,
        "seconds": 3600.0 * number,
        "gpuHours": gpu_hours,
        "loss": 1.0,
        "validation": None if top1 is None else {"top1": top1, "loss": loss},
    }


A = {"name": "a", "curve": [epoch(1, 2.0, 0.5), epoch(2, 4.0, 0.75)]}
B = {"name": "b", "curve": [epoch(1, 1.0, 0.25), epoch(4, 4.0, 0.5)]}


def written(tmp_path: Path, *jobs: Any, reached: float | None = 0.5) -> Path:
    file = tmp_path / "compared.json"
    common = None if reached is None else {"top1": reached}
    file.write_text(json.dumps({"jobs": jobs, "reached": common}))
    return file


def points(axes: Axes, name: str) -> list[tuple[float, float]]:
    (line,) = [line for line in axes.get_lines() if line.get_label() == name]
    places, values = (np.asarray(data, float).tolist() for data in line.get_data())
    return list(zip(places, values, strict=True))


def test_accuracy_and_loss_by_images_time_and_gpu_hours(tmp_path: Path) -> None:
    figure = draw_comparison(read_comparison(written(tmp_path, A, B)), "a, b")
    by_images, by_time, by_gpu_hours, *losses = figure.axes
    assert points(by_images, "a") == [(1000, 0.5), (2000, 0.75)]
    assert points(by_images, "b") == [(1000, 0.25), (4000, 0.5)]
    assert points(by_time, "b") == [(1, 0.25), (4, 0.5)]
    assert points(by_gpu_hours, "b") == [(1, 0.25), (4, 0.5)]
    assert points(losses[0], "a") == [(1000, 0.5), (2000, 0.5)]
    assert [axes.get_xlabel() for axes in losses] == ["trained images", "time (h)", "GPU-hours"]
    assert losses[0].get_ylabel() == "validation loss (nats)"
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a", "b", "top-1 50.00%"]


def test_without_gpus_there_are_no_gpu_hours(tmp_path: Path) -> None:
    on_cpus = {"name": "c", "curve": [epoch(1, 0.0, 0.5)]}
    figure = draw_comparison(read_comparison(written(tmp_path, on_cpus, reached=None)), "c")
    assert [axes.get_xlabel() for axes in figure.axes[2:]] == ["trained images", "time (min)"]


@pytest.mark.parametrize("other", [epoch(1, 1.0, None), epoch(1, 1.0, 0.5, None)])
def test_losses_are_of_the_same_images(tmp_path: Path, other: Any) -> None:
    found = read_comparison(written(tmp_path, A, {"name": "d", "curve": [other]}, reached=None))
    assert found.losses == "training"
    assert {item.loss for job in found.jobs.values() for item in job} == {1.0}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{}", "is not the output of imagenetctl compare --output json"),
        ("[", "is not the output of imagenetctl compare --output json"),
        ('{"jobs": [{"name": "a", "curve": []}], "reached": null}', "has no finished epoch"),
    ],
)
def test_another_file_is_an_error(tmp_path: Path, content: str, said: str) -> None:
    file = tmp_path / "compared.json"
    file.write_text(content)
    with pytest.raises(InputError, match=said):
        read_comparison(file)


def test_the_command_names_the_trainings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["--compare", str(written(tmp_path, A, B))]) == 0
    assert capsys.readouterr().out == f"{tmp_path}/compared.png\n"
    assert command.main(["--compare", "a.json", "--time", "b.json"]) == 3
    assert "one of the four" in capsys.readouterr().err
