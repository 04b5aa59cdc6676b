"""Options that only MXNet has."""

import dataclasses

import pytest

from imagenet_workloads.errors import InputError
from imagenet_workloads.train.options import Options, parse
from imagenet_workloads.train.tensorflow.supported import MXNET_ONLY, refuse_unsupported


def test_defaults_and_what_both_have_are_taken() -> None:
    refuse_unsupported(parse([]))
    refuse_unsupported(parse(["--use-imagenet-data-augmentation", "1", "--pad-size", "4"]))
    refuse_unsupported(parse(["--preset", "cifar10", "--macrobatch-size", "512"]))


@pytest.mark.parametrize(
    "arguments",
    [
        ["--dtype", "float16"],
        ["--monitor", "5"],
        ["--gc-type", "2bit"],
        ["--max-random-h", "36"],
        ["--min-random-scale", "0.5"],
        ["--data-train-idx", "a.idx"],
        ["--warmup-strategy", "lars", "--optimizer", "lbsgd"],
    ],
)
def test_what_only_mxnet_has_is_named(arguments: list[str]) -> None:
    with pytest.raises(InputError, match=f"{arguments[0]}.*only MXNet has that"):
        refuse_unsupported(parse(arguments))


def test_all_of_them_are_named_at_once() -> None:
    with pytest.raises(InputError, match="--max-random-h, --max-random-shear-ratio: only MXNet"):
        refuse_unsupported(parse(["--max-random-h", "1", "--max-random-shear-ratio", "0.1"]))


def test_every_name_is_an_options() -> None:
    for group, names in MXNET_ONLY.items():
        fields = {field.name for field in dataclasses.fields(getattr(Options(), group))}
        assert set(names) <= fields
