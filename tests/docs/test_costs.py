"""docs/costs.md computes with the figures that docs/benchmarks.md has."""

import re

import pytest

from support.pod_subset import REPOSITORY

DOCS = REPOSITORY / "docs"
PAGE = (DOCS / "costs.md").read_text()
BENCHMARKS = (DOCS / "benchmarks.md").read_text()
IMAGES, VALIDATION_IMAGES, EPOCHS = 1_281_167, 50_000, 90
ROWS = re.findall(r"^\| H\d00, .* \| (.*) \| (.*) \|$", PAGE, re.MULTILINE)


@pytest.mark.parametrize(("speeds", "hours"), ROWS)
def test_gpu_hours_are_those_of_the_measured_speed(speeds: str, hours: str) -> None:
    measured = speeds.split(" to ")
    computed = [IMAGES * EPOCHS / float(speed.replace(",", "")) / 3600 for speed in measured]
    assert " to ".join(f"{value:.1f}" for value in sorted(computed)) == hours
    assert all(re.search(rf"\b{speed}\b", BENCHMARKS) for speed in measured)


def test_each_gpu_has_a_row() -> None:
    assert len(ROWS) == 3


def test_packing_has_the_core_hours_of_its_benchmark() -> None:
    row = re.search(
        r"^\| \[pack\].*, 480, `planes` \| images/s \| (\d+) ", BENCHMARKS, re.MULTILINE
    )
    assert row is not None
    hours = 2 * (IMAGES + VALIDATION_IMAGES) / int(row[1]) / 3600
    assert f"writes {row[1]} images/s on 2 cores" in PAGE
    assert f"take {hours:.1f} core-hours" in PAGE
