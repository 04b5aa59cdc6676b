"""Speeds, measured in turn, and tables of them."""

import statistics
import sys
from collections.abc import Callable


def in_turn(runs: int, ways: dict[str, Callable[[], float]]) -> dict[str, float]:
    """The median of each way's speeds, measured in turn."""
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(runs):
        for name, measure in ways.items():
            found[name].append(measure())
            print(f"{name}: {found[name][-1]:.1f} images/s", file=sys.stderr, flush=True)
    return {name: statistics.median(speeds) for name, speeds in found.items()}


def table(title: str, speeds: dict[str, float], base: str, aim: float) -> str:
    """A table of speeds, each against that of `base`."""
    lines = [f"\n| {title} | images/s | ratio | aim |", "|---|---:|---:|---|"]
    for name, speed in speeds.items():
        aimed = "" if name == base else f"at least {aim:.2f}"
        lines.append(f"| {name} | {speed:,.0f} | {speed / speeds[base]:.3f} | {aimed} |")
    return "\n".join(lines)
