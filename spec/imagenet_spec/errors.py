"""The errors of manifests, with the base class of those of the operator and the command line.

Every error that a user can cause is an `ImageNetJobError`, and its text says what to change.
`InvalidJob` has one `Problem` for each invalid field.
"""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

Stage = Literal["document", "schema", "operator"]
"""What rejects a manifest: the parser (document), the CRD's schema (schema), or the operator's own
rules (operator)."""


@dataclass(frozen=True)
class Problem:
    """One reason why a manifest is rejected.

    Attributes:
        path: The field, as in ``spec.training.batchSize``; empty for the whole document.
        message: What is wrong with it.
        hint: What to write instead, if known.
        stage: What rejects it.
    """

    path: str
    message: str
    hint: str | None = None
    stage: Stage = "schema"

    @property
    def is_of_template(self) -> bool:
        """Whether it is in a pod template."""
        return self.path.startswith("spec.") and "template" in self.path.split(".")

    def __str__(self) -> str:
        place = f"{self.path}: " if self.path else ""
        remedy = f"; {self.hint}" if self.hint else ""
        text = f"{place}{self.message}{remedy}"
        # The name of an unknown field may contain line breaks.
        return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


_HIDDEN: Final = ("imagenet_operator", "imagenet_spec", "IPython", "asyncio", "concurrent")
"""The packages between the lines of a notebook and an error, which say nothing to its user."""


class ImageNetJobError(Exception):
    """The base class of this package's errors."""

    def _render_traceback_(self) -> list[str]:
        """Return what a notebook shows of the error: the user's own lines, and the text."""
        own = (
            (frame, line)
            for frame, line in traceback.walk_tb(self.__traceback__)
            if frame.f_globals.get("__name__", "").partition(".")[0] not in _HIDDEN
        )
        return [
            *(f"line {call.lineno}: {call.line}" for call in traceback.StackSummary.extract(own)),
            f"{type(self).__name__}: {self}",
        ]


class UnreadableManifest(ImageNetJobError):  # noqa: N818 - named for the file's state, as its siblings
    """A file is missing, or is not valid YAML for Kubernetes."""

    def __init__(self, source: str, message: str) -> None:
        super().__init__(f"{source}: {message}")
        self.source = source
        self.message = message


class InvalidJob(ImageNetJobError):  # noqa: N818 - the reason of the Failed condition
    """The API server or the operator would reject a manifest."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


class InvalidTemplate(ImageNetJobError):  # noqa: N818 - the reason of the Failed condition
    """A pod template sets a field that the operator owns, or cannot be merged."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}")
        self.path = path
        self.message = message
