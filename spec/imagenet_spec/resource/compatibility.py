"""The table of the combinations of framework, dataset format and strategy.

Exactly the combinations in this table are possible. The rows follow from the strategies and formats
in the frameworks' descriptors.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from imagenet_spec.frameworks import FRAMEWORKS
from imagenet_spec.resource.strategies import STRATEGIES
from imagenet_spec.rules import Rule


class Combination(NamedTuple):
    """A row: values of `framework` and `format`, and the name of a strategy."""

    framework: str
    format: str
    strategy: str


Table = tuple[Combination, ...]

COMBINATIONS: Table = tuple(
    Combination(name, format_, strategy)
    for strategy in STRATEGIES
    for name, framework in FRAMEWORKS.items()
    if strategy in framework.strategies
    for format_ in framework.formats
)


def rules(table: Table = COMBINATIONS) -> tuple[Rule, ...]:
    """Return the rules that the combination of a `spec` is in a table."""
    return _strategy_rule(table), _format_rule(table)


def _strategy_rule(table: Table) -> Rule:
    """Return the rule that the framework has the strategy, for any format."""
    pairs = {(row.framework, row.strategy) for row in table}

    def explain(spec: Any) -> tuple[str, str]:
        framework = spec.training.framework
        given = spec.training.strategy.given
        kind = next(kind for kind in given if (framework, kind) not in pairs)
        known = dict.fromkeys(row.strategy for row in table if row.framework == framework)
        others = [
            f"framework: {row.framework} with preprocessing.format: {row.format}"
            for row in table
            if row.strategy == kind
        ]
        remedies = [*([f"one of {', '.join(known)}"] if known else []), *others]
        return f"{framework} has no strategy {kind}", f"write {', or '.join(remedies)}"

    return Rule(
        cel=" && ".join(
            f"(!has(self.training.strategy.{kind}) || self.training.framework in"
            f" {[framework for framework, other in sorted(pairs) if other == kind]})"
            for kind in STRATEGIES
        ),
        message="must be a strategy of the framework",
        field="training.strategy",
        explain=explain,
    )


def _format_rule(table: Table) -> Rule:
    """Return the rule that the framework reads the format; it accepts jobs without a strategy."""
    formats: dict[str, list[str]] = {}
    for row in table:
        if row.format not in formats.setdefault(row.framework, []):
            formats[row.framework].append(row.format)
    clauses = [
        f"(self.training.framework != '{framework}'"
        f" || self.dataset.preprocessing.format in {known})"
        for framework, known in formats.items()
    ]
    return Rule(
        cel=" && ".join(clauses),
        message="must be a format that the framework reads",
        field="dataset.preprocessing.format",
        explain=lambda spec: (
            f"{spec.training.framework} does not read {spec.dataset.preprocessing.format}",
            f"write {' or '.join(formats[spec.training.framework])}",
        ),
    )
