"""The key: another one for whatever changes a byte, the same one for what does not."""

import dataclasses
from itertools import combinations
from typing import Any

import pytest

from imagenet_workloads.dataset import FORMATS, WriterVersion
from imagenet_workloads.fields import Fields
from imagenet_workloads.prepare.dataset_key import DatasetOptions, make_key

OPTIONS = DatasetOptions(shards=8, resize=256)
WRITER = WriterVersion("2", "planes")
# For each option, values that give other bytes.
OTHERS: dict[str, list[Any]] = {
    "shards": [1, 9],
    "format": ["TFRecord"],
    "resize": [None, 255],
    "quality": [89],
    "min_images_per_class": [0, 500],
    "seed": [1, 2**40],
    "validation_per_class": [1, 50],
}


def make(options: DatasetOptions = OPTIONS, writer: WriterVersion = WRITER) -> str:
    return make_key(writer, options, "source", None)


def test_every_option_is_in_the_table() -> None:
    assert set(OTHERS) == {field.name for field in dataclasses.fields(DatasetOptions)}
    assert {OPTIONS.format, *OTHERS["format"]} == set(FORMATS)


def test_no_two_inputs_share_a_key() -> None:
    changed = [
        dataclasses.replace(OPTIONS, **{name: value})
        for name, values in OTHERS.items()
        for value in values
    ]
    keys = [make(options) for options in (OPTIONS, *changed)]
    keys += [make(writer=WriterVersion("2", "opencv")), make(writer=WriterVersion("3", "planes"))]
    keys += [make_key(WRITER, OPTIONS, "other", None)]
    keys += [make_key(WRITER, OPTIONS, "source", pair) for pair in (("a", "b"), ("b", "a"))]
    assert all(one != other for one, other in combinations(keys, 2))


def test_only_words_that_are_given_change_the_key() -> None:
    # The key of a dataset that was sealed before there were words.
    before = "fca266559bb34763888653bbcdc9cf44"
    assert make() == make_key(WRITER, OPTIONS, "source", None, {}) == before
    words = [{"n01": "tench"}, {"n01": "bench"}, {"n02": "tench"}]
    keys = [make_key(WRITER, OPTIONS, "source", None, one) for one in words]
    assert len({before, *keys}) == 4


def test_a_key_can_name_a_folder_and_is_made_again() -> None:
    assert make() == make(DatasetOptions(shards=8, resize=256))
    assert len(make()) == 32
    assert set(make()) <= set("0123456789abcdef")


@pytest.mark.parametrize("name", OTHERS)
def test_options_survive_the_round_trip(name: str) -> None:
    for value in OTHERS[name]:
        options = dataclasses.replace(OPTIONS, **{name: value})
        assert DatasetOptions.from_fields(Fields(options.to_document(), "options")) == options
