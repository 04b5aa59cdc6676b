"""`make demo`, the tests that a Python could break, and the way without a clone, on newer Pythons.

    make test-pythons                           # 3.12 to 3.14
    make test-pythons PYTHONS=3.13 ONE_IN=32    # what .ci/run does: one test in 32

A Python is this machine's own (on the PATH, or one of pyenv's), or that of a Debian release in a
root file system, which needs root and debootstrap. The last lines name what was not run. `make
test` runs all tests on the Python that make takes by itself.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

# Started by path, before anything is installed.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fresh_machine import run as fresh_machine

REPOSITORY = Path(__file__).resolve().parents[2]
# The Debian release that has each Python; no release has 3.12.
RELEASES = {"3.12": None, "3.13": "trixie", "3.14": "forky"}
# The operator, preparation, reading and MXNet. Other tests run the same code, or frameworks that
# have a Python of their own.
TESTS = (
    "tests/imagenet_operator",
    "tests/imagenet_workloads/frameworks/mxnet",
    "tests/imagenet_workloads/prepare",
    "tests/imagenet_workloads/data",
    "tests/imagenet_workloads/test_mxnet_compatibility.py",
)


def commands(version: str, python: Path, one_in: int) -> list[str]:
    """Return what is run on a Python, as shell commands in a checkout.

    Args:
        version: Of the Python.
        python: It.
        one_in: Of so many tests, one is run.
    """
    environment = f".venv-{version}"
    return [
        f"make demo install VENV={environment} PYTHON={python}",
        f"OMP_NUM_THREADS=1 {environment}/bin/pytest -n 3 --dist worksteal "
        f"-m 'not libturbojpeg' --one-in {one_in} {' '.join(TESTS)}",
    ]


def of_this_machine(version: str) -> Path | None:
    """Return this machine's own Python with venv; None if it has none."""
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    installed = sorted(root.glob(f"versions/{version}.*/bin"))
    for folder in (*map(Path, os.environ.get("PATH", "").split(os.pathsep)), *installed):
        program = folder / f"python{version}"
        # A shim of pyenv may find no such version.
        if (
            program.is_file()
            and not subprocess.run(
                [program, "-c", "import ensurepip"], capture_output=True, check=False
            ).returncode
        ):
            return program
    return None


def run(version: str, one_in: int) -> str:
    """Run everything on a Python, or one of so many tests; return the line of the report."""
    python = of_this_machine(version)
    if python is not None:
        # A bare Debian lacks a library that MXNet's wheel links to.
        without_a_clone = f"{python} tests/pythons/wheels.py .venv-{version}"
        for command in (*commands(version, python, one_in), without_a_clone):
            print(f"\n$ {command}", flush=True)
            if subprocess.run(["bash", "-c", command], cwd=REPOSITORY, check=False).returncode:
                sys.exit(f"Python {version}: failed with {python}")
        return f"Python {version}: passed, with {python}"
    release = RELEASES[version]
    if release is None:
        return f"Python {version}: not run; this machine lacks it, and so does every Debian"
    inside = commands(version, Path(f"python{version}"), one_in)
    if fresh_machine.main(["--release", release, *inside]):
        sys.exit(f"Python {version}: failed on Debian {release}")
    return f"Python {version}: passed, on Debian {release}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the Pythons that are named, or all; return 0 if all that could run have passed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("version", nargs="*", default=list(RELEASES), help="such as 3.13")
    parser.add_argument("--one-in", type=int, default=1, help="run one of so many tests")
    options = parser.parse_args(arguments)
    versions = options.version
    for unknown in set(versions) - RELEASES.keys():
        parser.error(f"{unknown!r} is none of {', '.join(RELEASES)}")
    print("\n" + "\n".join([run(version, options.one_in) for version in versions]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
