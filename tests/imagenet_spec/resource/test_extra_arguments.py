"""Extra arguments that `imagenet-train` would refuse after preparation are refused before it."""

from typing import Any

import pytest

from imagenet_spec.resource import extra_arguments
from imagenet_spec.validate import validate
from support import job_table
from support.sentences import assert_says

OWN_IMAGE = {"image": "registry.example/team/trainer:1"}
GREY = {"model": {"network": "lenet", "imageShape": [1, 28, 28]}}
HOROVOD: dict[str, Any] = {"strategy": {"horovod": {}}}


def found(extra_args: list[str], **training: Any) -> list[str]:
    document = job_table.manifest(training={"extraArgs": extra_args, **training})
    problems = validate(document)
    assert {problem.path for problem in problems} <= {"spec.training.extraArgs"}
    return [f"{problem.message}; {problem.hint or 'no hint'}" for problem in problems]


def assert_refused(problems: list[str], *facts: str) -> None:
    (problem,) = problems
    assert_says(problem, *facts)


@pytest.mark.parametrize(
    ("extra_args", "facts"),
    [
        (["--disp-batch", "5"], ("has no --disp-batch;", "write --disp-batches")),
        (["--dtype", "int8"], ("--dtype", "cannot be 'int8'", "float32, bfloat16, float16")),
        (["--disp-batches=0"], ("--disp-batches", "at least 1", "not 0", "no hint")),
        (["--seed"], ("--seed", "no value", "write --seed=VALUE")),
        (["--seed", "--benchmark=1"], ("--seed", "no value", "write --seed=VALUE")),
        (["seed"], ("has no seed", "write --seed")),
        (["--help"], ("--help only prints", "remove it")),
        (["-h"], ("-h only prints", "remove it")),
        (["--clip-gradient", "0.0"], ("--clip-gradient", "0.0 is not above 0", "no hint")),
        (["--loss", "mse"], ("--loss", "'mse'", "write ce, nll_loss or both", "comma", "no hint")),
    ],
)
def test_what_the_program_would_refuse_is_refused(
    extra_args: list[str], facts: tuple[str, ...]
) -> None:
    assert_refused(found(extra_args), *facts)


@pytest.mark.parametrize(
    "extra_args",
    [
        [],
        ["--disp-batches", "5", "--seed=3"],
        ["--rgb-mean=-1,2,3.5", "--rgb-std", "1,2,3"],
        ["--loss", "ce,nll_loss", "--gc-type", "2bit", "--gc-threshold", "0.5"],
        ["--use-imagenet-data-augmentation", "1"],
        ["--model-prefix", "a name with spaces"],
    ],
)
def test_what_the_program_takes_is_taken(extra_args: list[str]) -> None:
    assert found(extra_args) == []


def test_an_image_of_the_users_own_may_know_more_options() -> None:
    assert found(["--new-option", "5"], **OWN_IMAGE) == []
    of_both = found(["--new-option", "5", "--dtype=int8"], **OWN_IMAGE)
    assert_refused(of_both, "--dtype cannot be 'int8'", "float32, bfloat16, float16")
    assert_refused(found(["--help"], **OWN_IMAGE), "--help only prints", "remove it")
    job = job_table.read(job_table.manifest(training={"extraArgs": ["--new-option"], **OWN_IMAGE}))
    (warning,) = extra_arguments.warnings(job.spec.training)
    assert_says(warning.message, "has no --new-option")


def test_a_preset_is_judged_with_the_fields_beside_it() -> None:
    preset = ["--use-imagenet-data-augmentation", "1"]
    (grey,) = found(preset, **GREY)
    lacking = ("brightness", "contrast", "saturation", "pcaNoise", "1 channel")
    assert_says(grey, *preset, "augmentation", *lacking, "remove", *preset)
    (crops,) = found(preset, augmentation={"randomCrop": True})
    assert "cannot be combined with randomCrop" in crops


def test_a_precision_is_judged_by_the_framework() -> None:
    assert found(["--dtype", "float16"], workers={"gpus": 1}) == []
    assert_refused(
        found(["--dtype", "float16"]),
        "--dtype float16: MXNet",
        "on GPUs only",
        "write float32, or workers.gpus",
    )
    assert_refused(
        found(["--dtype=bfloat16"]),
        "MXNet has no bfloat16",
        "float32 or float16",
        "or framework: PyTorch",
    )


def test_compression_needs_a_kvstore_that_compresses() -> None:
    assert found(["--gc-type", "none"], **HOROVOD) == []
    assert_refused(
        found(["--gc-type", "2bit"], **HOROVOD),
        "--gc-type 2bit",
        "horovod does not compress",
        "remove it",
        "kvStore: device or dist_sync or dist_device_sync or dist_async",
    )
