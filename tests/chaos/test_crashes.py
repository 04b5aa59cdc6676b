"""The operator dies after every single write of three jobs; `make chaos` plays more of them."""

import pytest

from chaos import crashes

PARTS = 4


@pytest.mark.costly
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("name", crashes.SHORT)
def test_a_crash_after_any_write_violates_no_invariant(name: str, part: int) -> None:
    assert crashes.play_all(crashes.SHORT[name], part, PARTS) == []


def test_the_operator_dies_once() -> None:
    jobs = crashes.SHORT["own program"]
    _, writes = crashes.play(jobs)
    killed = [
        crashes.play(jobs, last)[0].counts.injections["operator killed after a write"]
        for last in (1, writes // 2, writes + 1000)
    ]
    assert killed == [1, 1, 0]
