"""What is kept of a member's standard error after its failure."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from imagenet_workloads.process.pid1 import LAST_BYTES, LastLines

PROGRAM = """
import os, sys
from imagenet_workloads.process.pid1 import LastLines
from imagenet_workloads.process.pid1 import run_in_child

bodies = {
    "fails": lambda: [print("line", number, file=sys.stderr) for number in range(30)] and 3,
    "long": lambda: os.write(2, b"x" * 200_000) and 3,
    "aborts": lambda: os.write(2, b"terminate called\\n") and os.abort(),
    "ends": lambda: print("done", file=sys.stderr) or 0,
    "terminated": lambda: print("done", file=sys.stderr) or 143,
}
sys.exit(run_in_child(bodies[sys.argv[1]], LastLines.from_environment(os.environ)))
"""


def run(body: str, results: Path) -> subprocess.CompletedProcess[str]:
    pod = {"IMAGENET_RESULTS": str(results), "IMAGENET_ATTEMPT": "2", "POD_NAME": "a-worker-0"}
    command = [sys.executable, "-c", PROGRAM, body]
    return subprocess.run(
        command, env=os.environ | pod, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("body", "code", "lines"),
    [
        ("fails", 3, [f"line {number}" for number in range(10, 30)]),
        ("long", 3, ["x" * LAST_BYTES]),
        ("aborts", 134, ["terminate called"]),
        ("ends", 0, None),
        ("terminated", 143, None),
    ],
)
def test_the_end_of_a_failed_member_is_kept(
    body: str, code: int, lines: list[str] | None, tmp_path: Path
) -> None:
    ended = run(body, tmp_path)
    assert ended.returncode == code
    file = tmp_path / "attempts/r2/last-lines/a-worker-0.txt"
    assert (file.read_text().splitlines() if file.exists() else None) == lines


def test_everything_is_passed_on(tmp_path: Path) -> None:
    assert run("fails", tmp_path).stderr == "".join(f"line {number}\n" for number in range(30))
    assert run("long", tmp_path).stderr == "x" * 200_000


def test_the_first_of_a_pods_failed_slots_stays(tmp_path: Path) -> None:
    run("aborts", tmp_path)
    run("fails", tmp_path)
    (file,) = tmp_path.rglob("*.txt")
    assert file.read_text() == "terminate called\n"


def test_a_volume_that_cannot_be_written_changes_no_exit_code(tmp_path: Path) -> None:
    (tmp_path / "attempts").touch()
    assert run("fails", tmp_path).returncode == 3


def test_without_an_output_volume_nothing_is_kept() -> None:
    assert LastLines.from_environment({"POD_NAME": "a-server-0", "IMAGENET_ATTEMPT": "0"}) is None
