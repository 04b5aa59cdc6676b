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
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from chaos import crashes, schedule
from chaos.counts import Counts
from chaos.invariants import NAMES

TABLES = re.compile("(?<=<!-- make chaos -->\n).*(?=<!-- end -->)", re.DOTALL)
"""Where the page has the tables."""

LIVES = re.compile("(?<=<!-- make chaos: crashes -->\n).*(?=<!-- end of crashes -->)", re.DOTALL)
"""Where it has the table of crashes after every write."""

_AT_ONCE = 20


def play(seeds: Sequence[int]) -> tuple[Counts, list[str]]:
    """Play the schedules of some seeds; return what they did, and each violation with its seed."""
    total, found = Counts(), []
    for seed in seeds:
        try:
            outcome = schedule.run(schedule.draw(seed))
        except Exception as error:
            raise RuntimeError(f"the schedule of seed {seed} broke: {error!r}") from error
        total.add(outcome.counts)
        found += [f"seed {seed}: {item}" for item in outcome.violations]
    return total, found


def _quietly(seeds: Sequence[int]) -> tuple[Counts, list[str]]:
    logging.disable()
    return play(seeds)


def _play_all(number: int) -> tuple[Counts, list[str]]:
    total, found = Counts(), []
    parts = [range(begin, min(begin + _AT_ONCE, number)) for begin in range(0, number, _AT_ONCE)]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(len(os.sched_getaffinity(0)), mp_context=context) as pool:
        for done in as_completed([pool.submit(_quietly, part) for part in parts]):
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
    parser.add_argument("--seed", type=int, help="play this one alone, with the operator's log")
    parser.add_argument("--page", type=Path, help="write the tables into this page")
    options = parser.parse_args()
    lives = ""
    if options.seed is None:
        lives, found = _crash_all()
        total, violations = _play_all(options.schedules)
        found += violations
    else:
        logging.basicConfig(level=logging.INFO)
        total, found = play([options.seed])
    tables = total.tables(NAMES)
    print(tables, lives, sep="\n\n")
    if options.page is not None:
        text = TABLES.sub(lambda _: f"\n{tables}\n\n", options.page.read_text())
        options.page.write_text(LIVES.sub(lambda _: f"\n{lives}\n\n", text))
    for violation in found:
        print(violation, file=sys.stderr)
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
