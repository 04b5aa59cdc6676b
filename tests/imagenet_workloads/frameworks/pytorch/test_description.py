"""PyTorch's strategies, and what it lacks, without PyTorch."""

import ast
from pathlib import Path

import pytest

from imagenet_workloads.commands.train import parse
from imagenet_workloads.errors import InputError
from imagenet_workloads.frameworks import FRAMEWORKS
from imagenet_workloads.frameworks.pytorch import networks
from imagenet_workloads.frameworks.pytorch.description import DESCRIPTION
from imagenet_workloads.train.description import refuse_lacking
from imagenet_workloads.train.networks import NetworkRequest

PYTORCH = ["--framework", "PyTorch"]


def test_without_an_option_one_process_trains() -> None:
    assert DESCRIPTION.strategy_of(parse(PYTORCH)) == "single"


def test_the_strategy_of_another_framework_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse([*PYTORCH, "--distribution-strategy", "horovod"])
    assert "PyTorch has no horovod; write one of single" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [["--max-random-h", "36"], ["--monitor", "5"], ["--gc-type", "2bit"]]
)
def test_what_only_mxnet_has_is_named(arguments: list[str]) -> None:
    with pytest.raises(InputError, match=f"{arguments[0]}: only MXNet has that"):
        refuse_lacking(parse([*PYTORCH, *arguments]), FRAMEWORKS)


def test_every_family_has_its_builder() -> None:
    source = Path(networks.__file__).with_name("families.py").read_text()
    defined = set()
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef):
            defined.add(node.name)
        elif isinstance(node, ast.Assign):
            defined |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    assert {family.builder for family in networks.FAMILIES.values()} <= defined


def test_a_network_that_it_lacks_is_told_without_pytorch() -> None:
    with pytest.raises(InputError, match=r"did you mean mobilenet-v2.*PyTorch has: alexnet"):
        networks.build(NetworkRequest("mobilenet", None, 10, (3, 224, 224)))
