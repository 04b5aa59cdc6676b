"""What `validate` returns: one finding about a manifest, with its place and its remedy."""

from __future__ import annotations

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
