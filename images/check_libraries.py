"""Fails the build of an image in which a linked shared library is missing.

A machine without a GPU cannot run MXNet's build for CUDA, and not even import it. But the loader
can be asked what each of its libraries would find; only the driver's own may be missing, which the
node brings along. Python's extension modules are better checked by an import: they load what they
bring along before what needs it, which the loader alone does not know.

    python images/check_libraries.py …/site-packages/mxnet --missing libcuda.so.1
"""

import argparse
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

ELF = b"\x7fELF"


def libraries(folder: Path) -> Iterator[Path]:
    """Every shared library below a folder, links to them aside."""
    for path in sorted(folder.rglob("*.so*")):
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                if file.read(len(ELF)) == ELF:
                    yield path


def missing(library: Path) -> set[str]:
    """What the loader does not find for a library: names, or versions of symbols."""
    # The loader's complaints about versions go to the standard error.
    told = subprocess.run(
        ["ldd", library], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    ).stdout
    lines = (line.strip() for line in told.splitlines() if "not found" in line)
    return {line.partition(" => ")[0] for line in lines}


def main(arguments: Sequence[str] | None = None) -> int:
    """Compares what is missing with what may be; returns the exit code."""
    parser = argparse.ArgumentParser(description="Check what shared libraries link to.")
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument(
        "--missing", action="append", default=[], help="what alone is missing, and must be"
    )
    parsed = parser.parse_args(arguments)
    found = {folder: list(libraries(folder)) for folder in parsed.folders}
    if empty := [folder for folder, paths in found.items() if not paths]:
        print(f"{empty[0]} has no shared libraries", file=sys.stderr)
        return 1
    needs = {path: missing(path) for paths in found.values() for path in paths}
    expected, absent = set(parsed.missing), set().union(*needs.values())
    for path, names in needs.items():
        for name in sorted(names - expected):
            print(f"{path}: {name} is not found", file=sys.stderr)
    for name in sorted(expected - absent):
        print(f"nothing links to {name}, or the image has it", file=sys.stderr)
    print(f"{len(needs)} libraries checked, missing: {', '.join(sorted(absent)) or 'none'}")
    return int(absent != expected)


if __name__ == "__main__":
    sys.exit(main())
