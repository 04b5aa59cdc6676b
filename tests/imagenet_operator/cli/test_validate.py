"""`imagenetctl validate`: what it prints and with what it exits."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from imagenet_operator.cli.main import main
from support import job_table
from support.corpus import FOLDER
from support.sentences import assert_says

GOOD = str(FOLDER / "good" / "single.yaml")
BAD = str(FOLDER / "bad" / "batch-does-not-divide.yaml")


OF_GOOD = ("a worker", "0.90 GB", "3 MB batches", "0.89 GB records", "45 MB", "decoder")
"""The memory for reading of the job in `GOOD`."""


def test_a_good_manifest_is_called_valid(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", GOOD]) == 0
    valid, reading = capsys.readouterr().out.splitlines()
    assert valid == f"{GOOD}: valid"
    assert_says(reading, f"{GOOD}: ", *OF_GOOD)


def test_a_problem_is_one_line_with_file_and_field(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", GOOD, BAD]) == 2
    valid, reading, problem = capsys.readouterr().out.splitlines()
    assert valid == f"{GOOD}: valid"
    assert_says(reading, f"{GOOD}: ", *OF_GOOD)
    facts = ("10 is not divisible", "4 devices", "write 8 or 12")
    assert_says(problem, f"{BAD}: spec.training.batchSize: ", *facts)


def test_several_documents_are_numbered(capsys: pytest.CaptureFixture[str]) -> None:
    path = FOLDER / "bad" / "second-document.yaml"
    assert main(["validate", str(path)]) == 2
    wrong, reading = capsys.readouterr().out.splitlines()
    assert_says(wrong, f"{path}: document 2: spec.training.epochs: ", "at least 1", "0")
    assert_says(reading, f"{path}: document 1: ", "0.45 GB", "2 MB batches", "0.45 GB records")


def test_what_only_building_the_objects_shows_is_said_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nameless = {"spec": {"containers": [{"resources": {"requests": {"cpu": "4"}}}]}}
    manifest = job_table.manifest(training={"workers": {"replicas": 2, "template": nameless}})
    path = tmp_path / "nameless.yaml"
    path.write_text(json.dumps(manifest))

    assert main(["validate", str(path)]) == 2
    printed = capsys.readouterr().out
    assert printed.startswith(f"{path}: spec.training.workers.template.spec.containers[0]: ")
    assert "has no name" in printed
    assert "main" in printed


def test_a_file_that_cannot_be_read_is_invalid(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "none.yaml"
    assert main(["validate", str(path), GOOD]) == 2
    assert_says(capsys.readouterr().out, f"{path}: no such file", "write the path")


@pytest.mark.parametrize(
    ("value", "facts"),
    [
        ("!!binary aGk=", ("!!binary", "write it as text")),
        ("!!set {a}", ("!!set", "write a list")),
        ("!!timestamp 2024-01-31", ("!!timestamp", "write it as text")),
        ("*here", ("contains itself", "without an alias")),
        ("9" * 5000, ("not a finite number", "at most 308 digits")),
    ],
)
def test_what_yaml_has_and_json_has_not_is_one_line(
    value: str, facts: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(f"kind: ImageNetJob\nspec: {{training: &here {{epochs: {value}}}}}\n")

    assert main(["validate", str(path)]) == 2
    (line,) = capsys.readouterr().out.splitlines()
    assert_says(line, f"{path}: spec.training.epochs: ", *facts)
    assert main(["render", str(path)]) == 2
    assert capsys.readouterr().err == f"imagenetctl: error: {line}\n"


def test_a_manifest_may_come_by_pipe(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(Path(GOOD).read_text()))
    assert main(["validate", "-"]) == 0
    valid, reading = capsys.readouterr().out.splitlines()
    assert valid == "-: valid"
    assert_says(reading, "-: ", *OF_GOOD)


def test_scripts_get_one_json_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "--output", "json", GOOD, BAD]) == 2
    assert json.loads(capsys.readouterr().out) == {
        "valid": False,
        "problems": [
            {
                "file": BAD,
                "document": 1,
                "path": "spec.training.batchSize",
                "message": "10 is not divisible by 4 devices",
                "hint": "write 8 or 12",
                "stage": "schema",
            }
        ],
        "reading": [
            {
                "file": GOOD,
                "document": 1,
                "bytes": 2_838_528 + 893_235_648,
                "slots": 2_838_528,
                "windows": 893_235_648,
                "decoders": None,
                "copies": 0,
            }
        ],
    }


def test_a_size_of_images_that_is_never_reached_is_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = [{"epoch": 0, "size": 160}, {"epoch": 16, "size": 192}]
    training = {
        "framework": "PyTorch",
        "strategy": {"single": {}},
        "workers": {"replicas": 1},
        "epochs": 16,
        "model": {"network": "resnet", "numLayers": 50, "imageSizes": sizes},
    }
    path = tmp_path / "job.yaml"
    path.write_text(json.dumps(job_table.manifest(training=training)))
    assert main(["validate", str(path)]) == 0
    (warning,) = capsys.readouterr().err.splitlines()
    assert warning.startswith(f"{path}: warning: spec.training.model.imageSizes[1].epoch: 16 ")


def test_options_of_an_own_image_are_warnings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    training = {"image": "example.com/own:1", "extraArgs": ["--disp-batchs", "7"]}
    path = tmp_path / "job.yaml"
    path.write_text(json.dumps(job_table.manifest(training=training)))
    unknown = ("spec.training.extraArgs: ", "no --disp-batchs;", "write --disp-batches")

    assert main(["validate", str(path)]) == 0
    printed = capsys.readouterr()
    assert printed.out.splitlines()[0] == f"{path}: valid"
    (warning,) = printed.err.splitlines()
    assert_says(warning, f"{path}: warning: ", *unknown)

    del training["image"]
    path.write_text(json.dumps(job_table.manifest(training=training)))
    assert main(["validate", str(path)]) == 2
    (problem,) = capsys.readouterr().out.splitlines()
    assert_says(problem, f"{path}: ", *unknown)


def test_a_template_is_judged_by_the_profile_that_is_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    template = {"spec": {"serviceAccountName": "trainer", "nodeName": "node-1"}}
    manifest = job_table.manifest(training={"workers": {"replicas": 2, "template": template}})
    path = tmp_path / "job.yaml"
    path.write_text(json.dumps(manifest))

    assert main(["validate", str(path)]) == 0
    assert main(["validate", "--template-profile", "strict", str(path)]) == 2
    place = f"{path}: spec.training.workers.template.spec"
    valid, _, *refused = capsys.readouterr().out.splitlines()
    assert valid == f"{path}: valid"
    assert [line.split(": is refused")[0] for line in refused] == [
        f"{place}.serviceAccountName",
        f"{place}.nodeName",
    ]
    assert all("profile, strict" in line for line in refused)


ELASTIC = str(FOLDER / "good" / "elastic.yaml")


def test_the_numbers_of_workers_that_divide_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", ELASTIC]) == 0
    valid, reading, workers = capsys.readouterr().out.splitlines()
    assert valid == f"{ELASTIC}: valid"
    assert_says(reading, f"{ELASTIC}: ", "0.23 GB", "8 MB batches", "0.22 GB records", "45 MB")
    assert_says(workers, f"{ELASTIC}: ", "may have 4, 5, 6, 8 workers")


def test_the_numbers_of_workers_for_scripts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", ELASTIC, GOOD, "--output", "json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["elastic"] == [{"file": ELASTIC, "document": 1, "workers": [4, 5, 6, 8]}]


@pytest.mark.parametrize(
    ("replicas", "least", "batch", "gpus", "problem", "remedy"),
    [
        (
            *(9, 9, 480, 0),
            ("no number", "from 9 to 9", "840", "batchSize 480"),
            ("minReplicas: 8", "replicas: 10"),
        ),
        (
            *(13, 13, 25, 2),
            ("no number", "from 13 to 13", "840", "2 devices", "batchSize 25"),
            ("minReplicas: 12", "batchSize", "divisible by 24"),
        ),
        (
            *(8, 4, 7, 2),
            ("no number", "from 4 to 8", "840", "2 devices", "batchSize 7"),
            ("batchSize", "divisible by 8"),
        ),
        (2, 4, 480, 0, ("at most replicas", "2"), ("2 or less",)),
    ],
)
def test_without_a_number_that_divides_the_nearest_are_named(
    replicas: int,
    least: int,
    batch: int,
    gpus: int,
    problem: tuple[str, ...],
    remedy: tuple[str, ...],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    workers = {"replicas": replicas, "minReplicas": least, "gpus": gpus}
    manifest = job_table.manifest(training={"batchSize": batch, "workers": workers})
    path = tmp_path / "job.yaml"
    path.write_text(json.dumps(manifest))

    assert main(["validate", str(path)]) == 2
    (line,) = capsys.readouterr().out.splitlines()
    field = f"{path}: spec.training.workers.minReplicas: "
    assert_says(line, field, *problem, "; write ", *remedy)
