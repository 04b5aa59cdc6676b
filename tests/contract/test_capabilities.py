"""What the resource refuses for a framework is what its programs would refuse."""

import dataclasses
from typing import get_args

import pytest

from imagenet_operator.api import capabilities
from imagenet_operator.api.fields import Precision
from imagenet_operator.api.frameworks import DEFAULT_FRAMEWORK, FRAMEWORKS
from imagenet_operator.api.options import OPERATOR_OPTIONS
from imagenet_operator.api.training import Reader
from imagenet_operator.clusters.local import preflight
from imagenet_workloads.commands.train import parse
from imagenet_workloads.data import reader
from imagenet_workloads.errors import InputError
from imagenet_workloads.frameworks import FRAMEWORKS as WORKLOADS
from imagenet_workloads.train import bfloat16
from imagenet_workloads.train.options import Options, groups
from imagenet_workloads.train.options.description import refuse_lacking

OTHERS = [name for name in FRAMEWORKS if name != DEFAULT_FRAMEWORK]
"""The frameworks that lack some options of MXNet's programs."""
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


def options(framework: str, *further: str) -> Options:
    strategies = FRAMEWORKS[framework].strategies
    strategy = next(iter(strategies.values())).options
    return parse(["--framework", framework, *strategy, *REQUIRED, *further])


@pytest.mark.parametrize("framework", OTHERS)
def test_the_augmentations_are_the_same_on_both_sides(framework: str) -> None:
    lacked = WORKLOADS[framework].lacks["augmentation"]
    assert set(FRAMEWORKS[framework].lacks_augmentations) == set(lacked)


def test_the_precisions_are_the_same_on_both_sides() -> None:
    assert get_args(Precision) == groups.PRECISIONS


@pytest.mark.parametrize("precision", groups.PRECISIONS)
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_program_has_the_precisions_that_the_rules_pass(framework: str, precision: str) -> None:
    lacking = WORKLOADS[framework].lacking(options(framework, "--dtype", precision))
    assert bool(lacking) == (precision in FRAMEWORKS[framework].lacks_precisions)


def test_what_only_image_record_iter_has_is_the_same_on_both_sides() -> None:
    assert set(capabilities.ONLY_IMAGE_RECORD_ITER) == set(reader.ONLY_IMAGE_RECORD_ITER)
    assert get_args(Reader) == groups.READERS
    assert set(capabilities.ONLY_ORDERED) == set(reader.ONLY_ORDERED)


@pytest.mark.parametrize("framework", OTHERS)
def test_the_other_options_are_refused_by_one_rule_or_another(framework: str) -> None:
    fields = {path.rpartition(".")[2] for path in FRAMEWORKS[framework].lacks_fields}
    assert fields <= {name for names in WORKLOADS[framework].lacks.values() for name in names}
    others = {
        f"--{name.replace('_', '-')}"
        for group, names in WORKLOADS[framework].lacks.items()
        if group != "augmentation"
        for name in names
    }
    assert others == {f"--{name}" for name in FRAMEWORKS[framework].lacks_options} | (
        others & OPERATOR_OPTIONS.keys()
    )


@pytest.mark.parametrize("framework", OTHERS)
def test_the_program_lacks_nothing_that_no_rule_refuses(framework: str) -> None:
    given = options(framework, "--random-mirror", "1", "--pca-noise", "0.1", "--optimizer", "nag")
    assert WORKLOADS[framework].lacking(given) == []


def refused(framework: str) -> list[list[str]]:
    """Options that the rules for a framework refuse."""
    lacks = FRAMEWORKS[framework]
    return [
        *(["--" + name.replace("_", "-"), "2"] for name in lacks.lacks_augmentations),
        ["--gc-type", "2bit"],
        ["--reader", "ImageRecordIter"],
        ["--monitor", "1"],
        *(["--optimizer", name, "--warmup-strategy", "lars"] for name in lacks.lacks_optimizers),
    ]


@pytest.mark.parametrize(
    ("framework", "given"),
    [(framework, given) for framework in OTHERS for given in refused(framework)],
    ids=str,
)
def test_the_program_refuses_what_the_rules_refuse(framework: str, given: list[str]) -> None:
    with pytest.raises(InputError, match=r"only .* ha(s|ve) that"):
        refuse_lacking(options(framework, *given), WORKLOADS)


@pytest.mark.parametrize("framework", OTHERS)
def test_every_group_that_is_named_is_one(framework: str) -> None:
    known = {field.name for field in dataclasses.fields(Options)}
    assert WORKLOADS[framework].lacks.keys() <= known


def test_the_instructions_of_bfloat16_are_the_same_on_both_sides() -> None:
    assert preflight.BFLOAT16_FLAGS == bfloat16.CPU_FLAGS
