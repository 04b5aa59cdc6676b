"""What docs/add-an-option.md adds works: its code is applied to a copy, and run."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.pod_subset import REPOSITORY
from support.walkthroughs import Walkthrough, run

PAGE = Walkthrough.read(REPOSITORY / "docs" / "add-an-option.md")
PYTHON = sys.executable
BIN = Path(PYTHON).parent
_JOB = (REPOSITORY / "tests" / "corpus" / "good" / "colour-augmentation.yaml").read_text()
WITH_FLIP = _JOB.partition("    augmentation:")[0] + "    augmentation: {randomFlip: true}\n"


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """Return a copy of the tree with the page's code, and the environment that runs it."""
    folder = tmp_path_factory.mktemp("project")
    environment = PAGE.apply(folder)
    shutil.copytree(REPOSITORY / "docs", folder / "docs")
    shutil.copytree(REPOSITORY / "charts", folder / "charts")
    return folder, environment


def test_one_declaration_and_its_uses_change() -> None:
    assert set(PAGE.changes) == {
        "spec/imagenet_spec/program/train.py",
        "spec/imagenet_spec/resource/augmentation.py",
        "workloads/imagenet_workloads/data/augmentation.py",
        "spec/imagenet_spec/program/sources.py",
        "spec/imagenet_spec/resource/sources/synthetic.py",
        "workloads/imagenet_workloads/prepare/sources/synthetic.py",
        "spec/imagenet_spec/metrics.py",
        "workloads/imagenet_workloads/telemetry/training.py",
    }
    assert all(Path(path).name.startswith("test_") for path in PAGE.new)


def test_its_tests_pass(copy: tuple[Path, dict[str, str]]) -> None:
    folder, environment = copy
    run(folder, environment, PYTHON, "-m", "pytest", "-p", "no:cacheprovider", *PAGE.new)


def test_all_else_is_generated(copy: tuple[Path, dict[str, str]]) -> None:
    folder, environment = copy
    run(folder, environment, PYTHON, "-m", "imagenet_operator.generate.files")
    tests = {**environment, "PYTHONPATH": f"{environment['PYTHONPATH']}:{folder / 'tests'}"}
    run(folder, tests, PYTHON, "-m", "support.telemetry_page")
    assert (
        "randomFlip:" in (folder / "charts/imagenet-operator/files/imagenetjobs.yaml").read_text()
    )
    reference = (folder / "docs/reference/extra-arguments.md").read_text()
    assert "| `--random-flip` | `spec.training.augmentation.randomFlip` |" in reference
    assert "imagenet_train_best_validation_top1" in (folder / "docs" / "telemetry.md").read_text()
    assert "--random-flip" in run(folder, environment, BIN / "imagenet-train", "--help")


def test_a_job_gives_it_to_its_workers(copy: tuple[Path, dict[str, str]]) -> None:
    folder, environment = copy
    (folder / "job.yaml").write_text(WITH_FLIP)
    pods = run(folder, environment, BIN / "imagenetctl", "render", "job.yaml")
    assert "--random-flip\n" in pods


def test_a_job_gives_the_field_of_its_source_to_index(copy: tuple[Path, dict[str, str]]) -> None:
    folder, environment = copy
    source = "{synthetic: {classes: 10, imagesPerClass: 600, noise: 48}}"
    job = re.sub(r"source:.*?(?=\n    \w)", f"source: {source}", WITH_FLIP, flags=re.DOTALL)
    (folder / "synthetic.yaml").write_text(job)
    pods = run(folder, environment, BIN / "imagenetctl", "render", "synthetic.yaml")
    assert re.search("--synthetic-noise\n *- .48.\n", pods)


def test_a_reader_without_it_is_explained(copy: tuple[Path, dict[str, str]]) -> None:
    folder, environment = copy
    (folder / "wrong.yaml").write_text(
        WITH_FLIP.replace("    augmentation:", "    reader: ImageRecordIter\n    augmentation:")
    )
    ended = subprocess.run(
        [BIN / "imagenetctl", "validate", "wrong.yaml"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode != 0
    assert "ImageRecordIter has no randomFlip" in ended.stdout + ended.stderr
