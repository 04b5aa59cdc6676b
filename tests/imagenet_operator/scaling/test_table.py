"""The table in each of its forms."""

import csv
import io

from hypothesis import given
from hypothesis import strategies as st

from imagenet_operator.scaling import table
from imagenet_operator.scaling.table import Measured, Row, rows

ROWS = rows(
    [
        Measured("parameterServer", 1, 61, 1234.567, 0.97222),
        Measured("parameterServer", 16, 7, 12345.6789),
        Measured("single", 1, 60),
    ]
)
NUMBERS = st.none() | st.floats(0, 1e9)
ANY_ROWS = st.lists(
    st.builds(
        Row,
        st.builds(
            Measured,
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
        rows([Measured("single", 1, 60, 9.94), Measured("horovod", 1, 60, 10)])
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
            Measured("horovod", 1, 60, 100, 0.5, "alexnet", 244_000_000),
            Measured("horovod", 2, 60, 190, 0.5, "alexnet"),
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
    found = rows([Measured("single", 1, 60, 100, gpus=1), Measured("single", 1, 60, 390, gpus=4)])
    assert table.as_text(found).splitlines() == [
        "strategy  workers  GPUs  time, s  images/s  speedup  efficiency  top-1",
        "single          1     1       60       100     1.00        100%      -",
        "single          1     4       60       390     3.90         98%      -",
    ]
    assert table.as_csv(found).splitlines()[2] == "single,1,60,390,3.9,0.975,,4"


def test_cpus_in_place_of_gpus_are_labelled() -> None:
    found = rows([Measured("single", 1, 60, 100, gpus=0)])
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
