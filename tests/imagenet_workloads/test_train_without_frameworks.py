"""`train` imports no framework: its tests pass in a process that refuses to import any."""

import re
import subprocess
import sys

import pytest

from support.pod_subset import REPOSITORY

FOLDER = REPOSITORY / "tests" / "imagenet_workloads" / "train"
SKIPPED = re.compile(r"\b(skipped|xfailed|deselected|error)")


@pytest.mark.costly
def test_the_tests_of_train_pass_without_any_framework() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:xdist", "-p", "no:cacheprovider", "-v", FOLDER],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == 0, ended.stdout + ended.stderr
    summary = ended.stdout.splitlines()[-1]
    assert not SKIPPED.search(summary), summary
    ran = {line.partition("::")[0] for line in ended.stdout.splitlines() if " PASSED" in line}
    files = {str(path.relative_to(REPOSITORY)) for path in FOLDER.rglob("test_*.py")}
    assert ran == files
