"""What the resource refuses for TensorFlow is what its programs would refuse."""

import dataclasses

import pytest

from imagenet_operator.api.capabilities import (
    MXNET_AUGMENTATIONS,
    MXNET_OPTIMIZERS,
    MXNET_OPTIONS,
)
from imagenet_operator.api.options import OPERATOR_OPTIONS
from imagenet_workloads.errors import InputError
from imagenet_workloads.train.options import Options, parse
from imagenet_workloads.train.tensorflow.supported import MXNET_ONLY, refuse_unsupported

TENSORFLOW = ["--framework", "TensorFlow", "--distribution-strategy", "mirrored"]
REQUIRED = [
    "--network",
    "lenet",
    "--image-shape",
    "3,28,28",
    "--dataset",
    "data",
    "--output",
    "out",
]


def options(*further: str) -> Options:
    return parse([*TENSORFLOW, *REQUIRED, *further])


def test_the_augmentations_are_the_same_on_both_sides() -> None:
    assert set(MXNET_AUGMENTATIONS) == set(MXNET_ONLY["augmentation"])


def test_the_other_options_are_refused_by_one_rule_or_another() -> None:
    others = {
        f"--{name.replace('_', '-')}"
        for group, names in MXNET_ONLY.items()
        if group != "augmentation"
        for name in names
    }
    assert others == {f"--{name}" for name in MXNET_OPTIONS} | (others & OPERATOR_OPTIONS.keys())


def test_what_no_rule_refuses_trains() -> None:
    refuse_unsupported(options("--random-mirror", "1", "--pca-noise", "0.1", "--optimizer", "nag"))


@pytest.mark.parametrize(
    "given",
    [
        *(["--" + name.replace("_", "-"), "2"] for name in MXNET_AUGMENTATIONS),
        ["--gc-type", "2bit"],
        ["--monitor", "1"],
        *(["--optimizer", name, "--warmup-strategy", "lars"] for name in MXNET_OPTIMIZERS),
    ],
    ids=lambda given: str(given[0]),
)
def test_the_program_refuses_what_the_rules_refuse(given: list[str]) -> None:
    with pytest.raises(InputError, match="only MXNet has that"):
        refuse_unsupported(options(*given))


def test_every_group_that_is_named_is_one() -> None:
    assert MXNET_ONLY.keys() <= {field.name for field in dataclasses.fields(Options)}
