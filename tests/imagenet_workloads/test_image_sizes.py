"""Which size an epoch and validation have, and what a command line may say."""

import pytest

from imagenet_workloads.commands.train import parse
from imagenet_workloads.data.inputs import (
    choose_inputs,
    count_sizes,
    largest_shape,
    shape_of_epoch,
    validation_shape,
)
from imagenet_workloads.environment import Environment
from imagenet_workloads.errors import InputError
from imagenet_workloads.frameworks import FRAMEWORKS
from imagenet_workloads.train.description import refuse_lacking
from imagenet_workloads.train.resume import identify
from support.sentences import assert_says

PYTORCH = ("--framework", "PyTorch")
SIZES = ("--image-sizes", "0:128,6:160,10:192")


def test_a_size_holds_from_its_epoch_on() -> None:
    model = parse([*PYTORCH, *SIZES]).model
    found = [
        shape_of_epoch(model.image_shape, model.image_sizes, epoch)[1]
        for epoch in (0, 5, 6, 9, 10, 99)
    ]
    assert found == [128, 128, 160, 160, 192, 192]


def test_without_sizes_all_images_have_those_of_the_shape() -> None:
    model = parse([*PYTORCH, "--image-shape", "1,28,20"]).model
    assert shape_of_epoch(model.image_shape, model.image_sizes, 7) == (1, 28, 20)
    assert largest_shape(model.image_shape, model.image_sizes) == (1, 28, 20)
    assert validation_shape(model) == (1, 28, 20)
    assert count_sizes(model) == 1


@pytest.mark.parametrize(
    ("more", "validation", "count"),
    [
        ((), (3, 224, 224), 4),
        (("--validation-size", "256"), (3, 256, 256), 4),
        (("--validation-size", "160"), (3, 160, 160), 3),
    ],
)
def test_validation_is_one_more_size_unless_training_has_it(
    more: tuple[str, ...], validation: tuple[int, int, int], count: int
) -> None:
    model = parse([*PYTORCH, *SIZES, *more]).model
    assert validation_shape(model) == validation
    assert count_sizes(model) == count
    assert largest_shape(model.image_shape, model.image_sizes) == (3, 192, 192)


def test_validation_crops_the_same_part_of_an_image_at_any_size() -> None:
    inputs = choose_inputs(parse([*PYTORCH, "--validation-size", "256"]))
    assert (inputs.image_shape, inputs.resize) == ((3, 256, 256), 293)
    usual = choose_inputs(parse(PYTORCH))
    assert (usual.image_shape, usual.resize) == ((3, 224, 224), 256)


@pytest.mark.parametrize("framework", ["MXNet", "TensorFlow"])
@pytest.mark.parametrize("given", [SIZES, ("--validation-size", "256")])
def test_a_framework_of_one_size_refuses_them_in_one_line(
    framework: str, given: tuple[str, ...]
) -> None:
    options = parse(["--framework", framework, *given])
    with pytest.raises(InputError) as refused:
        refuse_lacking(options, FRAMEWORKS)
    assert_says(str(refused.value), given[0], "--framework PyTorch", "framework: PyTorch")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((*SIZES, "--network", "lenet"), "--image-sizes: lenet has a fixed input"),
        (("--validation-size", "32", "--network", "mlp"), "--validation-size: mlp has a fixed"),
        (
            ("--image-sizes", "0:63", "--network", "alexnet"),
            "--image-sizes 0:63: alexnet takes images of at least 64 pixels",
        ),
        (
            ("--image-sizes", "0:32,5:64"),
            "--image-sizes 0:32: up to 32 pixels, resnet is another network",
        ),
        (
            ("--image-shape", "3,32,32", "--num-layers", "20", "--validation-size", "33"),
            "--validation-size 33: up to 32 pixels, resnet is another network",
        ),
        (("--image-sizes", "160"), "'160' is not EPOCH:PIXELS,…"),
        (("--image-sizes", "0:128,6"), "is not EPOCH:PIXELS"),
        (("--image-sizes", "1:128"), "must begin at epoch 0"),
        (("--image-sizes", "0:128,6:160,6:192"), "epochs must rise"),
        (("--image-sizes", "0:128,7:160,6:192"), "epochs must rise"),
        (("--image-sizes", "0:0"), "has a size of 0 pixels"),
        (
            ("--image-sizes", ",".join(f"{epoch}:128" for epoch in range(9))),
            "9 sizes are too many: write 8 at most",
        ),
        (("--validation-size", "0"), "--validation-size: must be at least 1, not 0"),
    ],
)
def test_mistakes_are_one_line(
    given: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        parse([*PYTORCH, *given])
    assert end.value.code == 2
    (said,) = [line for line in capsys.readouterr().err.splitlines() if "error:" in line]
    assert message in said


def test_the_sizes_are_a_part_of_what_is_trained() -> None:
    environment = Environment.from_mapping({})
    given = [(), SIZES, ("--image-sizes", "0:128"), ("--validation-size", "256")]
    found = {identify(parse([*PYTORCH, *more]), environment).spec_hash for more in given}
    assert len(found) == len(given)
