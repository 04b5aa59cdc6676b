"""The framework that docs/add-a-framework.md adds trains: its code is applied to a copy and run."""

import json
import sys
from pathlib import Path

import pytest

from support.pod_subset import REPOSITORY
from support.walkthroughs import Walkthrough, run

PAGE = Walkthrough.read(REPOSITORY / "docs" / "add-a-framework.md")
BIN = Path(sys.executable).parent
MANIFEST = "examples/digits-numpy.yaml"
JOB = "digits-numpy"


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """Return a copy of the tree with the page's code, and the environment that runs it."""
    folder = tmp_path_factory.mktemp("project")
    return folder, PAGE.apply(folder)


def test_it_changes_only_the_two_registries() -> None:
    assert set(PAGE.changes) == {
        "spec/imagenet_spec/frameworks/__init__.py",
        "workloads/imagenet_workloads/frameworks/__init__.py",
    }
    others = {path for path in PAGE.new if "/frameworks/numpy" not in path}
    assert others == {MANIFEST}


def test_both_are_registered(copy: tuple[Path, dict[str, str]]) -> None:
    folder, environment = copy
    # Pytest's own settings are at the top of the tree.
    (folder / "pyproject.toml").write_text((REPOSITORY / "pyproject.toml").read_text())
    contract = "tests/contract/test_frameworks.py"
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rA", contract]
    output = run(folder, environment, *command)
    assert "[NumPy-multi_worker_mirrored]" in output


def test_two_workers_train_the_digits(copy: tuple[Path, dict[str, str]]) -> None:
    folder, environment = copy
    sample = Path("work", "sample.jpg")
    archive = Path("work", "volumes", "raw", "digits.tar")
    run(
        folder,
        environment,
        sys.executable,
        "-m",
        "imagenet_workloads.commands.digits",
        archive,
        "--sample",
        sample,
    )
    run(folder, environment, BIN / "imagenetctl", "run", MANIFEST, "--workdir", "work")

    model = (folder / "work" / "jobs" / JOB / "model").resolve()
    result = json.loads((model / "result.json").read_text())
    assert (result["framework"], result["workers"]) == ("NumPy", 2)
    assert result["validation"]["images"] == 180
    assert result["validation"]["top1"] > 0.9
    phases = result["time"]["phases"]
    assert sum(phases.values()) == pytest.approx(result["time"]["seconds"], abs=0.01)
    assert min(phases[phase] for phase in ("starting", "joining", "data", "stepping")) > 0

    predicted = run(
        folder, environment, BIN / "imagenet-predict", "--model", model, sample, "--output", "json"
    )
    assert json.loads(predicted)[0]["predictions"][0]["probability"] > 0.5
