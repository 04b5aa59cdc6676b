"""What the resource refuses for a framework is what its programs would refuse."""

import pytest

from imagenet_spec.frameworks import DEFAULT_FRAMEWORK, FRAMEWORKS
from imagenet_spec.program import train as groups
from imagenet_spec.program.option import written
from imagenet_spec.program.train import OPTIONS, Options
from imagenet_workloads.commands.train import parse
from imagenet_workloads.errors import InputError
from imagenet_workloads.frameworks import FRAMEWORKS as WORKLOADS
from imagenet_workloads.train.description import refuse_lacking

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
    return parse(["--framework", framework, *written(OPTIONS, strategy), *REQUIRED, *further])


@pytest.mark.parametrize("precision", groups.PRECISIONS)
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_program_has_the_precisions_that_the_rules_pass(framework: str, precision: str) -> None:
    lacking = WORKLOADS[framework].lacking(options(framework, "--dtype", precision))
    assert bool(lacking) == (precision in FRAMEWORKS[framework].lacks_precisions)


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
