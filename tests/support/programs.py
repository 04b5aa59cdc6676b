"""Runs the installed programs as a person does."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

SCRIPTS = Path(sys.executable).parent
VARIABLES = {**os.environ, "OMP_NUM_THREADS": "1"}


def call(program: Path, *arguments: str | Path) -> str:
    """The output of a program that must succeed."""
    finished = subprocess.run(
        [program, *arguments], capture_output=True, text=True, check=False, env=VARIABLES
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def run_job(manifest: Path, workdir: Path) -> dict[str, Any]:
    """The result of a job that must succeed under `imagenetctl run`."""
    options = ("--workdir", workdir, "--output", "json")
    output = call(SCRIPTS / "imagenetctl", "run", manifest, *options)
    document: dict[str, Any] = json.loads(output.splitlines()[-1])
    assert document["outcome"] == "Succeeded"
    return document
