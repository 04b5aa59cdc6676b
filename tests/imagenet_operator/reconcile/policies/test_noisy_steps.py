"""100 recordings of a busy machine: no straggler, unless one worker takes twice as long.

benchmarks/noisy_steps.py made the recordings, and says how. Each is played twice in a row, so that
the slowest trainings have enough windows too.
"""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from imagenet_operator.reconcile.policies import stragglers
from imagenet_operator.reconcile.scrape import BeforeExchange
from imagenet_operator.reconcile.windows import compared
from imagenet_spec.resource.status import TrainingStatus
from support.attempt_members import NOW

RUNS = [
    json.loads(line)
    for line in Path(__file__).with_name("noisy_steps.jsonl").read_text().splitlines()
]
EVERY_RUN = pytest.mark.parametrize("run", RUNS, ids=lambda run: f"{run['seed']}-{run['part']}")


def named(run: dict[str, Any], slow: int | None = None, times: float = 2.0) -> set[str]:
    """Return the workers that are named at any time of a run.

    Args:
        run: The recording.
        slow: A worker that takes longer than recorded.
        times: How much longer.
    """
    workers = [f"worker-{index}" for index in range(run["workers"])]
    totals = dict.fromkeys(workers, BeforeExchange(0.0, 0.0))
    now, comparison = NOW, compared(None, of_pods(totals), NOW)
    status = TrainingStatus()
    found: set[str] = set()
    for seconds, *added in 2 * run["samples"]:
        now += timedelta(seconds=seconds)
        for index, (worker, (milliseconds, exchanges)) in enumerate(
            zip(workers, added, strict=True)
        ):
            more = milliseconds / 1000 * (times if index == slow else 1.0)
            total = totals[worker]
            totals[worker] = BeforeExchange(total.seconds + more, total.exchanges + exchanges)
        comparison = compared(comparison, of_pods(totals), now)
        assert comparison is not None
        if comparison.factors:
            latest = stragglers.slowest(status, comparison)
            status = status.model_copy(update={"stragglers": latest})
            found |= {item.name for item in latest}
    assert comparison is not None
    assert comparison.factors
    return found


def of_pods(totals: dict[str, BeforeExchange]) -> dict[str, dict[str, BeforeExchange]]:
    return {worker: {"": total} for worker, total in totals.items()}


def test_there_are_100_recordings() -> None:
    assert len({(run["seed"], run["part"]) for run in RUNS}) == len(RUNS) == 100


@EVERY_RUN
def test_noise_names_no_one(run: dict[str, Any]) -> None:
    assert named(run) == set()


@EVERY_RUN
def test_a_worker_that_takes_twice_as_long_is_named_and_no_other(run: dict[str, Any]) -> None:
    for slow in range(run["workers"]):
        assert named(run, slow) == {f"worker-{slow}"}
