"""How many damaged images are too many."""

import json
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare import limits
from imagenet_workloads.prepare.shards import SkippedImage


@pytest.mark.parametrize(
    ("fraction", "images", "allowed"),
    [
        (0.001, 1_281_167, 1281), (0.001, 999, 0), (0.001, 1000, 1), (0.29, 100, 29),
        (0, 10**9, 0), (1, 7, 7), (0.1, 30, 3), (0.07, 100, 7), (0.5, 1, 0),
    ],
)  # fmt: skip
def test_the_share_is_rounded_down(fraction: float, images: int, allowed: int) -> None:
    assert limits.allowed(fraction, images) == allowed


@given(thousandths=st.integers(0, 1000), images=st.integers(0, 10**6))
def test_a_share_in_decimals_is_what_a_person_would_compute(thousandths: int, images: int) -> None:
    exact = Fraction(thousandths, 1000) * images
    assert limits.allowed(thousandths / 1000, images) == exact.numerator // exact.denominator


def test_the_latest_word_counts_and_an_equal_one_writes_nothing(tmp_path: Path) -> None:
    limits.write(tmp_path, 0.001)
    limits.write(tmp_path, 0.5)
    assert limits.read(tmp_path, 100) == 50
    before = (tmp_path / "limits.json").stat()
    limits.write(tmp_path, 0.5)
    after = (tmp_path / "limits.json").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


@pytest.mark.parametrize("value", [-0.1, 1.1, "0.1", None, [0.1]])
def test_a_wrong_limit_is_named(value: object, tmp_path: Path) -> None:
    (tmp_path / "limits.json").write_text(json.dumps({"maxSkippedFraction": value}))
    with pytest.raises(InputError, match=r"limits\.json: maxSkippedFraction must be a number"):
        limits.read(tmp_path, 100)


def test_the_error_names_the_first_images_and_the_ways_out() -> None:
    skipped = [
        SkippedImage(f"a/{number}\udcff.jpg", "a", f"reason {number}") for number in range(12)
    ]
    message = str(limits.too_many(skipped, 100, 3, "the dataset"))
    first = "; ".join(rf"a/{number}\xff.jpg: reason {number}" for number in range(10))
    assert message == (
        f"12 damaged images in the dataset, and 3 of 100 are allowed ({first}; …); mend or remove "
        "them, or raise --max-skipped-fraction (maxSkippedFraction)"
    )
    assert "…" not in str(limits.too_many(skipped[:10], 100, 2, "the dataset"))
