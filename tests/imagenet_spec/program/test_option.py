"""What is written of options is what their parser reads."""

from argparse import ArgumentParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagenet_spec.program import kinds
from imagenet_spec.program.option import Option, add_group, written
from imagenet_spec.program.train import GROUPS, OPTIONS, PresetOptions

TEXTS = {
    kinds.amount: st.floats(0, 1e6).map(str),
    kinds.amount_above_zero: st.floats(1e-6, 1e6).map(str),
    kinds.colour: st.just("1,-2.5,3"),
    kinds.colour_scale: st.just("1,2.5,3"),
    kinds.count: st.integers(0, 10**9).map(str),
    kinds.decay: st.sampled_from(("10,20", "pow2")),
    kinds.devices: st.sampled_from(("", "0", "0,1,2")),
    kinds.image_shape: st.just("1,28,28"),
    kinds.image_sizes: st.sampled_from(("", "0:128,6:160")),
    kinds.losses: st.sampled_from(("", "ce", "ce,nll_loss")),
    kinds.path: st.sampled_from(("weights", "/data/a b", "-x")),
    kinds.positive: st.integers(1, 10**9).map(str),
    kinds.switch: st.sampled_from("01"),
    kinds.text: st.sampled_from(("a b", "-x", "--y=1")),
    str: st.sampled_from(("", "mine", "-x")),
}


def parser() -> ArgumentParser:
    found = ArgumentParser(allow_abbrev=False, exit_on_error=False)
    for title, group in {"presets": PresetOptions, **GROUPS}.items():
        add_group(found, title, group, {})
    return found


def values(item: Option) -> st.SearchStrategy[Any]:
    if item.choices:
        return st.sampled_from(list(item.choices))
    # No text and an empty one are written alike.
    return TEXTS[item.read].map(item.read).filter(lambda value: value != "" or item.default == "")


@given(st.fixed_dictionaries({}, optional={item.name: values(item) for item in OPTIONS}))
def test_what_is_written_is_read(given: dict[str, Any]) -> None:
    read = vars(parser().parse_args(list(written(OPTIONS, given))))
    assert read == {item.name: given.get(item.name, item.default) for item in OPTIONS}


def test_what_is_at_its_default_is_left_out() -> None:
    assert list(written(OPTIONS, {item.name: item.default for item in OPTIONS})) == []


@pytest.mark.parametrize(
    ("given", "arguments"),
    [
        ({"lr": 0.25, "compile": False}, ["--compile", "0", "--lr", "0.25"]),
        ({"lr_step_epochs": (), "gpus": (0, 1)}, ["--lr-step-epochs", "", "--gpus", "0,1"]),
        ({"dataset_query_key": "-key"}, ["--dataset-query-key=-key"]),
        ({"ema_decay": None}, []),
    ],
)
def test_arguments(given: dict[str, Any], arguments: list[str]) -> None:
    assert list(written(OPTIONS, given)) == arguments
