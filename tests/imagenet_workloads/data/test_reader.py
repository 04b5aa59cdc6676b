"""The reader that a command line chooses."""

import pytest

from imagenet_workloads.data.reader import contradiction, is_ordered
from imagenet_workloads.train.command_line import parse
from support.sentences import assert_says

ROTATED = ["--max-random-rotate-angle", "10", "--max-random-h", "36"]


@pytest.mark.parametrize(
    ("arguments", "ordered"),
    [
        ([], True),
        (["--use-imagenet-data-augmentation", "1", "--random-mirror", "1"], True),
        (["--preset", "cifar10", "--min-random-scale", "0.5"], True),
        (ROTATED, False),
        (["--max-random-shear-ratio", "0.1"], False),
        (["--reader", "ImageRecordIter"], False),
        (["--reader", "Ordered"], True),
    ],
)
def test_it_is_ordered_unless_an_augmentation_is_missing(
    arguments: list[str], ordered: bool
) -> None:
    options = parse(arguments, {})
    assert is_ordered(options) is ordered
    assert contradiction(options) is None


def test_an_ordered_reader_has_no_rotation() -> None:
    found = contradiction(parse([*ROTATED, "--reader", "Ordered"], {}))
    lacking = "--max-random-h, --max-random-rotate-angle"
    assert_says(found or "", "--reader", "Ordered", lacking, "--reader ImageRecordIter")
