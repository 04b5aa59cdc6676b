"""`--set PATH=VALUE` of `imagenetctl run`."""

import argparse
import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from imagenet_operator.cli import overrides, run
from imagenet_spec.errors import ImageNetJobError
from imagenet_spec.resource import ImageNetJob
from support import stand_ins
from support.stand_ins import Workplace


@pytest.fixture
def file(tmp_path: Path) -> Path:
    manifest = stand_ins.job(
        training={"optimizer": {"stepEpochs": [3, 6], "learningRate": 0.1}, "epochs": 9}
    )
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(manifest))
    return path


def options(*texts: str) -> list[overrides.Override]:
    parser = argparse.ArgumentParser()
    overrides.add_option(parser)
    words = [word for text in texts for word in ("--set", text)]
    found: list[overrides.Override] = parser.parse_args(words).overrides
    return found


def read(file: Path, *texts: str) -> ImageNetJob:
    return run.read(str(file), options(*texts))


def value(job: ImageNetJob, path: str) -> Any:
    found: Any = job.to_manifest()
    for name in path.split("/"):
        found = found[int(name)] if isinstance(found, list) else found[name]
    return found


@pytest.mark.parametrize(
    ("text", "path", "expected"),
    [
        ("spec.training.epochs=12", "spec/training/epochs", 12),
        ("spec.training.optimizer.learningRate=1e-3", "spec/training/optimizer/learningRate", 1e-3),
        ("spec.training.optimizer.stepEpochs[1]=7", "spec/training/optimizer/stepEpochs", [3, 7]),
        ("spec.training.optimizer.stepEpochs=[4]", "spec/training/optimizer/stepEpochs/0", 4),
        ("spec.training.model={network: mlp}", "spec/training/model/network", "mlp"),
        # A parent that the file lacks.
        ("spec.training.checkpoint.keep=9", "spec/training/checkpoint/keep", 9),
        # Text, where the schema has text.
        ("metadata.namespace=2024", "metadata/namespace", "2024"),
        ('metadata.labels["example.org"]=7', "metadata/labels/example.org", "7"),
        ("spec.dataset.source.volume.path=12", "spec/dataset/source/volume/path", "12"),
        ("metadata.annotations.note=a=b", "metadata/annotations/note", "a=b"),
    ],
)
def test_a_value_is_yaml_of_the_fields_type(
    file: Path, text: str, path: str, expected: object
) -> None:
    assert value(read(file, text), path) == expected


def test_several_apply_in_order_and_null_leaves_a_field_out(file: Path) -> None:
    texts = ("spec.training.epochs=5", "spec.training.optimizer=null", "spec.training.epochs=6")
    training = read(file, *texts).to_manifest()["spec"]["training"]
    assert training["epochs"] == 6
    assert training.get("optimizer", {}).get("stepEpochs") != [3, 6]


def test_the_document_stays_as_it_is(file: Path) -> None:
    document = yaml.safe_load(file.read_text())
    before = copy.deepcopy(document)
    overrides.apply(document, options("spec.training.optimizer.stepEpochs[0]=1"))
    assert document == before


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("spec.training.epoch=2", ("--set: spec.training.epoch", "did you mean epochs?")),
        ("spec.trainin.epochs=2", ("--set: spec.trainin", "did you mean training?")),
        ("spec.training.epochs=two", ("--set: spec.training.epochs", "an integer")),
        ("spec.training.model={network: lene}", ("--set: spec.training.model.network", "lenet")),
        ("spec.training.optimizer.stepEpochs[2]=8", ("no item 2", "the last index is 1")),
        ("spec.training.optimizer.stepEpochs.x=8", ("is a list", "stepEpochs[0]=")),
        ("spec.training.epochs.x=8", ("is 9", "--set spec.training.epochs=")),
        ("spec.training.epochs[0]=8", ("is no list", "--set 'spec.training.epochs=[")),
    ],
)
def test_a_mistake_is_named_with_its_path_and_what_to_write(
    file: Path, text: str, facts: tuple[str, ...]
) -> None:
    with pytest.raises(ImageNetJobError) as caught:
        read(file, text)
    assert [fact for fact in facts if fact not in str(caught.value)] == []
    assert "job.yaml" not in str(caught.value), "the file has no mistake"


def test_a_mistake_of_the_file_is_named_with_the_file(file: Path) -> None:
    file.write_text(file.read_text().replace("epochs: 9", "epochs: 0"))
    with pytest.raises(ImageNetJobError) as caught:
        read(file, "spec.training.batchSize=none")
    set_first, of_file = str(caught.value).splitlines()
    assert set_first.startswith("--set: spec.training.batchSize: ")
    assert of_file.startswith(f"{file}: spec.training.epochs: ")


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("spec.training.epochs", "is not PATH=VALUE"),
        ("=2", "is not PATH=VALUE"),
        ("spec..epochs=2", "is not PATH=VALUE"),
        ("spec.training.epochs=", "has no value"),
        ("spec.training.epochs=[1", "write a value in YAML"),
    ],
)
def test_wrong_usage_says_what_is_expected(
    text: str, fact: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        options(text)
    assert fact in capsys.readouterr().err


def test_a_run_takes_the_changes(workplace: Workplace) -> None:
    finished = workplace.run("--set", "metadata.name=other", "--set", "spec.training.epochs=2")

    assert finished.code == 0, finished.errors
    assert "other succeeded" in finished.output
    assert workplace.job_file("other")["job"]["spec"]["training"]["epochs"] == 2
