"""Schedules with jobs in a queue of Kueue: every invariant holds, and they end."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from chaos import faults
from chaos.faults import Fault
from chaos.run import play_queued
from imagenet_operator.reconcile.policies import gang

SCHEDULES = range(20)
WITH_A_TIMEOUT = 8
"""A seed whose gang times out before it is admitted, if that time counts."""


@pytest.mark.costly
@pytest.mark.parametrize("kinds", [faults.SEEN_BESIDE_KUEUE, faults.BESIDE_KUEUE])
@pytest.mark.parametrize("part", [0, 1])
def test_no_invariant_is_violated(part: int, kinds: Sequence[Fault]) -> None:
    counts, violations = play_queued(SCHEDULES[part::2], kinds)

    assert violations == []
    assert counts.injections["evicted by Kueue"]
    assert counts.injections["webhook failed"]


def test_an_attempt_that_is_withdrawn_while_it_is_held_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gang, "is_held_by_another", lambda pods: False)

    _, violations = play_queued([WITH_A_TIMEOUT], ())

    assert any("held: digits: Kueue holds" in item for item in violations)
