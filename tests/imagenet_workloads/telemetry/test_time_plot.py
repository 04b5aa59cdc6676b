"""The plot of a job's time."""

import json
from pathlib import Path

import pytest
from matplotlib.patches import Rectangle

from imagenet_workloads.commands import plot as command
from imagenet_workloads.telemetry.plot import draw_time, read_report

FOUND = {"name": "digits", "phases": {"queueing": 5.0, "stepping": 15.0}, "goodput": 0.75}


def write(folder: Path, document: object) -> Path:
    path = folder / "report.json"
    path.write_text(json.dumps(document))
    return path


def test_a_bar_for_each_phase(tmp_path: Path) -> None:
    figure = draw_time(read_report(write(tmp_path, FOUND)), "digits")
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["queueing", "stepping"]
    assert [bar.get_bbox().width for bar in axes.patches if isinstance(bar, Rectangle)] == [5, 15]
    assert [text.get_text() for text in axes.texts] == [" 25.0%", " 75.0%"]
    assert figure.get_suptitle() == "digits: goodput 75.0%"


def test_each_tick_is_labelled_with_its_value(tmp_path: Path) -> None:
    phases = {"preparing": 3.0, "stepping": 18.4}
    figure = draw_time(read_report(write(tmp_path, {**FOUND, "phases": phases})), "digits")
    figure.canvas.draw()
    (axes,) = figure.axes
    labels = [float(label.get_text()) for label in axes.get_xticklabels()]
    assert labels == axes.get_xticks().tolist()
    assert 2.5 in labels


def test_the_program_writes_a_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--time", str(write(tmp_path, FOUND))]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'report.png'}\n"
    assert (tmp_path / "report.png").read_bytes().startswith(b"\x89PNG")


def test_a_job_that_has_spent_no_time(tmp_path: Path) -> None:
    document: dict[str, object] = {"name": "digits", "phases": {}, "goodput": None}
    assert draw_time(read_report(write(tmp_path, document)), "digits").get_suptitle() == "digits"


@pytest.mark.parametrize("document", [[], {}, {**FOUND, "phases": 3}, {**FOUND, "goodput": "x"}])
def test_something_else(tmp_path: Path, document: object) -> None:
    path = write(tmp_path, document)
    assert command.main(["--time", str(path)]) == 3
