"""The command line of a worker."""

import pytest
from hypothesis import given

from imagenet_operator.manifests import arguments
from imagenet_spec.program.train import OPTIONS
from imagenet_spec.resource import ImageNetJob
from support.job_table import JOBS
from support.random_jobs import jobs

SYNC = {"kv_store": "dist_sync"}


def options(name: str) -> dict[str, str]:
    """Return option → value of a job whose extra arguments come in pairs or have their value."""
    texts = arguments.of_worker(JOBS[name], SYNC)
    found = {}
    for position, text in enumerate(texts):
        if text.startswith("--"):
            option, equals, value = text.partition("=")
            found[option] = value if equals else texts[position + 1]
    return found


def test_the_command_line_of_a_plain_job() -> None:
    assert arguments.of_worker(JOBS["defaults"], SYNC) == (
        *("--batch-size", "256", "--num-epochs", "90"),
        *("--dataset", "$(IMAGENET_DATASET)"),
        *("--output", "$(IMAGENET_RESULTS)"),
        *("--kv-store", "dist_sync"),
    )


@pytest.mark.parametrize(
    ("name", "option", "value"),
    [
        ("single", "--image-shape", "1,28,28"),
        ("single", "--num-layers", None),
        ("single", "--gpus", None),
        ("single", "--data-nthreads", None),
        ("all of training", "--data-nthreads", "16"),
        ("single with gpus", "--gpus", "0,1,2,3"),
        ("gpus", "--batch-size", None),
        ("all of training", "--lr-step-epochs", ""),
        ("all of training", "--lr-scaling", "sqrt"),
        ("all of training", "--lr-scaling-base", "1024"),
        ("single", "--lr-scaling", None),
        ("single", "--lr-scaling-base", None),
        ("crops at random", "--random-crop", "1"),
        ("crops at random", "--min-random-scale", "0.533"),
        ("all of training", "--pca-noise", "0.1"),
        ("all of training", "--fill-value", "0"),
        ("all of training", "--checkpoint-every-seconds", "600"),
        (
            "all of training",
            "--init-from",
            "$(IMAGENET_OUTPUT)/jobs/base-1234/attempts/r0/checkpoints/epoch-0090-batch-00000000",
        ),
        ("compiled", "--compile", "1"),
        ("single", "--compile", None),
        ("sizes of images", "--image-shape", None),
        ("sizes of images", "--image-sizes", "0:160,12:192"),
        ("sizes of images", "--validation-size", "256"),
        ("single", "--image-sizes", None),
        ("single", "--validation-size", None),
        ("activation checkpointing", "--activation-checkpointing", "1"),
        ("single", "--activation-checkpointing", None),
        ("single", "--pretrained", None),
        ("pretrained weights", "--pretrained", "$(IMAGENET_OUTPUT)/weights/resnet50.safetensors"),
        ("all of training", "--disp-batches", "50"),
        ("all of training", "--benchmark", "1"),
    ],
)
def test_each_field_becomes_its_option(name: str, option: str, value: str | None) -> None:
    assert options(name).get(option) == value


def test_extra_arguments_come_last() -> None:
    assert arguments.of_worker(JOBS["all of training"], SYNC)[-3:] == (
        "--disp-batches",
        "50",
        "--benchmark=1",
    )


@given(job=jobs())
def test_the_workers_batches_add_up_to_the_jobs(job: ImageNetJob) -> None:
    texts = arguments.of_worker(job, SYNC)
    # The program's default is not written.
    batch = next(item.default for item in OPTIONS if item.name == "batch_size")
    if "--batch-size" in texts:
        batch = int(texts[texts.index("--batch-size") + 1])
    workers = job.spec.training.workers
    assert batch * workers.replicas == job.spec.training.batch_size
    assert batch % max(workers.gpus, 1) == 0


@pytest.mark.parametrize(
    ("name", "slots", "batch", "gpus"),
    [
        ("horovod with slots", 4, "64", None),
        ("horovod with gpus", 2, "64", "0,1,2,3"),
        ("horovod of tensorflow", 4, "64", "0"),
    ],
)
def test_slots_share_the_gpus_and_the_batch_of_their_worker(
    name: str, slots: int, batch: str, gpus: str | None
) -> None:
    texts = arguments.of_worker(JOBS[name], {"kv_store": "horovod"}, slots)
    assert texts[texts.index("--batch-size") + 1] == batch
    assert (texts[texts.index("--gpus") + 1] if "--gpus" in texts else None) == gpus
