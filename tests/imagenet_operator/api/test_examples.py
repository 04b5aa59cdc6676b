"""Manifests that people copy are valid, here and by the CRD, and are what they say."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from imagenet_operator.api import load, parse, validate
from imagenet_operator.api.crd import root_schema
from imagenet_operator.api.training import devices
from imagenet_operator.cli.main import main
from support.crd_evaluator import problem_paths

FOLDER = Path(__file__).parents[3] / "examples"
EXAMPLES = {path.stem: path for path in sorted(FOLDER.glob("*.yaml"))}
SCHEMA = root_schema()


@pytest.mark.parametrize("path", EXAMPLES.values(), ids=EXAMPLES)
def test_an_example_is_valid(path: Path) -> None:
    (document,) = load(path)
    assert validate(document) == []
    assert problem_paths(SCHEMA, document) == set()


@pytest.mark.parametrize("path", EXAMPLES.values(), ids=EXAMPLES)
def test_an_example_is_called_after_its_file(path: Path) -> None:
    (document,) = load(path)
    assert document["metadata"]["name"] == path.stem


@pytest.mark.parametrize("path", EXAMPLES.values(), ids=EXAMPLES)
def test_an_example_is_rendered(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (document,) = load(path)
    replicas = parse(document).spec.training.workers.replicas

    assert main(["render", str(path)]) == 0

    pods = [item for item in yaml.safe_load_all(capsys.readouterr().out) if item["kind"] == "Pod"]
    assert sum("-r0-worker-" in item["metadata"]["name"] for item in pods) == replicas


def test_the_tutorials_job_has_its_figures() -> None:
    (document,) = load(EXAMPLES["imagenet-resnet152"])
    training = parse(document).spec.training
    assert (training.workers.replicas, training.workers.gpus) == (16, 16)
    assert training.batch_size == 8192
    assert training.batch_size // devices(training) == 32
    assert training.epochs == 90
    assert training.strategy.parameter_server is not None
    assert training.strategy.parameter_server.kv_store == "dist_device_sync"
