"""`make chaos`: plays many schedules, and prints what was injected and what was violated.

One schedule again, with the operator's log: PYTHONPATH=tests python -m chaos.run --seed 17
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from chaos import crashes, schedule
from chaos.counts import Counts
from chaos.faults import BESIDE_KUEUE, Fault
from chaos.invariants import NAMES
from chaos.schedule import Plan

TABLES = re.compile("(?<=<!-- make chaos -->\n).*(?=<!-- end -->)", re.DOTALL)
"""Where the page has the tables."""

QUEUES = re.compile("(?<=<!-- make chaos: queues -->\n).*(?=<!-- end of queues -->)", re.DOTALL)
"""Where it says what became of the schedules beside Kueue."""

LIVES = re.compile("(?<=<!-- make chaos: crashes -->\n).*(?=<!-- end of crashes -->)", re.DOTALL)
"""Where it has the table of crashes after every write."""

_AT_ONCE = 20


def play(seeds: Sequence[int]) -> tuple[Counts, list[str]]:
    """Play the schedules of some seeds; return what they did, and each violation with its seed."""
    return _play(schedule.draw(seed) for seed in seeds)


def play_queued(
    seeds: Sequence[int], kinds: Sequence[Fault] = BESIDE_KUEUE
) -> tuple[Counts, list[str]]:
    """Play the schedules of some seeds with jobs in a queue of Kueue; as `play`."""
    return _play(schedule.queued(schedule.draw(seed, kinds)) for seed in seeds)


def _play(plans: Iterable[Plan]) -> tuple[Counts, list[str]]:
    total, found = Counts(), []
    for plan in plans:
        try:
            outcome = schedule.run(plan)
        except Exception as error:
            raise RuntimeError(f"the schedule of seed {plan.seed} broke: {error!r}") from error
        total.add(outcome.counts)
        found += [f"seed {plan.seed}: {item}" for item in outcome.violations]
    return total, found


Player = Callable[[Sequence[int]], tuple[Counts, list[str]]]


def _quietly(player: Player, seeds: Sequence[int]) -> tuple[Counts, list[str]]:
    logging.disable()
    return player(seeds)


def _play_all(player: Player, number: int) -> tuple[Counts, list[str]]:
    total, found = Counts(), []
    parts = [range(begin, min(begin + _AT_ONCE, number)) for begin in range(0, number, _AT_ONCE)]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(len(os.sched_getaffinity(0)), mp_context=context) as pool:
        for done in as_completed([pool.submit(_quietly, player, part) for part in parts]):
            counts, violations = done.result()
            total.add(counts)
            found += violations
            print(f"\r{total.schedules:,} of {number:,}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return total, found


def _crash(name: str) -> tuple[str, int, list[str]]:
    """Play a life with a crash after each of its writes; return how many these are."""
    logging.disable()
    jobs = crashes.LIVES[name]
    _, writes = crashes.play(jobs)
    return name, writes, [f"{name}: {item}" for item in crashes.play_all(jobs)]


def _crash_all() -> tuple[str, list[str]]:
    """Play all lives; return a table in Markdown, and what was violated."""
    rows, found = ["| Life | Crashes | Violations |", "|---|--:|--:|"], []
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(len(os.sched_getaffinity(0)), mp_context=context) as pool:
        for name, writes, violations in pool.map(_crash, crashes.LIVES):
            rows.append(f"| {name} | {writes} | {len(violations)} |")
            found += violations
    return "\n".join(rows), found


def main() -> int:
    """Run the command line; return 1 if an invariant was violated."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--schedules", type=int, default=10_000, help="seeds from 0")
    parser.add_argument("--queued", type=int, default=1000, help="seeds from 0 beside Kueue")
    parser.add_argument("--seed", type=int, help="play this one alone, with the operator's log")
    parser.add_argument("--page", type=Path, help="write the tables into this page")
    options = parser.parse_args()
    if options.seed is None:
        lives, found = _crash_all()
        total, violations = _play_all(play, options.schedules)
        beside_kueue, more = _play_all(play_queued, options.queued)
        found += [*violations, *(f"beside Kueue: {item}" for item in more)]
        parts = {TABLES: total.tables(NAMES), LIVES: lives, QUEUES: beside_kueue.sentence()}
    else:
        logging.basicConfig(level=logging.INFO)
        total, found = play([options.seed])
        parts = {TABLES: total.tables(NAMES)}
    print(*parts.values(), sep="\n\n")
    if options.page is not None:
        text = options.page.read_text()
        for place, part in parts.items():
            found_at = place.search(text)
            assert found_at is not None, place.pattern
            text = f"{text[: found_at.start()]}\n{part}\n\n{text[found_at.end() :]}"
        options.page.write_text(text)
    for violation in found:
        print(violation, file=sys.stderr)
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
