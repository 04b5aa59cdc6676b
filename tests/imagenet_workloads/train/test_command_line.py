"""The command line of imagenet-train against MXNet's example, and against mistakes."""

from typing import Any

import pytest

from imagenet_spec.program.kinds import PolynomialDecay, StepDecay
from imagenet_spec.program.train import values_of
from imagenet_workloads.train.command_line import build_parser, parse

# MXNet's example/image-classification: common/fit.py, common/data.py, train_imagenet.py.
MXNET_DEFAULTS: dict[str, Any] = {
    "network": "resnet",
    "num_layers": 50,
    "gpus": (),
    "kv_store": "device",
    "num_epochs": 80,
    "lr": 0.1,
    "lr_factor": 0.1,
    "lr_step_epochs": StepDecay((30, 60)),
    "initializer": "default",
    "optimizer": "sgd",
    "mom": 0.9,
    "wd": 1e-4,
    "batch_size": 128,
    "disp_batches": 20,
    "model_prefix": None,
    "save_period": 1,
    "monitor": 0,
    "load_epoch": None,
    "top_k": 0,
    "loss": "",
    "test_io": False,
    "dtype": "float32",
    "gc_type": "none",
    "gc_threshold": 0.5,
    "macrobatch_size": 0,
    "warmup_epochs": 5,
    "warmup_strategy": "linear",
    "data_train": None,
    "data_train_idx": "",
    "data_val": None,
    "data_val_idx": "",
    "pad_size": 0,
    "fill_value": 127,
    "image_shape": (3, 224, 224),
    "num_classes": 1000,
    "num_examples": 1281167,
    "benchmark": False,
    "max_batches": 0,
    "random_crop": False,
    "random_mirror": False,
    "max_random_h": 0,
    "max_random_s": 0,
    "max_random_l": 0,
    "min_random_aspect_ratio": None,
    "max_random_aspect_ratio": 0,
    "max_random_rotate_angle": 0,
    "max_random_shear_ratio": 0,
    "max_random_scale": 1,
    "min_random_scale": 1,
    "max_random_area": 1,
    "min_random_area": 1,
    "brightness": 0,
    "contrast": 0,
    "saturation": 0,
    "pca_noise": 0,
    "random_resized_crop": False,
}
CIFAR10_DEFAULTS = MXNET_DEFAULTS | {
    "num_layers": 110,
    "num_classes": 10,
    "num_examples": 50000,
    "image_shape": (3, 28, 28),
    "pad_size": 4,
    "num_epochs": 300,
    "lr": 0.05,
    "lr_step_epochs": StepDecay((200, 250)),
}

CROP = ["--random-resized-crop", "1"]


@pytest.mark.parametrize(
    ("arguments", "expected"), [([], MXNET_DEFAULTS), (["--preset", "cifar10"], CIFAR10_DEFAULTS)]
)
def test_names_and_defaults_are_mxnets(arguments: list[str], expected: dict[str, Any]) -> None:
    found = values_of(parse(arguments, {}))
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("arguments", "name", "value"),
    [
        (["--lr-step-epochs", ""], "lr_step_epochs", None),
        (["--lr-step-epochs", "5"], "lr_step_epochs", StepDecay((5,))),
        (["--lr-step-epochs", "pow2"], "lr_step_epochs", PolynomialDecay(2)),
        (["--lr-step-epochs", "pow 0.5"], "lr_step_epochs", PolynomialDecay(0.5)),
        (["--gpus", "0,3"], "gpus", (0, 3)),
        (["--gpus", ""], "gpus", ()),
        (["--image-shape", "1,28,20"], "image_shape", (1, 28, 20)),
        (["--rgb-mean", "1,2.5,3"], "rgb_mean", (1, 2.5, 3)),
        (["--random-mirror", "1"], "random_mirror", True),
        (["--activation-checkpointing", "1"], "activation_checkpointing", True),
        (["--model", "out/resnet"], "model_prefix", "out/resnet"),
        # As it may be written for MXNet's example.
        (["--loss", "ce, nll"], "loss", "ce, nll"),
        # An explicit option overrides a preset, in any order.
        (["--lr", "0.2", "--preset", "cifar10"], "lr", 0.2),
        (["--use-imagenet-data-augmentation", "1"], "random_resized_crop", True),
        (["--use-imagenet-data-augmentation", "1"], "rgb_std", (58.393, 57.12, 57.375)),
        (["--brightness", "0", "--use-imagenet-data-augmentation", "1"], "brightness", 0),
    ],
)
def test_values_are_read(arguments: list[str], name: str, value: object) -> None:
    assert values_of(parse(arguments, {}))[name] == value


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--batch-size", "0"], "--batch-size: must be at least 1, not 0"),
        (["--num-epochs", "ten"], "--num-epochs: 'ten' is not a whole number"),
        (["--lr", "0"], "--lr: 0 is not above 0"),
        (["--wd", "-1"], "--wd: -1 is negative"),
        (["--wd", "nan"], "--wd: 'nan' is not a number"),
        (["--image-shape", "224"], "such as 3,224,224"),
        (["--image-shape", "2,224,224"], "1 or 3 channels"),
        (["--lr-step-epochs", "60,30"], "must rise"),
        (["--lr-step-epochs", "pow"], "such as pow2"),
        (["--rgb-std", "1,0,1"], "must be above 0"),
        (["--gpus", "0,0"], "names a GPU twice"),
        (["--gpus", "a"], "list of GPU numbers"),
        (["--random-crop", "yes"], "write 0 or 1"),
        (["--netwrok", "lenet"], "unrecognized arguments: --netwrok"),
        # The operator compares names to refuse repeated options, so no name has two spellings.
        (["--net", "lenet"], "unrecognized arguments: --net"),
        (["--dataset", "d", "--data-train", "t.rec"], "--dataset: not together with --data-train"),
        (["--load-epoch", "3"], "--load-epoch: needs --model-prefix"),
        (["--load-epoch", "3", "--model-prefix", "p", "--init-from", "c"], "not together with"),
        (["--compile", "1", "--deterministic", "1"], "--compile: not together with"),
        (["--pretrained", "w.pth", "--init-from", "c"], "--pretrained: not together with --init-"),
        (
            ["--init-from-url", "s3://a/b", "--init-from", "c"],
            "--init-from-url: not together with --init-from",
        ),
        (
            ["--pretrained-url", "s3://a/b", "--load-epoch", "3", "--model-prefix", "p"],
            "--pretrained-url: not together with --load-epoch",
        ),
        (["--start-region", "eu-central-1"], "need --init-from-url or --pretrained-url"),
        (["--warmup-strategy", "lars"], "lars needs --optimizer lbsgd"),
        (["--early-stopping-metric", "top1"], "goes with --early-stopping-patience"),
        (["--early-stopping-patience", "2"], "--early-stopping-metric: goes with"),
        (["--checkpoint-best", "speed"], "argument --checkpoint-best: invalid choice"),
        (["--batch-size", "1", "--gpus", "0,1"], "cannot be split over 2 GPUs"),
        (["--random-resized-crop", "1", "--random-crop", "1"], "not together with --random-crop"),
        (
            ["--use-imagenet-data-augmentation", "1", "--min-random-scale", "0.5"],
            "or --max-random-scale, which MXNet refuses",
        ),
        (
            [*CROP, "--max-random-area", "0.5"],
            "--min-random-area: 1 is above --max-random-area 0.5: write 0.5 or less",
        ),
        (
            [*CROP, "--min-random-aspect-ratio", "0.75"],
            "--max-random-aspect-ratio: 0 is below --min-random-aspect-ratio 0.75: write 0.75 or "
            "more",
        ),
        (
            ["--use-imagenet-data-augmentation", "1", "--max-random-aspect-ratio", "0.5"],
            "--max-random-aspect-ratio: 0.5 is below --min-random-aspect-ratio 0.75",
        ),
        (["--loss", "hinge"], "write ce, nll_loss or both"),
    ],
)
def test_mistakes_are_explained(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        parse(arguments, {})
    assert end.value.code == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_help_shows_every_option_with_its_default() -> None:
    text = " ".join(build_parser({}).format_help().split())
    for name in MXNET_DEFAULTS:
        assert f"--{name.replace('_', '-')} " in text
    assert "(default: 3,224,224)" in text


@pytest.mark.parametrize(
    "arguments", [["--preset", "bogus"], ["--use-imagenet-data-augmentation", "7"]]
)
def test_a_wrong_preset_is_an_error_of_the_program(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parse(arguments, {})
    assert capsys.readouterr().err.splitlines()[-1].startswith("imagenet-train: error: argument --")
