"""What is installed here, and the commands that install a framework without a clone."""

import re
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from imagenet_operator.clusters.interface import LocalError
from imagenet_operator.clusters.local import environments, frameworks
from imagenet_spec.frameworks import FRAMEWORKS
from imagenet_spec.frameworks.installation import pip_command
from support.job_table import JOBS
from support.pod_subset import REPOSITORY

PAGE = (REPOSITORY / "docs" / "running-locally.md").read_text()
EXTRAS = tomllib.loads((REPOSITORY / "workloads" / "pyproject.toml").read_text())["project"][
    "optional-dependencies"
]


@pytest.fixture
def without_frameworks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frameworks, "is_installed", lambda _: False)
    monkeypatch.setattr(frameworks, "is_checkout", lambda: False)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_commands_install_the_extra_of_the_framework(framework: str) -> None:
    command = pip_command(framework)
    for requirement in EXTRAS[framework.lower()]:
        name = re.split("[<>=]", requirement)[0]
        assert re.search(rf"[ ']{name}[<>=]", command)
    assert not re.search("imagenet[-_]", command), "no index has the project's own names"


def test_mxnet_is_installed_without_what_its_metadata_require() -> None:
    pins = (REPOSITORY / "constraints" / "workloads.txt").read_text()
    (mxnet,) = re.findall("^mxnet==.*$", pins, re.MULTILINE)
    assert pip_command("MXNet").endswith(f" && pip install --no-deps {mxnet}")


@pytest.mark.parametrize("framework", ["MXNet", "PyTorch"])
def test_the_page_has_the_commands_of_the_messages(framework: str) -> None:
    section = PAGE.partition("## Without a clone\n")[2].partition("\n## ")[0]
    for command in pip_command(framework).split(" && "):
        assert f"\n{command}\n" in section
    assert "pip install dist/*.whl" in section


@pytest.mark.usefixtures("without_frameworks")
def test_a_job_whose_framework_is_missing_starts_nothing() -> None:
    with pytest.raises(LocalError, match=r"^MXNet is not installed in .*--no-deps mxnet=="):
        environments.check_framework(JOBS["defaults"])


@pytest.mark.usefixtures("without_frameworks")
def test_a_framework_with_an_environment_names_pip_without_a_clone(tmp_path: Path) -> None:
    own = environments.programs(FRAMEWORKS["PyTorch"].environment, {"PATH": ""}, tmp_path / "env")
    with pytest.raises(LocalError, match=r"env-pytorch/bin/imagenet-train; type: .*torch=="):
        own.find("imagenet-train", trains=True)


def test_a_framework_of_one_python_gets_an_environment_beside(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(frameworks, "is_checkout", lambda: False)
    monkeypatch.setattr(sys, "prefix", "/home/me/my env")
    make, install = frameworks.how_to_install("TensorFlow").split(" && ")
    assert make == "python3.11 -m venv '/home/me/my env-tensorflow'"
    assert install.startswith("'/home/me/my env-tensorflow'/bin/pip install dist/imagenet_spec-")
    assert install.endswith(f" {EXTRAS['tensorflow'][0]}")


def test_a_framework_in_imagenetctls_own_environment_needs_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "env" / "bin" / "train"
    program.parent.mkdir(parents=True)
    program.touch(0o755)
    environment = FRAMEWORKS["PyTorch"].environment
    found = environments.programs(environment, {"PATH": ""}, tmp_path / "env")
    found = replace(found, own=(program.parent,))
    monkeypatch.setattr(frameworks, "is_installed", lambda name: name == "PyTorch")
    assert found.find("train", trains=True) == program
    # An environment beside goes first.
    beside = tmp_path / "env-pytorch" / "bin" / "train"
    beside.parent.mkdir(parents=True)
    beside.touch(0o755)
    assert found.find("train", trains=True) == beside
