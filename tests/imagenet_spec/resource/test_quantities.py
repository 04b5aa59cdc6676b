"""Quantities as apimachinery reads them."""

from __future__ import annotations

import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagenet_spec.resource.quantities import POSITIVE_BYTES, parse

READ = {
    "0": 0,
    "1": 1,
    "+1": 1,
    "-1.5": Fraction(-3, 2),
    ".5": Fraction(1, 2),
    "5.": 5,
    "500m": Fraction(1, 2),
    "1n": Fraction(1, 10**9),
    "1u": Fraction(1, 10**6),
    "2k": 2000,
    "1.5Ki": 1536,
    "200Gi": 200 * 2**30,
    "1Ei": 2**60,
    "1E": 10**18,
    "1e3": 1000,
    "1E3": 1000,
    "12e-1": Fraction(6, 5),
    8: 8,
    0.5: Fraction(1, 2),
}
REFUSED = ["", "Gi", "1 Gi", "1GB", "1gi", "1K", "1e", "1e+", "--1", "1.2.3", "ten", "1Gi ", True]


@pytest.mark.parametrize(("text", "value"), READ.items())
def test_a_quantity_is_read_exactly(text: str | int | float, value: Fraction) -> None:
    assert parse(text) == value


@pytest.mark.parametrize("text", REFUSED)
def test_anything_else_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="such as 16Gi"):
        parse(text)


@given(st.from_regex(POSITIVE_BYTES, fullmatch=True))
def test_every_size_that_the_schema_takes_is_a_positive_quantity(text: str) -> None:
    assert parse(text.strip()) > 0


@given(st.fractions(min_value=0), st.sampled_from(["", "Ki", "Mi", "Gi", "k", "M", "G"]))
def test_a_larger_number_is_a_larger_quantity(number: Fraction, suffix: str) -> None:
    decimal = f"{float(number):.3f}"
    assert parse(f"1{decimal}{suffix}") > parse(f"{decimal}{suffix}")


@pytest.mark.parametrize("text", ["1Gi", "1.5Ti", "0.5G", "100", "10k"])
def test_the_schema_takes_ordinary_sizes(text: str) -> None:
    assert re.fullmatch(POSITIVE_BYTES, text)
