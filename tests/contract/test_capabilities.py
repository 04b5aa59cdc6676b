"""What the resource refuses for TensorFlow is what its programs would refuse."""

import dataclasses

import pytest

from imagenet_operator.api.frameworks import FRAMEWORKS
from imagenet_operator.api.options import OPERATOR_OPTIONS
from imagenet_workloads.commands.train import parse
from imagenet_workloads.errors import InputError
from imagenet_workloads.frameworks import FRAMEWORKS as WORKLOADS
from imagenet_workloads.train.options import Options
from imagenet_workloads.train.options.description import refuse_lacking

LACKS = FRAMEWORKS["TensorFlow"]
LACKED = WORKLOADS["TensorFlow"].lacks
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
    assert set(LACKS.lacks_augmentations) == set(LACKED["augmentation"])


def test_the_other_options_are_refused_by_one_rule_or_another() -> None:
    others = {
        f"--{name.replace('_', '-')}"
        for group, names in LACKED.items()
        if group != "augmentation"
        for name in names
    }
    assert others == {f"--{name}" for name in LACKS.lacks_options} | (
        others & OPERATOR_OPTIONS.keys()
    )


def test_the_program_lacks_nothing_that_no_rule_refuses() -> None:
    given = options("--random-mirror", "1", "--pca-noise", "0.1", "--optimizer", "nag")
    assert WORKLOADS["TensorFlow"].lacking(given) == []


@pytest.mark.parametrize(
    "given",
    [
        *(["--" + name.replace("_", "-"), "2"] for name in LACKS.lacks_augmentations),
        ["--gc-type", "2bit"],
        ["--monitor", "1"],
        *(["--optimizer", name, "--warmup-strategy", "lars"] for name in LACKS.lacks_optimizers),
    ],
    ids=lambda given: str(given[0]),
)
def test_the_program_refuses_what_the_rules_refuse(given: list[str]) -> None:
    with pytest.raises(InputError, match="only MXNet has that"):
        refuse_lacking(options(*given), WORKLOADS)


def test_every_group_that_is_named_is_one() -> None:
    assert LACKED.keys() <= {field.name for field in dataclasses.fields(Options)}
