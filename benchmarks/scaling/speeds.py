"""Speeds, measured in turn, and tables of them."""

import statistics
import sys
from collections.abc import Callable, Mapping, Sequence


def in_turn(runs: int, measurements: dict[str, Callable[[], float]]) -> dict[str, list[float]]:
    """Each way's speeds, one a round.

    Every other round goes backwards: on a machine that becomes slower all the time, the ones before
    and behind a base would otherwise differ from it by that alone.
    """
    found: dict[str, list[float]] = {name: [] for name in measurements}
    for number in range(runs):
        order = list(measurements) if number % 2 == 0 else list(reversed(measurements))
        for name in order:
            found[name].append(measurements[name]())
            print(f"{name}: {found[name][-1]:.1f} images/s", file=sys.stderr, flush=True)
    return found


def in_pairs(
    runs: int, names: tuple[str, str], measure: Callable[[], tuple[float, float]]
) -> dict[str, list[float]]:
    """The speeds of two programs that are measured at the same time, one a round."""
    found: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(runs):
        for name, speed in zip(names, measure(), strict=True):
            found[name].append(speed)
            print(f"{name}: {speed:.1f} images/s", file=sys.stderr, flush=True)
    return found


def table(title: str, speeds: dict[str, list[float]], base: str, aims: Mapping[str, float]) -> str:
    """A table of median speeds, each against what `base` reached in the same round.

    Args:
        title: of the first column.
        speeds: by name, one a round.
        base: the name of what the others are compared with.
        aims: the least ratios, by name.
    """
    lines = [f"\n| {title} | images/s | ratio | of all rounds | aim |", "|---|---:|---:|---|---|"]
    for name, rounds in speeds.items():
        line = f"| {name} | {statistics.median(rounds):,.0f} |"
        if name == base:
            lines.append(f"{line} 1.000 |  |  |")
            continue
        found = ratios(rounds, speeds[base])
        between = f"{min(found):.3f} to {max(found):.3f}"
        lines.append(
            f"{line} {statistics.median(found):.3f} | {between} | at least {aims[name]:.2f} |"
        )
    return "\n".join(lines)


def ratios(speeds: Sequence[float], base: Sequence[float]) -> list[float]:
    """A way's speeds over the base's, round by round: what slows a whole round cancels out."""
    return [speed / whole for speed, whole in zip(speeds, base, strict=True)]
