"""The corpus of manifests in tests/corpus, with what each file says of itself.

A file starts with a comment on its subject. Each ``# expect: STAGE PATH`` below it is
a problem that the file has: `schema` for what the API server refuses, `operator` for what only the
operator does, `document` (path ``-`` for the whole) for what cannot even be sent. A file in
`updates` holds the job as it is stored, then the update.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "corpus"
_EXPECT = re.compile(r"^# expect: (?P<stage>document|schema|operator) (?P<path>.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Case:
    """One file of the corpus: its path, and the stage and path of each problem that it has."""

    path: Path
    problems: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return f"{self.path.parent.name}/{self.path.stem}"

    def paths(self, stage: str) -> set[str]:
        """Return the paths of the problems of one stage."""
        return {path for found, path in self.problems if found == stage}


def cases(*kinds: str) -> list[Case]:
    """Return the files of `good`, `bad` or `updates`."""
    return [_case(path) for kind in kinds for path in sorted((FOLDER / kind).glob("*.yaml"))]


def _case(path: Path) -> Case:
    found = _EXPECT.finditer(path.read_text())
    return Case(
        path,
        tuple((match["stage"], "" if match["path"] == "-" else match["path"]) for match in found),
    )
