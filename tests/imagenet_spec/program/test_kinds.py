"""The readers of option values: what they take, and how they refuse the rest."""

from argparse import ArgumentTypeError
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagenet_spec.program import kinds


@pytest.mark.parametrize(
    ("type", "text", "value"),
    [
        (kinds.count, "0", 0),
        (kinds.count, "007", 7),
        (kinds.positive, "1", 1),
        (kinds.quality, "100", 100),
        (kinds.edge, "16384", 16384),
        (kinds.fraction, "0", 0.0),
        (kinds.fraction, "1e-3", 0.001),
        (kinds.colour_shape, "3,224,299", (3, 224, 299)),
        (kinds.colour_shape, "3, 8, 9", (3, 8, 9)),
        (kinds.key, "00ff", "00ff"),
    ],
)
def test_takes(type: Callable[[str], Any], text: str, value: object) -> None:
    assert type(text) == value


@pytest.mark.parametrize(
    ("type", "text", "message"),
    [
        (kinds.count, "-1", "'-1' is not a whole number of at least 0"),
        (kinds.count, "1_0", "'1_0' is not a whole number of at least 0"),
        (kinds.count, " 7", "' 7' is not a whole number of at least 0"),
        (kinds.count, "٣", "'٣' is not a whole number of at least 0"),
        (kinds.count, "", "'' is not a whole number of at least 0"),
        (kinds.positive, "0", "must be at least 1, not 0"),
        (kinds.positive, "2.0", "'2.0' is not a whole number of at least 1"),
        (kinds.quality, "101", "must be from 1 to 100, not 101"),
        (kinds.edge, "16385", "must be from 1 to 16384, not 16385"),
        (kinds.fraction, "half", "'half' is not a number"),
        (kinds.fraction, "1.01", "must be from 0 to 1, not 1.01"),
        (kinds.fraction, "nan", "'nan' is not a number"),
        (kinds.fraction, "-0.1", "must be from 0 to 1, not -0.1"),
        (kinds.colour_shape, "1,28,28", "must be 3,HEIGHT,WIDTH as in 3,224,224"),
        (kinds.colour_shape, "3,28", "must be 3,HEIGHT,WIDTH as in 3,224,224"),
        (kinds.colour_shape, "3,0,28", "must be from 1 to 16384, not 0"),
        (kinds.key, "../x", "'../x' is not a key"),
        (kinds.key, "ABC", "'ABC' is not a key"),
        (kinds.key, "", "'' is not a key"),
    ],
)
def test_refuses(type: Callable[[str], Any], text: str, message: str) -> None:
    with pytest.raises(ArgumentTypeError) as caught:
        type(text)
    assert message in str(caught.value)


@given(text=st.text(max_size=12))
def test_a_key_is_always_a_plain_folder_s_name(text: str) -> None:
    try:
        assert kinds.key(text) == text
    except ArgumentTypeError:
        return
    assert text.isalnum()
    assert text == text.lower()
