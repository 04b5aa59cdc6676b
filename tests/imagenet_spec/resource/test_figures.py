"""The figures: how a status has them, what is rounded and written, the columns of kubectl."""

from __future__ import annotations

import pytest

from imagenet_operator.generate import crd
from imagenet_spec.resource import figures
from imagenet_spec.resource.figures import COUNT, FIGURES, RATE, SHARE, Accuracy, Change, Number
from imagenet_spec.resource.job import root_schema
from imagenet_spec.resource.status import TrainingStatus

TRAINING = TrainingStatus(attempt=3, epoch=2, accuracy=Accuracy(train=0.5))


def test_every_figure_can_be_written_and_read() -> None:
    new = {item.field: 1.0 for item in FIGURES}
    written = figures.with_values(TRAINING, new)
    assert figures.values(written) == new
    read = TrainingStatus.model_validate_json(written.model_dump_json(by_alias=True))
    assert read == written
    assert read.attempt == 3


def test_figures_that_are_not_given_are_removed() -> None:
    found = figures.with_values(TRAINING, {"accuracy.validation": 0.25})
    assert (found.epoch, found.accuracy) == (None, Accuracy(validation=0.25))
    assert figures.with_values(TRAINING, {}) == TrainingStatus(attempt=3)


@pytest.mark.parametrize(
    ("number", "value", "rounded"),
    [
        (COUNT, 3.0, 3),
        (COUNT, -1.0, None),
        (COUNT, 1e300, None),
        (RATE, 200.04321, 200.0),
        (RATE, -0.1, None),
        (RATE, float("inf"), None),
        (SHARE, 0.93333333, 0.9333),
        (SHARE, 1.5, 1.0),
        (SHARE, -0.5, 0.0),
        (SHARE, None, None),
    ],
)
def test_rounding(number: Number, value: float | None, rounded: float | None) -> None:
    found = number.rounded(value)
    assert (found, type(found)) == (rounded, type(rounded))


@pytest.mark.parametrize(
    ("change", "before", "after", "is_made"),
    [
        (figures.NEVER, None, 1.0, False),
        (Change(above=0), 1, 1, False),
        (Change(above=0), 1, 2, True),
        (Change(above=0), None, 0, True),
        (Change(at=0.01), 0.5, 0.505, False),
        (Change(at=0.25), 0.5, 0.25, True),
        (Change(relative=0.5), 10.0, 15.0, False),
        (Change(relative=0.5), 10.0, 16.0, True),
        (Change(relative=0.5), 0.0, 0.0, False),
    ],
)
def test_what_change_is_worth_a_write(
    change: Change, before: float | None, after: float | None, is_made: bool
) -> None:
    assert change.is_made(before, after) is is_made


def test_each_column_is_a_field_of_the_schema() -> None:
    schema = root_schema()
    for column in crd.COLUMNS:
        if column["jsonPath"].startswith(".status.training."):
            node = schema
            for name in column["jsonPath"].strip(".").split("."):
                node = node["properties"][name]
            assert node["type"] == column["type"]
