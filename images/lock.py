"""Writes what each image installs, with hashes, from constraints/: images/locked/NAME.txt.

    .venv/bin/python images/lock.py --uv build/tools/bin/uv    # make lock; asks the package index
    .venv/bin/python images/lock.py --check                    # make verify; asks no index

A locked file has the versions that constraints/ pins and the hashes of all their files, but no
address: an image installs the same bytes from any index. The layer of the dependencies, gigabytes
with CUDA, stays as it is while the sources change.
"""

import argparse
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
LOCKED = REPOSITORY / "images" / "locked"
X86_64, AARCH64 = "x86_64-manylinux_2_36", "aarch64-manylinux_2_36"
HEADER = (
    "# Written by `make lock` from constraints/: what `pip install --require-hashes` installs.\n"
)
# Also against what another package asks for: MXNet runs on a newer NumPy than its metadata say.
_OVERRIDE = "numpy"
# What Horovod's wheel imports; it is installed without dependencies.
_HOROVOD = ("cloudpickle", "packaging", "psutil", "PyYAML")
_HOROVOD_BUILD = (*_HOROVOD, "cmake", "setuptools", "wheel")
# Our own distributions are built from this tree: only what they require is locked.
_OURS = {"imagenet-spec": "spec"}
_PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", re.MULTILINE)


class LockError(Exception):
    """A locked file cannot be written, or differs from constraints/."""


@dataclass(frozen=True)
class Lock:
    """What one locked file is written from.

    Attributes:
        constraints: The files in constraints/ that pin the versions.
        project: A folder whose pyproject.toml names the requirements; empty for none.
        extras: Of the project.
        more: Further requirements.
        platforms: Where all of them have wheels.
    """

    constraints: tuple[str, ...]
    project: str = ""
    extras: tuple[str, ...] = ()
    more: tuple[str, ...] = ()
    platforms: tuple[str, ...] = (X86_64, AARCH64)

    def requirements(self) -> list[str]:
        """Return the direct requirements."""
        if not self.project:
            return list(self.more)
        file = REPOSITORY / self.project / "pyproject.toml"
        project = tomllib.loads(file.read_text())["project"]
        optional = project.get("optional-dependencies", {})
        of_extras = [line for extra in self.extras for line in optional[extra]]
        found = [*project.get("dependencies", ()), *of_extras, *self.more]
        required: list[str] = []
        for line in found:
            if (folder := _OURS.get(normal(line))) is None:
                required.append(line)
            else:
                extras = re.findall(r"\[(.+)\]", line)
                required += Lock((), folder, tuple(extras)).requirements()
        return required


LOCKS = {
    "build": Lock(("build",), more=("hatchling",)),
    "horovod": Lock(("horovod",), more=_HOROVOD_BUILD),
    # With the headers of CUDA's compiler.
    "horovod-cu112": Lock(
        ("horovod", "workloads-cu112"),
        more=(*_HOROVOD_BUILD, "nvidia-cuda-nvcc-cu11"),
        platforms=(X86_64,),
    ),
    "sbom": Lock(("sbom",), more=("cyclonedx-bom",)),
    "operator": Lock(("operator",), "operator"),
    "workloads-preparation": Lock(
        ("workloads", "numpy", "preparation"),
        "workloads",
        ("heic", "hugging-face", "kaggle", "parquet", "s3"),
    ),
    "workloads-mxnet": Lock(
        ("workloads", "numpy", "horovod"), "workloads", ("mxnet", "s3"), ("mxnet", *_HOROVOD)
    ),
    "workloads-mxnet-cu112": Lock(
        ("workloads", "numpy", "workloads-cu112", "horovod"),
        "workloads",
        ("mxnet-cu112", "s3"),
        ("mxnet-cu112", *_HOROVOD),
        (X86_64,),
    ),
    "workloads-pytorch": Lock(
        ("workloads", "numpy", "pytorch"), "workloads", ("pytorch", "s3"), platforms=(X86_64,)
    ),
    "workloads-r": Lock(
        ("workloads", "tensorflow", "horovod"),
        "workloads",
        ("mxnet", "tensorflow", "s3"),
        ("mxnet",),
        (X86_64,),
    ),
    "workloads-tensorflow": Lock(
        ("workloads", "tensorflow", "horovod"),
        "workloads",
        ("tensorflow", "s3"),
        _HOROVOD,
        (X86_64,),
    ),
    "workloads-tensorflow-gpu": Lock(
        ("workloads", "tensorflow", "tensorflow-gpu", "horovod"),
        "workloads",
        ("tensorflow-gpu", "s3"),
        _HOROVOD,
        (X86_64,),
    ),
}


def normal(requirement: str) -> str:
    """Return the normalized name of a requirement."""
    return re.sub(r"[-_.]+", "-", re.split(r"[<>=!~\[; ]", requirement)[0]).lower()


def pins(text: str) -> dict[str, str]:
    """Return the versions that a file pins, by normalized name."""
    return {normal(name): version for name, version in _PIN.findall(text)}


def constrained(lock: Lock) -> dict[str, str]:
    """Return the versions that constraints/ pins for a locked file."""
    found: dict[str, str] = {}
    for name in lock.constraints:
        found |= pins((REPOSITORY / "constraints" / f"{name}.txt").read_text())
    return found


def problems(lock: Lock, text: str, versions: Mapping[str, str]) -> list[str]:
    """Return how a locked file differs from what it is written from.

    Args:
        lock: What it is written from.
        text: The file.
        versions: The versions that constraints/ pins.
    """
    locked = pins(text)
    lines = text.replace("\\\n", " ").splitlines()
    bare = [line for line in lines if line and line[0] != "#" and "--hash=sha256:" not in line]
    return [
        *(f"{name} is missing" for name in map(normal, lock.requirements()) if name not in locked),
        *(
            f"{name} is {version}, but constraints/ pins {versions.get(name, 'no version')}"
            for name, version in locked.items()
            if versions.get(name) != version
        ),
        *(f"{line} has no hash" for line in bare),
        *(["it has an address"] if "://" in text else []),
    ]


def write(lock: Lock, uv: str) -> str:
    """Return a locked file, as the package index has it now.

    Raises:
        LockError: There is no version for all, or the platforms need other packages.
    """
    texts = {platform: _compile(lock, uv, platform) for platform in lock.platforms}
    if len(set(texts.values())) > 1:
        raise LockError(f"{' and '.join(texts)} need other packages")
    return HEADER + texts[lock.platforms[0]]


def _compile(lock: Lock, uv: str, platform: str) -> str:
    files = [
        f"--{'override' if name == _OVERRIDE else 'constraint'}=constraints/{name}.txt"
        for name in lock.constraints
    ]
    ended = subprocess.run(
        [
            *(uv, "pip", "compile", "--quiet", "--no-config", "--generate-hashes", "--no-header"),
            *("--no-annotate", "--python-version=3.11", f"--python-platform={platform}"),
            *("--only-binary=:all:", *files, "-"),
        ],
        input="\n".join(lock.requirements()),
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode:
        raise LockError(ended.stderr.strip())
    return ended.stdout


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the locked files, or with --check compare them; return the exit code."""
    parser = argparse.ArgumentParser(description="Lock what the images install.")
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--uv", help="the program that asks the package index")
    action.add_argument("--check", action="store_true", help="write nothing")
    chosen = parser.parse_args(arguments)
    code = 0
    for name, lock in LOCKS.items():
        file = LOCKED / f"{name}.txt"
        try:
            if chosen.uv:
                file.write_text(write(lock, chosen.uv))
            if found := problems(lock, file.read_text(), constrained(lock)):
                raise LockError("; ".join(found))
        except (LockError, OSError) as error:
            print(f"images/locked/{name}.txt: {error}; run make lock", file=sys.stderr)
            code = 1
    return code


if __name__ == "__main__":
    sys.exit(main())
