"""Speedup and efficiency, and the table of them in each of its forms."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagenet_operator.scaling import table
from imagenet_operator.scaling.points import Point, Size
from imagenet_operator.scaling.table import Measured, Row, rows

SPEEDS = st.floats(1e-3, 1e9)


def measured(
    strategy: str,
    workers: int,
    seconds: float,
    images_per_second: float | None = None,
    top1: float | None = None,
    network: str = "",
    model_bytes: int | None = None,
    gpus: int | None = None,
) -> Measured:
    each = None if gpus is None else gpus // workers
    point = Point(strategy, Size(workers, each), {}, network)
    return Measured(point, seconds, images_per_second, top1, model_bytes)


MEASURED = st.builds(
    measured,
    strategy=st.sampled_from("abc"),
    workers=st.integers(1, 10_000),
    seconds=st.floats(0, 1e6),
    images_per_second=st.none() | SPEEDS,
    top1=st.none() | st.floats(0, 1),
)


def point(workers: int, speed: float | None, strategy: str = "horovod") -> Measured:
    return measured(strategy, workers, 60, speed)


def speedups(*measured: Measured) -> list[tuple[int, float | None, float | None]]:
    return [(row.measured.point.workers, row.speedup, row.efficiency) for row in rows(measured)]


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

    assert [
        (row.measured.point.workers, row.speedup, row.efficiency) for row in found[:2]
    ] == expected
    assert found[2].speedup == 2, "another strategy is its own measure"


def test_each_strategy_is_its_own_measure() -> None:
    found = rows([point(2, 100, "b"), point(2, 90, "a"), point(1, 50, "b"), point(1, 60, "a")])
    places = [(row.measured.point, row.speedup) for row in found]
    assert [(point.strategy, point.workers, speedup) for point, speedup in places] == [
        ("b", 1, 1),
        ("b", 2, 2),
        ("a", 1, 1),
        ("a", 2, 1.5),
    ]


@given(st.lists(MEASURED, unique_by=lambda item: (item.point.strategy, item.point.workers)))
def test_no_point_is_lost_and_none_is_better_than_its_speed(measured: list[Measured]) -> None:
    found = rows(measured)
    assert sorted(map(id, measured)) == sorted(id(row.measured) for row in found)
    for row in found:
        assert (row.speedup is None) == (row.efficiency is None)
        if row.efficiency is not None and row.speedup is not None:
            assert row.efficiency * row.measured.point.workers == pytest.approx(row.speedup)
    firsts: dict[str, Row] = {}
    for row in found:
        firsts.setdefault(row.measured.point.strategy, row)
    for row in firsts.values():
        assert row.efficiency in (None, pytest.approx(1))


@given(SPEEDS, st.integers(1, 100), st.integers(1, 100))
def test_a_speed_in_proportion_is_ideal(speed: float, few: int, many: int) -> None:
    for row in rows([point(few, speed * few, "a"), point(few + many, speed * (few + many), "a")]):
        assert row.speedup == pytest.approx(row.measured.point.workers)


def test_each_network_has_a_baseline_of_its_own() -> None:
    found = rows(
        [
            measured("horovod", number, 60, speed * number, network=network)
            for network, speed in (("alexnet", 100), ("vgg", 10))
            for number in (1, 2)
        ]
    )
    assert [row.speedup for row in found] == [1, 2, 1, 2]


ROWS = rows(
    [
        measured("parameterServer", 1, 61, 1234.567, 0.97222),
        measured("parameterServer", 16, 7, 12345.6789),
        measured("single", 1, 60),
    ]
)
NUMBERS = st.none() | st.floats(0, 1e9)
ANY_ROWS = st.lists(
    st.builds(
        Row,
        st.builds(
            measured,
            st.sampled_from(["single", "horovod:TensorFlow", 'a,"b"']),
            st.integers(1, 10_000),
            st.floats(0, 1e6),
            NUMBERS,
            NUMBERS,
        ),
        NUMBERS,
        NUMBERS,
    ),
    max_size=5,
)


def test_text_is_aligned() -> None:
    assert table.as_text(ROWS).splitlines() == [
        "strategy         workers  time, s  images/s  speedup  efficiency   top-1",
        "parameterServer        1       61     1,235     1.00        100%  0.9722",
        "parameterServer       16        7    12,346    10.00         63%       -",
        "single                 1       60         -        -           -       -",
    ]


def test_markdown_is_a_table_with_numbers_on_the_right() -> None:
    assert table.as_markdown(ROWS).splitlines()[:3] == [
        "| strategy | workers | time, s | images/s | speedup | efficiency | top-1 |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
        "| parameterServer | 1 | 61 | 1,235 | 1.00 | 100% | 0.9722 |",
    ]


def test_a_slow_speed_keeps_a_decimal() -> None:
    slow = table.as_markdown(
        rows([measured("single", 1, 60, 9.94), measured("horovod", 1, 60, 10)])
    )
    assert [line.split(" | ")[3] for line in slow.splitlines()[2:]] == ["9.9", "10"]


def test_csv_has_plain_numbers_and_gaps() -> None:
    assert table.as_csv(ROWS).splitlines() == [
        "strategy,workers,seconds,images_per_second,speedup,efficiency,top1",
        "parameterServer,1,61,1234.57,1.0,1.0,0.9722",
        "parameterServer,16,7,12345.68,10.0,0.625,",
        "single,1,60,,,,",
    ]


def test_networks_have_columns_of_their_own() -> None:
    found = rows(
        [
            measured("horovod", 1, 60, 100, 0.5, "alexnet", 244_000_000),
            measured("horovod", 2, 60, 190, 0.5, "alexnet"),
        ]
    )
    assert table.as_text(found).splitlines() == [
        "network  strategy  workers  time, s  images/s  speedup  efficiency   top-1  model, MB",
        "alexnet  horovod         1       60       100     1.00        100%  0.5000      244.0",
        "alexnet  horovod         2       60       190     1.90         95%  0.5000          -",
    ]
    assert table.as_markdown(found).splitlines()[1] == f"| --- | --- |{' ---: |' * 7}"
    assert table.as_csv(found).splitlines()[:2] == [
        f"{','.join(table.COLUMNS)},network,model_mb",
        "horovod,1,60,100,1.0,1.0,0.5,alexnet,244.0",
    ]


def test_gpus_have_a_column_and_count_for_the_efficiency() -> None:
    found = rows([measured("single", 1, 60, 100, gpus=1), measured("single", 1, 60, 390, gpus=4)])
    assert table.as_text(found).splitlines() == [
        "strategy  workers  GPUs  time, s  images/s  speedup  efficiency  top-1",
        "single          1     1       60       100     1.00        100%      -",
        "single          1     4       60       390     3.90         98%      -",
    ]
    assert table.as_csv(found).splitlines()[2] == "single,1,60,390,3.9,0.975,,4"


def test_cpus_in_place_of_gpus_are_labelled() -> None:
    found = rows([measured("single", 1, 60, 100, gpus=0)])
    assert table.as_text(found).splitlines()[-1] == table.STAND_IN
    assert table.as_markdown(found).splitlines()[-1] == table.STAND_IN
    assert table.as_csv(found).splitlines()[1:] == ["single,1,60,100,1.0,1.0,,0"]


@given(ANY_ROWS)
def test_csv_reads_back_as_the_records(found: list[Row]) -> None:
    read = csv.DictReader(io.StringIO(table.as_csv(found)))
    assert tuple(read.fieldnames or ()) == table.COLUMNS
    expected = [
        {name: "" if value is None else str(value) for name, value in table.record(row).items()}
        for row in found
    ]
    assert list(read) == expected


@given(ANY_ROWS)
def test_every_line_has_every_column(found: list[Row]) -> None:
    assert len({len(line) for line in table.as_text(found).splitlines()}) == 1
    assert len(table.as_markdown(found).splitlines()) == len(found) + 2
