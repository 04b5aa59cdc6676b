"""Schedules with an elastic job, whose nodes go and come: every invariant holds, and it ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from chaos import faults, schedule
from chaos.counts import Counts
from chaos.faults import Fault
from chaos.invariants import Violated
from chaos.jobs import ELASTIC
from imagenet_operator.reconcile.policies import elastic
from imagenet_spec.resource import elastic_workers

SCHEDULES = 40
AT_ONCE = 20
Patch = pytest.MonkeyPatch


def play(seed: int) -> tuple[Counts, list[Violated]]:
    plan = schedule.draw(seed, faults.ELASTIC, strategy=ELASTIC)
    outcome = schedule.run(plan)
    return outcome.counts, outcome.violations


@pytest.mark.costly
@pytest.mark.parametrize("begin", range(0, SCHEDULES, AT_ONCE))
def test_no_invariant_is_violated(begin: int) -> None:
    total = Counts()
    for seed in range(begin, begin + AT_ONCE):
        counts, violations = play(seed)
        assert violations == [], f"seed {seed}"
        total.add(counts)
    assert total.injections["node drained"]
    assert total.checks["elastic"]
    assert total.growths, "no job has grown, so these schedules prove nothing"


def grows_whenever_there_is_room(patch: Patch) -> None:
    patch.setattr(elastic, "within_an_hour", lambda changes, now: ())


def forgets_the_least_number(patch: Patch) -> None:
    patch.setattr(elastic_workers, "worker_counts", lambda training: (1, 2, 3, 4))


@pytest.mark.costly
@pytest.mark.parametrize(
    ("bug", "kinds"),
    [
        (grows_whenever_there_is_room, (faults.drain,)),
        (forgets_the_least_number, (faults.drain, faults.lose_node)),
    ],
)
def test_a_bug_is_found(
    bug: Callable[[Patch], None], kinds: Sequence[Fault], monkeypatch: Patch
) -> None:
    bug(monkeypatch)
    found: set[str] = set()
    for seed in range(SCHEDULES):
        outcome = schedule.run(schedule.draw(seed, kinds, [1], [True], ELASTIC))
        found |= {item.invariant for item in outcome.violations}
        if "elastic" in found:
            return
    raise AssertionError(f"only {found or 'nothing'} is violated")
