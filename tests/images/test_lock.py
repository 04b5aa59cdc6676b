"""What the images install: all that the distributions ask for, at written versions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import lock
from support.sentences import assert_says


def test_every_locked_file_is_known_here() -> None:
    assert {path.stem for path in lock.LOCKED.iterdir()} == set(lock.LOCKS)


@pytest.mark.parametrize("name", lock.LOCKS)
def test_what_is_locked_is_what_constraints_pin(name: str) -> None:
    made = lock.LOCKS[name]
    text = (lock.LOCKED / f"{name}.txt").read_text()
    assert lock.problems(made, text, lock.constrained(made)) == []


# Those with a framework are here so that the names of its packages stay right.
FRAMEWORK_IMAGES = {
    "workloads-mxnet": {"mxnet"},
    "workloads-tensorflow": {"keras", "tensorflow-cpu"},
    "workloads-pytorch": {"timm", "torch", "torchvision"},
}
FRAMEWORK_PACKAGES = set().union(*FRAMEWORK_IMAGES.values())


@pytest.mark.parametrize("image", ["workloads-preparation", *FRAMEWORK_IMAGES])
def test_the_image_of_the_preparation_has_no_framework(image: str) -> None:
    text = (lock.LOCKED / f"{image}.txt").read_text()
    found = set(re.findall(r"^([a-z0-9-]+)==", text, re.MULTILINE)) & FRAMEWORK_PACKAGES
    assert found == FRAMEWORK_IMAGES.get(image, set())


LOCKED = """
click==8.5.1 \\
    --hash=sha256:00
kopf==1.45.2 ; sys_platform == "linux" \\
    --hash=sha256:01 \\
    --hash=sha256:02
"""


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        ("", "", ""),
        ("kopf==", "# kopf==", "kopf is missing"),
        ("8.5.1", "8.5.2", "click is 8.5.2, but constraints/ pins 8.5.1"),
        ("click==8.5.1", "cl-ck==1", "cl-ck is 1, but constraints/ pins no version"),
        ("--hash=sha256:00", "", "click==8.5.1"),
        ("--hash=sha256:00", "--hash=md5:00", "has no hash"),
        ("\nclick", "\n--find-links ftp://files.example\nclick", "it has an address"),
    ],
)
def test_a_locked_file_that_differs_is_found(before: str, after: str, problem: str) -> None:
    made = lock.Lock(("operator",), more=("Kopf>=1",))
    versions = {"click": "8.5.1", "kopf": "1.45.2"}
    found = lock.problems(made, LOCKED.replace(before, after, 1), versions)
    assert problem in "; ".join(found)
    assert bool(found) == bool(problem)


def test_the_check_names_the_file_and_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lock.main(["--check"]) == 0
    locked = lock.LOCKED
    monkeypatch.setattr(lock, "LOCKED", tmp_path)
    for name in lock.LOCKS:
        (tmp_path / f"{name}.txt").write_text((locked / f"{name}.txt").read_text())
    (tmp_path / "build.txt").write_text("")
    assert lock.main(["--check"]) == 1
    assert_says(capsys.readouterr().err, "images/locked/build.txt", "hatchling", "make lock")
