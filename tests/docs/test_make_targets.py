"""Every `make TARGET` that a page, a hook or a workflow asks for is a target that `make` lists."""

from __future__ import annotations

import re
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
