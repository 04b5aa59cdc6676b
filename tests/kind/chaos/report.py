"""The tables of a chaos run, as Markdown, for the terminal and docs/reliability.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kind.chaos.history import JobState

BEGIN = "<!-- chaos-kind: begin -->"
END = "<!-- chaos-kind: end -->"
SHOWN = 20
"""Violations that are listed in full."""


@dataclass(frozen=True)
class Outcome:
    """A chaos run that is over.

    Attributes:
        seed: Of all choices.
        seconds: From the first job to the last fault.
        kinds: Of faults, in the table's order.
        is_enough: Whether as many faults had an effect as the plan asks for.
        observed: Faults with an effect, by kind.
        without_effect: The others.
        violations: Of each invariant, by its sentence.
        jobs: The last state of each job, by namespace.
    """

    seed: int
    seconds: float
    kinds: Sequence[str]
    is_enough: bool
    observed: Counter[str]
    without_effect: Counter[str]
    violations: Mapping[str, Sequence[str]]
    jobs: Mapping[str, JobState]

    @property
    def is_right(self) -> bool:
        """Whether enough faults had an effect, and no invariant was violated."""
        return self.is_enough and not any(self.violations.values())


def tables(outcome: Outcome) -> str:
    """Return both tables, with the violations below them."""
    last = outcome.jobs.values()
    phases = Counter(state.phase for state in last)
    lines = [
        f"Seed {outcome.seed}: {len(last)} jobs, {outcome.observed.total()} faults "
        f"in {outcome.seconds / 60:.0f} minutes. "
        f"{phases['Succeeded']} jobs succeeded, {phases['Failed']} failed. "
        f"They had {sum(state.restarts for state in last)} charged restarts and "
        f"{sum(state.disruptions for state in last)} disruptions.",
        "",
        "| Fault | Observed | Without effect |",
        "|---|---:|---:|",
        *(
            f"| {name} | {outcome.observed[name]} | {outcome.without_effect[name]} |"
            for name in outcome.kinds
        ),
        f"| All | {outcome.observed.total()} | {outcome.without_effect.total()} |",
        "",
        "| Invariant | Violations |",
        "|---|---:|",
        *(f"| {name} | {len(items)} |" for name, items in outcome.violations.items()),
    ]
    if not outcome.is_enough:
        lines += ["", "The run ended before it had as many faults as it was asked for."]
    listed = [item for items in outcome.violations.values() for item in items]
    if listed:
        lines += ["", *(f"- {item}" for item in listed[:SHOWN])]
    return "\n".join(lines) + "\n"


def write(page: Path, text: str) -> None:
    """Replace the tables in a page, between the two marks, or append them."""
    before, _, rest = page.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before.rstrip()}\n\n{BEGIN}\n{text}{END}\n{after.lstrip()}")
