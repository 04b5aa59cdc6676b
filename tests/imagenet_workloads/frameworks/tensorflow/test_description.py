"""Options that only MXNet has."""

import pytest

from imagenet_spec.program.train import Options
from imagenet_workloads.commands.train import parse
from imagenet_workloads.errors import InputError
from imagenet_workloads.frameworks import FRAMEWORKS
from imagenet_workloads.train.description import refuse_lacking
from support.sentences import says


def of_tensorflow(arguments: list[str]) -> Options:
    return parse(["--framework", "TensorFlow", *arguments])


def refuse(options: Options) -> None:
    refuse_lacking(options, FRAMEWORKS)


def test_defaults_and_what_both_have_are_taken() -> None:
    refuse(of_tensorflow([]))
    refuse(of_tensorflow(["--use-imagenet-data-augmentation", "1", "--pad-size", "4"]))
    refuse(of_tensorflow(["--preset", "cifar10", "--macrobatch-size", "512"]))


@pytest.mark.parametrize(
    "arguments",
    [
        ["--monitor", "5"],
        ["--gc-type", "2bit"],
        ["--max-random-h", "36"],
        ["--max-random-rotate-angle", "5"],
        ["--warmup-strategy", "lars", "--optimizer", "lbsgd"],
        ["--optimizer", "lbsgd"],
    ],
)
def test_what_only_mxnet_has_is_named(arguments: list[str]) -> None:
    with pytest.raises(InputError, match=f"{arguments[0]}.*only MXNet has that"):
        refuse(of_tensorflow(arguments))


@pytest.mark.parametrize(
    "arguments", [["--data-train-idx", "a"], ["--data-val-idx", "a"], ["--dtype", "float16"]]
)
def test_what_only_tensorflow_lacks_is_named_with_both_others(arguments: list[str]) -> None:
    with pytest.raises(InputError, match=f"{arguments[0]}: only MXNet and PyTorch have that"):
        refuse(of_tensorflow(arguments))


def test_all_of_them_are_named_at_once() -> None:
    with pytest.raises(
        InputError, match=says("--max-random-h, --max-random-shear-ratio", "only MXNet")
    ):
        refuse(of_tensorflow(["--max-random-h", "1", "--max-random-shear-ratio", "0.1"]))
