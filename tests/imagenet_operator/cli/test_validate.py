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


OF_GOOD = (
    "a worker reads and saves with about 0.90 GB (3 MB batches, 0.89 GB records), "
    "and 45 MB for each decoder"
)
OF_TABLE = (
    "a worker reads and saves with about 2.42 GB (1.08 GB batches, 0.92 GB records, "
    "0.42 GB copies for checkpoints), and 45 MB for each decoder"
)
"""What is said of the job of `job_table`."""


def test_a_good_manifest_is_called_valid(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", GOOD]) == 0
    assert capsys.readouterr().out == f"{GOOD}: valid\n{GOOD}: {OF_GOOD}\n"


def test_a_problem_is_one_line_with_file_and_field(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", GOOD, BAD]) == 2
    assert capsys.readouterr().out.splitlines() == [
        f"{GOOD}: valid",
        f"{GOOD}: {OF_GOOD}",
        f"{BAD}: spec.training.batchSize: 10 is not divisible by 4 devices; write 8 or 12",
    ]


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
    assert f"{path}: no such file; write the path of a manifest" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("!!binary aGk=", "is binary data (!!binary); write it as text in quotes"),
        ("!!set {a}", "is a set (!!set); write a list"),
        ("!!timestamp 2024-01-31", "is a time (!!timestamp); write it as text in quotes"),
        ("*here", "contains itself; write the values without an alias"),
        ("9" * 5000, "is not a finite number of at most 308 digits; write one"),
    ],
)
def test_what_yaml_has_and_json_has_not_is_one_line(
    value: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(f"kind: ImageNetJob\nspec: {{training: &here {{epochs: {value}}}}}\n")

    assert main(["validate", str(path)]) == 2
    assert capsys.readouterr().out == f"{path}: spec.training.epochs: {said}\n"
    assert main(["render", str(path)]) == 2
    assert capsys.readouterr().err == (
        f"imagenetctl: error: {path}: spec.training.epochs: {said}\n"
    )


def test_a_manifest_may_come_by_pipe(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(Path(GOOD).read_text()))
    assert main(["validate", "-"]) == 0
    assert capsys.readouterr().out == f"-: valid\n-: {OF_GOOD}\n"


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
    unknown = "spec.training.extraArgs: imagenet-train has no --disp-batchs; write --disp-batches"

    assert main(["validate", str(path)]) == 0
    printed = capsys.readouterr()
    assert printed.out.splitlines()[0] == f"{path}: valid"
    assert printed.err == f"{path}: warning: {unknown}\n"

    del training["image"]
    path.write_text(json.dumps(job_table.manifest(training=training)))
    assert main(["validate", str(path)]) == 2
    assert capsys.readouterr().out == f"{path}: {unknown}\n"


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
    assert capsys.readouterr().out.splitlines() == [
        f"{ELASTIC}: valid",
        f"{ELASTIC}: a worker reads and saves with about 0.23 GB (8 MB batches, 0.22 GB records), "
        "and 45 MB for each decoder",
        f"{ELASTIC}: an attempt may have 4, 5, 6, 8 workers",
    ]


def test_the_numbers_of_workers_for_scripts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", ELASTIC, GOOD, "--output", "json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["elastic"] == [{"file": ELASTIC, "document": 1, "workers": [4, 5, 6, 8]}]


@pytest.mark.parametrize(
    ("replicas", "least", "batch", "gpus", "said"),
    [
        (
            9, 9, 480, 0,
            "no number of workers from 9 to 9 divides 840 and batchSize 480; "
            "write minReplicas: 8 or replicas: 10",
        ),
        (
            13, 13, 25, 2,
            "no number of workers from 13 to 13 divides 840 and, times 2 devices, batchSize 25; "
            "write minReplicas: 12 with a batchSize that is divisible by 24",
        ),
        (
            8, 4, 7, 2,
            "no number of workers from 4 to 8 divides 840 and, times 2 devices, batchSize 7; "
            "write a batchSize that is divisible by 8",
        ),
        (2, 4, 480, 0, "must be at most replicas, which is 2; write 2 or less"),
    ],
)  # fmt: skip
def test_without_a_number_that_divides_the_nearest_are_named(
    replicas: int,
    least: int,
    batch: int,
    gpus: int,
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    workers = {"replicas": replicas, "minReplicas": least, "gpus": gpus}
    manifest = job_table.manifest(training={"batchSize": batch, "workers": workers})
    path = tmp_path / "job.yaml"
    path.write_text(json.dumps(manifest))

    assert main(["validate", str(path)]) == 2
    assert capsys.readouterr().out == f"{path}: spec.training.workers.minReplicas: {said}\n"
