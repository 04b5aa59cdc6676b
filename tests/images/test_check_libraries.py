"""The build's check of shared libraries finds what the loader would not find."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from support.chart import REPOSITORY

PROGRAM = REPOSITORY / "images" / "check_libraries.py"


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A shared library that links to one that no machine has, made of one that is sound."""
    origin = importlib.util.find_spec("pydantic_core._pydantic_core")
    assert origin is not None and origin.origin is not None
    content = Path(origin.origin).read_bytes()
    assert b"libc.so.6\0" in content
    path = tmp_path / "libsomething.so.1"
    path.write_bytes(content.replace(b"libc.so.6\0", b"libX.so.6\0"))
    (tmp_path / "libsomething.so").symlink_to(path.name)
    (tmp_path / "linker-script.so").write_text("GROUP ( libsomething.so.1 )")
    return path


def check(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(PROGRAM), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_library_that_is_not_found_is_named_with_who_needs_it(library: Path) -> None:
    done = check(library.parent)
    assert done.returncode == 1
    assert f"{library}: libX.so.6 is not found" in done.stderr


def test_what_the_node_brings_may_be_missing(library: Path) -> None:
    done = check(library.parent, "--missing", "libX.so.6")
    assert done.returncode == 0
    assert done.stdout == "1 libraries checked, missing: libX.so.6\n"


def test_what_should_be_missing_must_be(library: Path) -> None:
    done = check(library.parent, "--missing", "libX.so.6", "--missing", "libcuda.so.1")
    assert done.returncode == 1
    assert "nothing links to libcuda.so.1" in done.stderr


def test_a_folder_without_libraries_was_not_what_was_meant(tmp_path: Path) -> None:
    done = check(tmp_path)
    assert done.returncode == 1
    assert f"{tmp_path} has no shared libraries" in done.stderr
