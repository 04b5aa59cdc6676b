"""1,000 schedules of random faults; `make chaos` plays more, and docs/reliability.md has them."""

import pytest

from chaos.run import play

SCHEDULES = 1000
AT_ONCE = 20


@pytest.mark.costly
@pytest.mark.parametrize("begin", range(0, SCHEDULES, AT_ONCE))
def test_no_invariant_is_violated(begin: int) -> None:
    _, violations = play(range(begin, begin + AT_ONCE))

    assert violations == [], "again: PYTHONPATH=tests python -m chaos.run --seed SEED"


def test_a_seed_plays_the_same_schedule_again() -> None:
    assert play([7]) == play([7])
