"""Pages that add something to the project: their code, applied to a copy of the tree.

A code block whose first line is a comment with a path is that file. In a `diff` block the lines
with `-` are replaced by those with `+`, hunk by hunk.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from support.pod_subset import REPOSITORY

_BLOCK = re.compile(r"```(python|yaml|diff)\n# (\S+/\S+)\n(.*?)```", re.DOTALL)
FOLDERS = ("examples", "operator", "spec", "tests", "workloads")


@dataclass(frozen=True)
class Walkthrough:
    """A page's code.

    Attributes:
        new: The content of each new file, by its path in the project.
        changes: For each file that exists, what is replaced by what.
    """

    new: dict[str, str]
    changes: dict[str, list[tuple[str, str]]]

    @classmethod
    def read(cls, page: Path) -> Walkthrough:
        """Read a page."""
        new: dict[str, str] = {}
        changes: dict[str, list[tuple[str, str]]] = {}
        for language, path, body in _BLOCK.findall(page.read_text()):
            if language == "diff":
                changes.setdefault(path, []).extend(_hunks(body))
            else:
                new[path] = body
        return cls(new, changes)

    def apply(self, folder: Path) -> dict[str, str]:
        """Apply the code to a new copy of the project; return the environment that runs it.

        Raises:
            ValueError: A new file exists already, or a change does not fit its file.
        """
        for name in FOLDERS:
            shutil.copytree(
                REPOSITORY / name, folder / name, ignore=shutil.ignore_patterns("__pycache__")
            )
        for path, content in self.new.items():
            if (folder / path).exists():
                raise ValueError(f"{path} exists already")
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(content)
        for path, hunks in self.changes.items():
            text = (folder / path).read_text()
            for old, new in hunks:
                if text.count(old) != 1:
                    raise ValueError(f"{path} does not have this once:\n{old}")
                text = text.replace(old, new)
            (folder / path).write_text(text)
        packages = os.pathsep.join(str(folder / name) for name in ("spec", "operator", "workloads"))
        # Before the packages that are installed, which are those of this tree.
        return {**os.environ, "PYTHONPATH": packages}


def run(folder: Path, environment: dict[str, str], *command: str | Path) -> str:
    """Run a command in a copy; return its output, which must be that of a success."""
    ended = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def _hunks(body: str) -> list[tuple[str, str]]:
    runs = [
        (sign, "".join(f"{line[1:]}\n" for line in lines))
        for sign, lines in groupby(body.splitlines(), key=lambda line: line[:1])
    ]
    return [
        (old, new)
        for (minus, old), (plus, new) in zip(runs[::2], runs[1::2], strict=True)
        if (minus, plus) == ("-", "+")
    ]
