"""Which framework trains from which dataset format with which strategy: one table.

A combination is possible when, and only when, it has a row here.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from imagenet_operator.api.base import Rule
from imagenet_operator.api.strategies import Strategy


class Combination(NamedTuple):
    """A row: values of `framework` and `format`, and the name of a strategy."""

    framework: str
    format: str
    strategy: str


COMBINATIONS = (
    Combination("MXNet", "RecordIO", "parameterServer"),
    Combination("MXNet", "RecordIO", "single"),
)


def _of(spec: Any) -> Combination | None:
    strategy = spec.training.strategy
    if len(strategy.given) != 1:
        return None  # The union's own rule says so already.
    return Combination(spec.training.framework, spec.dataset.preprocessing.format, strategy.kind)


def rule(table: tuple[Combination, ...] = COMBINATIONS) -> Rule:
    """Return the rule for `spec` that its combination is in a table."""
    clauses = []
    for name in Strategy.kinds():
        rows = [
            f"(self.training.framework == '{row.framework}'"
            f" && self.dataset.preprocessing.format == '{row.format}')"
            for row in table
            if row.strategy == name
        ]
        clauses.append(f"(!has(self.training.strategy.{name}) || {' || '.join(rows) or 'false'})")

    def explain(spec: Any) -> tuple[str, str]:
        combination = _of(spec)
        assert combination is not None
        return (
            f"{combination.framework} cannot train from {combination.format} with"
            f" {combination.strategy}",
            "write one of " + "; ".join(", ".join(row) for row in table),
        )

    return Rule(
        cel=" && ".join(clauses),
        message="framework, preprocessing.format and strategy do not go together",
        field="training.strategy",
        holds=lambda spec: _of(spec) in {None, *table},
        explain=explain,
    )
