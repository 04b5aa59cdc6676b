"""The table that `imagenetctl scale` writes is the one that `imagenet-plot --scaling` reads."""

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from imagenet_operator.scaling import table
from imagenet_operator.scaling.points import Point, Size
from imagenet_operator.scaling.table import Measured, rows
from imagenet_workloads.commands.plot import build_parser
from imagenet_workloads.telemetry import plot

POINTS = st.builds(
    Point,
    st.sampled_from(["single", "parameterServer:dist_async", "horovod:TensorFlow"]),
    st.builds(Size, st.integers(1, 100)),
    st.just({}),
)
MEASURED = st.builds(
    Measured,
    POINTS,
    st.integers(0, 10_000),
    st.floats(1, 1e6),
    st.none() | st.floats(0, 1),
)


@given(st.lists(MEASURED, min_size=1, unique_by=lambda item: str(item.point)))
def test_every_point_is_read_back(measured: list[Measured]) -> None:
    found = rows(measured)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        path.write_text(table.as_csv(found))
        read = plot.read_points(path)
    expected: dict[str, list[plot.SweepPoint]] = {}
    for row in found:
        line = table.record(row)
        point = plot.SweepPoint(line["workers"], line["images_per_second"], line["speedup"])
        expected.setdefault(line["strategy"], []).append(point)
    assert read == expected


def test_the_columns_are_there() -> None:
    assert set(plot.COLUMNS) <= set(table.COLUMNS)


def test_the_program_takes_what_the_command_gives() -> None:
    parsed = build_parser().parse_args(["--scaling", "a.csv", "--output", "a.png"])
    assert (parsed.scaling, parsed.output) == (Path("a.csv"), Path("a.png"))
