"""The errors of the control side: one small tree that the command line catches as a whole.

Every error that a user can cause is an `ImageNetJobError`; its text alone says what to change.
`InvalidJob` carries one `Problem` for each finding about a manifest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Stage = Literal["document", "schema", "operator"]
"""Who refuses: nothing can even be sent (document), the API server by the CRD (schema), or the
operator, which sees what a schema cannot (operator)."""


@dataclass(frozen=True)
class Problem:
    """One reason why a manifest is refused.

    Attributes:
        path: The field as the API server names it, ``spec.training.batchSize``; empty for the
            document as a whole.
        message: What is wrong there.
        hint: What to write instead, where that can be said.
        stage: Who refuses it.
    """

    path: str
    message: str
    hint: str | None = None
    stage: Stage = "schema"

    @property
    def is_of_template(self) -> bool:
        """Whether it is found in a pod template."""
        return self.path.startswith("spec.") and "template" in self.path.split(".")

    def __str__(self) -> str:
        """Join path, message and hint into the one line that a user reads."""
        place = f"{self.path}: " if self.path else ""
        remedy = f"; {self.hint}" if self.hint else ""
        text = f"{place}{self.message}{remedy}"
        # The name of an unknown field may be anything, and a line has to stay one.
        return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


class ImageNetJobError(Exception):
    """The root of every error that this package raises on purpose."""


class UnreadableManifest(ImageNetJobError):  # noqa: N818 - named for the file's state, as its siblings
    """A file is missing, or is not YAML that Kubernetes would take."""

    def __init__(self, source: str, message: str) -> None:
        super().__init__(f"{source}: {message}")
        self.source = source
        self.message = message


class InvalidJob(ImageNetJobError):  # noqa: N818 - the reason of the Failed condition
    """A manifest that the API server, or the operator after it, would refuse."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


class InvalidTemplate(ImageNetJobError):  # noqa: N818 - the reason of the Failed condition
    """A pod template that overrides a field the operator owns, or that cannot be merged.

    Attributes:
        path: Where, from the root of the manifest, as ``spec.training.workers.template.spec``.
        message: What is wrong there and what to write instead.
    """

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}")
        self.path = path
        self.message = message
