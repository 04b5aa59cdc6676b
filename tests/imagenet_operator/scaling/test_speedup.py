"""Speedup and efficiency."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagenet_operator.scaling.table import Measured, Row, rows

SPEEDS = st.floats(1e-3, 1e9)
MEASURED = st.builds(
    Measured,
    strategy=st.sampled_from("abc"),
    workers=st.integers(1, 10_000),
    seconds=st.floats(0, 1e6),
    images_per_second=st.none() | SPEEDS,
    top1=st.none() | st.floats(0, 1),
)


def point(workers: int, speed: float | None, strategy: str = "horovod") -> Measured:
    return Measured(strategy, workers, 60, speed)


def speedups(*measured: Measured) -> list[tuple[int, float | None, float | None]]:
    return [(row.measured.workers, row.speedup, row.efficiency) for row in rows(measured)]


@pytest.mark.parametrize(
    ("measured", "expected"),
    [
        ([], []),
        ([point(1, 100)], [(1, 1, 1)]),
        ([point(4, 200), point(1, 100), point(2, 180)], [(1, 1, 1), (2, 1.8, 0.9), (4, 2, 0.5)]),
        # Without one worker, the fewest count as what they should be.
        ([point(2, 200), point(4, 300)], [(2, 2, 1), (4, 3, 0.75)]),
        # Faster than ideal is not capped.
        ([point(1, 100), point(2, 300)], [(1, 1, 1), (2, 3, 1.5)]),
        ([point(1, 100), point(2, None)], [(1, 1, 1), (2, None, None)]),
        # Nothing to compare with.
        ([point(1, None), point(2, 100)], [(1, None, None), (2, None, None)]),
    ],
)
def test_each_is_compared_with_the_fewest_workers(
    measured: list[Measured], expected: list[tuple[int, float | None, float | None]]
) -> None:
    assert speedups(*measured) == expected


@pytest.mark.parametrize(
    ("planned", "expected"),
    [
        (1, [(2, None, None), (4, None, None)]),
        (2, [(2, 2, 1), (4, 3, 0.75)]),
    ],
)
def test_a_point_is_the_measure_only_if_none_with_fewer_workers_was_to_be(
    planned: int, expected: list[tuple[int, float | None, float | None]]
) -> None:
    found = rows([point(2, 200), point(4, 300), point(2, 90, "single")], {"horovod": planned})

    assert [(row.measured.workers, row.speedup, row.efficiency) for row in found[:2]] == expected
    assert found[2].speedup == 2, "another strategy is its own measure"


def test_each_strategy_is_its_own_measure() -> None:
    found = rows([point(2, 100, "b"), point(2, 90, "a"), point(1, 50, "b"), point(1, 60, "a")])
    assert [(row.measured.strategy, row.measured.workers, row.speedup) for row in found] == [
        ("b", 1, 1),
        ("b", 2, 2),
        ("a", 1, 1),
        ("a", 2, 1.5),
    ]


@given(st.lists(MEASURED, unique_by=lambda item: (item.strategy, item.workers)))
def test_no_point_is_lost_and_none_is_better_than_its_speed(measured: list[Measured]) -> None:
    found = rows(measured)
    assert sorted(map(id, measured)) == sorted(id(row.measured) for row in found)
    for row in found:
        assert (row.speedup is None) == (row.efficiency is None)
        if row.efficiency is not None and row.speedup is not None:
            assert row.efficiency * row.measured.workers == pytest.approx(row.speedup)
    firsts: dict[str, Row] = {}
    for row in found:
        firsts.setdefault(row.measured.strategy, row)
    for row in firsts.values():
        assert row.efficiency in (None, pytest.approx(1))


@given(SPEEDS, st.integers(1, 100), st.integers(1, 100))
def test_a_speed_in_proportion_is_ideal(speed: float, few: int, many: int) -> None:
    for row in rows([point(few, speed * few, "a"), point(few + many, speed * (few + many), "a")]):
        assert row.speedup == pytest.approx(row.measured.workers)


def test_each_network_has_a_baseline_of_its_own() -> None:
    found = rows(
        [
            Measured("horovod", number, 60, speed * number, network=network)
            for network, speed in (("alexnet", 100), ("vgg", 10))
            for number in (1, 2)
        ]
    )
    assert [row.speedup for row in found] == [1, 2, 1, 2]
