"""Every `make TARGET` that a page, a hook or a workflow asks for is a target that `make` lists.

And what `make` says to somebody who has cloned the project and nothing else.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from support.chart import REPOSITORY

COMMAND = re.compile(r"(?:`|^\s*|run: |entry: |run-with |sudo )make ((?:[a-z][a-z0-9-]* ?)+)", re.M)
# One image of several, by a pattern that `make help` describes.
PATTERN = "image-"


def targets() -> set[str]:
    # Within another make, a make prints the folder that it enters, unless it is silent.
    command = ["make", "--no-print-directory", "help"]
    listed = subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True, text=True)
    return {line.split()[0] for line in listed.stdout.splitlines()}


def pages() -> list[Path]:
    names = ("*.md", ".github/**/*.yaml", ".github/**/*.md", ".pre-commit-config.yaml")
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *names]
    listed = subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True, text=True)
    return [REPOSITORY / name for name in listed.stdout.splitlines()]


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_each_target_exists(page: Path) -> None:
    asked = {name for found in COMMAND.findall(page.read_text()) for name in found.split()}
    assert {name for name in asked if not name.startswith(PATTERN)} - targets() == set()


def test_make_alone_lists_every_phony_target() -> None:
    phony = re.findall(r"^\.PHONY: (.+)$", (REPOSITORY / "Makefile").read_text(), re.MULTILINE)
    assert {name for line in phony for name in line.split()} == targets()


def test_the_workflow_only_prepares_and_calls_make_or_ci() -> None:
    workflow = yaml.safe_load((REPOSITORY / ".github/workflows/ci.yaml").read_text())
    commands = [
        step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step
    ]
    prepared = ("apt-get update", "git config --global --add safe.directory")
    for command in commands:
        assert command.startswith(("make ", ".ci/run", *prepared)), command


@pytest.mark.parametrize("has", ["no Python", "one without venv"])
def test_who_lacks_python_reads_which_package_to_install(has: str, tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("make", "sed"):
        (programs / name).symlink_to(str(shutil.which(name)))
    if has == "one without venv":
        # As Debian's is without python3-venv: ensurepip is missing.
        python = programs / "python3"
        python.write_text("#!/bin/sh\nexit 1\n")
        python.chmod(0o755)
    made = subprocess.run(
        [programs / "make", "demo", f"VENV={tmp_path / 'venv'}"],
        cwd=REPOSITORY,
        env={"PATH": str(programs)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 2
    (said, *_) = made.stdout.splitlines()
    assert "Python 3.11 to 3.14 with venv" in said
    for package in ("apt-get install python3-venv", "dnf install python3", "zypper install"):
        assert package in said
    assert not (tmp_path / "venv").exists()


def test_an_installation_says_each_step_before_it_begins(tmp_path: Path) -> None:
    command = ["make", "--dry-run", "install", f"VENV={tmp_path / 'venv'}"]
    planned = subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True, text=True)
    lines = planned.stdout.replace("\\\n", " ").splitlines()
    libgomp = "libgomp.so.1"
    steps = [
        line
        for line in lines
        if any(part in line for part in (" of 4: ", " -m venv ", "uv_install.py"))
        and libgomp not in line
    ]
    said, work = steps[::2], steps[1::2]
    assert [bool(re.search(r"\d\.\d GB", line)) for line in said] == [False, True, True, True]
    assert [line.split()[0] for line in said] == ["echo"] * 4
    assert [" -m venv " in work[0], "./operator" in work[1]] == [True] * 2
    assert ["mxnet" in work[2], "development.in" in work[3]] == [True] * 2
    # uv shows what it downloads.
    assert [line for line in work if "--quiet" in line] == []


def test_the_demo_installs_only_what_it_runs(tmp_path: Path) -> None:
    command = ["make", "--dry-run", "demo", f"VENV={tmp_path / 'venv'}"]
    planned = subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True, text=True)
    assert "mxnet" in planned.stdout and "imagenetctl demo" in planned.stdout
    for other in ("development.in", "onnx", "hugging-face", "pyarrow"):
        assert other not in planned.stdout.replace("-c constraints/", "")
