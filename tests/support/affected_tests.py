"""Run the tests of what changed, nearest first, until their time is over: a part of `make check`.

    PYTHONPATH=tests python -m support.affected_tests --seconds 40

A changed test comes first, then the tests that import a changed module, then those of the modules
that import one. What changed is what differs from the branch that `origin` shows, committed or not.
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
SOURCES = ("spec", "operator", "workloads", "tests", "benchmarks", "examples", "images")
ALONE = "tests/imagenet_workloads/train"
"""Its tests refuse frameworks, so they have a process of their own."""


def changed_files(repository: Path) -> list[str]:
    """Return the files that differ from the published branch, or without one from the commit."""

    def git(*arguments: str) -> list[str]:
        command = ["git", "-C", str(repository), *arguments]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        return ended.stdout.split("\n")[:-1] if ended.returncode == 0 else []

    base = git("merge-base", "HEAD", "origin/HEAD") or ["HEAD"]
    untracked = git("ls-files", "--others", "--exclude-standard")
    return sorted({*git("diff", "--name-only", base[0]), *untracked})


def imports_by_file(repository: Path, folders: Collection[str] = SOURCES) -> dict[str, set[str]]:
    """Return the modules that each Python file imports, wherever in it."""
    return {
        str(path.relative_to(repository)): set(_imported(path))
        for folder in folders
        for path in (repository / folder).rglob("*.py")
    }


def _imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{name.name}" for name in node.names)


def module_of(file: str) -> str:
    """Return the module of a file below one of the `SOURCES`."""
    folder, _, path = file.partition("/")
    path = file if folder == "benchmarks" else path
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def affected(
    changed: Collection[str], imports: Mapping[str, Set[str]], left_out: Sequence[str] = ()
) -> list[str]:
    """Return the files with tests of what changed, nearest first.

    Args:
        changed: Files.
        imports: Of each file, the modules that it imports.
        left_out: Folders of tests that are never returned.
    """

    def importers(modules: Collection[str]) -> list[str]:
        return [file for file in sorted(imports) if not imports[file].isdisjoint(modules)]

    # The test that mirrors a changed module comes before the others.
    own = {f"test_{Path(file).stem}" for file in changed}
    direct = sorted(
        importers({module_of(file) for file in changed}),
        key=lambda file: Path(file).stem not in own,
    )
    further = importers({module_of(file) for file in direct if "/test_" not in file})
    found = dict.fromkeys([*changed, *direct, *further])
    return [
        file
        for file in found
        if file in imports
        and Path(file).name.startswith("test_")
        and not any(Path(folder) in Path(file).parents for folder in left_out)
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tests; return 0 if none has failed."""
    parser = argparse.ArgumentParser(prog="support.affected_tests", description=__doc__)
    parser.add_argument("--seconds", type=float, default=40, help="no test begins after them")
    options = parser.parse_args(arguments)
    settings = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    others = settings["tool"]["pytest"]["ini_options"]["norecursedirs"]
    files = affected(changed_files(REPOSITORY), imports_by_file(REPOSITORY), others)
    if not files:
        print("no test imports what changed")
    failed = False
    alone = [file for file in files if file.startswith(ALONE)]
    parts = [part for part in (alone, [file for file in files if file not in alone]) if part]
    for part in parts:
        print(f"{len(part)} files with tests, from {part[0]} on", flush=True)
        limit = ["--within", str(options.seconds / len(parts))]
        command = ["-m", "pytest", "-q", "-n", "0", "-m", "not libturbojpeg", *limit, *part]
        ended = subprocess.run([sys.executable, *command], cwd=REPOSITORY, check=False)
        failed = failed or ended.returncode != 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
