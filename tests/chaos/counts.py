"""What many schedules have injected and found, and the tables of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass
class Counts:
    """The sum of some schedules.

    Attributes:
        schedules: How many there were.
        injections: Fault → how often its effect was seen.
        struck: Fault → in how many schedules.
        checks: Invariant → how often it was checked.
        violations: Invariant → how often it did not hold.
        requests: How many the API server was sent.
        growths: How many attempts of elastic jobs ended so that the job grows.
        ends: How a job ended → how many did.
    """

    schedules: int = 0
    injections: Counter[str] = field(default_factory=Counter)
    struck: Counter[str] = field(default_factory=Counter)
    checks: Counter[str] = field(default_factory=Counter)
    violations: Counter[str] = field(default_factory=Counter)
    requests: int = 0
    growths: int = 0
    ends: Counter[str] = field(default_factory=Counter)

    def inject(self, fault: str) -> None:
        """Count a fault whose effect was seen."""
        self.injections[fault] += 1

    def add(self, other: Counts) -> None:
        """Add other schedules."""
        self.schedules += other.schedules
        self.requests += other.requests
        self.growths += other.growths
        for name in ("injections", "struck", "checks", "violations", "ends"):
            getattr(self, name).update(getattr(other, name))

    def sentence(self) -> str:
        """Return what became of schedules beside Kueue."""
        return (
            f"{self.schedules:,} schedules with {self.requests:,} requests: "
            f"{self.injections['evicted by Kueue']:,} evictions, "
            f"{self.injections['webhook failed']:,} requests without its webhook, "
            f"{sum(self.violations.values()):,} violations. "
            f"{self.ends['Succeeded']:,} jobs succeeded, {self.ends['Failed']:,} failed."
        )

    def tables(self, invariants: Mapping[str, str]) -> str:
        """Return both tables in Markdown.

        Args:
            invariants: Each invariant, in words.
        """
        faults = [
            (name, self.struck[name], self.injections[name]) for name in sorted(self.injections)
        ]
        rules = [
            (words, self.checks[name], self.violations[name]) for name, words in invariants.items()
        ]
        return "\n\n".join(
            (
                f"{self.schedules:,} schedules with {self.requests:,} requests. "
                f"{self.ends['Succeeded']:,} jobs succeeded, {self.ends['Failed']:,} failed.",
                _table(("Fault", "Schedules", "Injections"), faults),
                _table(("Invariant", "Checks", "Violations"), rules),
            )
        )


def _table(head: Sequence[str], rows: Iterable[tuple[str, int, int]]) -> str:
    lines = [f"| {' | '.join(head)} |", "|---|--:|--:|"]
    lines += [f"| {name} | {first:,} | {second:,} |" for name, first, second in rows]
    return "\n".join(lines)
