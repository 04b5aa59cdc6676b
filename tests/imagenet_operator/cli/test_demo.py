"""`imagenetctl demo`, on stand-ins; test_run_digits.py has the real one."""

import json
import re
import sys
from pathlib import Path

import pytest

from imagenet_operator.cli import demo
from imagenet_operator.clusters.interface import LocalError
from imagenet_operator.clusters.local import environments, frameworks
from support.stand_ins import Workplace

DIGITS = """#!/bin/sh
mkdir -p "$(dirname "$1")"
echo "$1: 10 images"
touch "$1" "$3"
"""
NO_MATPLOTLIB = """#!/bin/sh
echo "imagenet-plot: error: needs matplotlib; type: pip install matplotlib" >&2
exit 1
"""


@pytest.fixture
def place(workplace: Workplace) -> Workplace:
    for name, text in {"digits": DIGITS, "plot": NO_MATPLOTLIB}.items():
        workplace.program(name).write_text(text)
        workplace.program(name).chmod(0o755)
    return workplace


def test_the_demo_shows_its_commands_the_model_and_what_to_type_next(place: Workplace) -> None:
    finished = place.start("demo", "--workdir", "work").finish()

    assert finished.code == 0, finished.errors
    commands = [line[2:] for line in finished.output.splitlines() if line.startswith("$ ")]
    assert commands == [
        "imagenet-digits work/volumes/raw/digits.tar --sample work/sample.jpg",
        "imagenetctl run work/digits.yaml --workdir work",
    ]
    *_, predict = finished.output.splitlines()
    assert "imagenetctl predict work/sample.jpg" in predict
    assert (place.workdir / ".." / predict.rpartition("--model ")[2] / "result.json").is_file()
    (status,) = (line for line in finished.output.splitlines() if "status" in line)
    assert status.split()[1:] == ["status", "digits", "--workdir", "work"]
    # Without a plot, the demo succeeds, and says how to get one.
    (plot,) = (line for line in finished.output.splitlines() if line.startswith("plot "))
    assert "pip install matplotlib" in plot


@pytest.mark.costly
def test_the_manifest_may_be_edited_and_the_demo_run_again(place: Workplace) -> None:
    assert place.start("demo", "--workdir", "work").finish().code == 0
    manifest = place.workdir / "digits.yaml"
    manifest.write_text(manifest.read_text().replace("name: digits", "name: mine"))

    finished = place.start("demo", "--workdir", "work").finish()

    assert finished.code == 0, finished.errors
    assert "imagenet-digits" not in finished.output, "the archive is there"
    assert "mine succeeded" in finished.output


def test_json_output_is_json_alone(place: Workplace) -> None:
    finished = place.start("demo", "--workdir", "work", "--output", "json").finish()

    assert finished.code == 0, finished.errors
    assert json.loads(finished.output.splitlines()[-1])["outcome"] == "Succeeded"
    assert {json.loads(line)["type"] for line in finished.output.splitlines()} == {
        "event",
        "epoch",
        "result",
    }


def test_a_failed_step_ends_the_demo_with_its_code(place: Workplace) -> None:
    place.program("digits").write_text("#!/bin/sh\nexit 1\n")

    finished = place.start("demo", "--workdir", "work").finish()

    assert finished.code == 1
    assert place.pods() == []


@pytest.mark.parametrize(
    ("installed", "manifest"),
    [({"MXNet", "PyTorch"}, "digits.yaml"), ({"PyTorch"}, "digits-pytorch.yaml")],
)
def test_the_manifest_is_that_of_a_framework_that_is_installed(
    installed: set[str], manifest: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environments, "has_framework", installed.__contains__)
    assert demo.choose() == manifest


def test_without_a_framework_the_demo_says_the_lines_of_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(environments, "has_framework", lambda _: False)
    monkeypatch.setattr(frameworks, "is_checkout", lambda: False)
    with pytest.raises(LocalError) as caught:
        demo.choose()
    mxnet, pytorch = (line for line in str(caught.value).splitlines() if "pip install" in line)
    assert "--no-deps mxnet==" in mxnet
    assert re.search("PyTorch: .*pip install .*torch==", pytorch)


@pytest.mark.parametrize("name", demo.MANIFESTS)
def test_the_manifests_are_package_data(name: str) -> None:
    assert Path(str(sys.modules[demo.__name__].__file__)).with_name(name).is_file()
