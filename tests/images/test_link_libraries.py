"""MXNet finds in other wheels the libraries that the system lacks."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

import link_libraries

# Loads what libmxnet.so links to and prints which files that took.
LOAD = """
import ctypes, sys
ctypes.CDLL(sys.argv[1])
for line in open("/proc/self/maps"):
    print(line.split()[-1])
"""


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """MXNet's libraries, and those of the wheels beside it, in a folder to write to."""
    package = importlib.util.find_spec("mxnet")
    assert package is not None and package.origin is not None
    for name in ("mxnet", "numpy.libs", "scikit_learn.libs"):
        installed, folder = Path(package.origin).parents[1] / name, tmp_path / name
        folder.mkdir()
        for library in installed.glob("lib*.so*"):
            if library.name not in link_libraries.COPIES:
                (folder / library.name).symlink_to(library)
    return tmp_path


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """A system with neither library."""
    monkeypatch.setattr(link_libraries, "system_has", lambda library: False)


@pytest.mark.usefixtures("bare")
def test_the_loader_takes_the_copies_in_other_wheels(packages: Path) -> None:
    assert link_libraries.link(packages) == []
    library = packages / "mxnet" / "libopenblas.so.0"
    command = [sys.executable, "-c", LOAD, str(library)]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "scikit_learn.libs/libgomp-" in loaded
    assert "numpy.libs/libquadmath-" in loaded


@pytest.mark.usefixtures("bare")
def test_links_are_made_again_over_old_ones(packages: Path) -> None:
    (packages / "mxnet" / "libgomp.so.1").symlink_to("gone")
    assert link_libraries.link(packages) == []
    assert (packages / "mxnet" / "libgomp.so.1").is_file()


@pytest.mark.usefixtures("bare")
def test_a_library_that_no_wheel_has_is_reported(packages: Path) -> None:
    for copy in packages.glob("scikit_learn.libs/*"):
        copy.unlink()
    assert link_libraries.link(packages) == ["libgomp.so.1"]


def test_the_system_s_own_libraries_are_left_to_it(
    packages: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link_libraries, "system_has", lambda library: True)
    assert link_libraries.link(packages) == []
    assert not (packages / "mxnet" / "libgomp.so.1").exists()


def test_the_dynamic_loader_is_asked() -> None:
    assert link_libraries.system_has("libc.so.6")
    assert not link_libraries.system_has("libimagenetjob.so.1")
