"""`imagenet-train --framework PyTorch` in one process, from command line to what it leaves."""

import json
import shutil
import subprocess
from pathlib import Path

import cv2
import pytest
from safetensors.torch import load_file

from imagenet_spec.events import Started, Validated, read_events
from support import limits
from support.digit_datasets import TRAIN, VALIDATION, prepare_digits
from support.digits import digit, label
from support.one_process import assert_only_reads, assert_sigterm_saves
from support.sentences import assert_says
from support.training_cluster import PROGRAM, result, train

BATCHES = -(-TRAIN // 32)


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepare_digits(tmp_path_factory.mktemp("digits"), "RecordIO")


def arguments(digits: Path, output: Path, *more: str) -> list[str]:
    common = ["--framework", "PyTorch", "--dataset", str(digits), "--output", str(output)]
    shape = ["--image-shape", "3,28,28", "--batch-size", "32", "--warmup-epochs", "1"]
    return [*common, *shape, "--data-nthreads", "1", *more]


@pytest.mark.parametrize("record_format", ["RecordIO", "TFRecord"])
def test_digits_are_learned_and_predicted(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, record_format: str
) -> None:
    dataset = prepare_digits(tmp_path_factory.mktemp("digits"), record_format)
    more = ("--network", "lenet", "--num-epochs", "3", "--lr", "0.05", "--top-k", "3")
    ended = train(arguments(dataset, tmp_path, *more))
    assert ended.returncode == 0, ended.stderr
    found, attempt = result(tmp_path), tmp_path / "attempts/r0"
    assert found["framework"] == "PyTorch"
    assert found["validation"]["top1"] >= 0.9
    assert found["validation"]["images"] == VALIDATION
    # Each image once an epoch.
    assert found["train"]["images"] == 3 * TRAIN
    written = [event for _, event in read_events(attempt / "metrics.jsonl")]
    assert [event.epoch for event in written if isinstance(event, Validated)] == [0, 1, 2]
    assert "epoch 3 validated: top-3" in (attempt / "train.log").read_text()

    image = tmp_path / "digit.png"
    cv2.imwrite(str(image), digit(6))
    program = PROGRAM.with_name("imagenet-predict")
    command = [str(program), "--model", str(tmp_path), "--top", "1", "--output", "json", str(image)]
    said = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert said[0]["predictions"][0]["class"] == str(label(6))


# Dropout and Adam.
USUAL = ("--network", "squeezenet", "--image-shape", "3,48,48", "--optimizer", "adam")
TODAY = (
    *("--network", "lenet"),
    *("--optimizer", "lamb", "--lr-schedule", "cosine", "--label-smoothing", "0.1"),
    *("--mixup", "0.2", "--cutmix", "1", "--random-erasing", "0.5", "--ema-decay", "0.5"),
    *("--rand-augment-operations", "2"),
)


@pytest.mark.parametrize("recipe", [USUAL, TODAY], ids=["usual", "today"])
def test_a_resumed_training_is_the_uninterrupted_one(
    digits: Path, tmp_path: Path, recipe: tuple[str, ...]
) -> None:
    # A macrobatch, augmentation and the recipe: whatever could get out of step.
    more = ["--batch-size", "256", "--num-epochs", "1", "--lr", "0.0002"]
    more += ["--macrobatch-size", "512", "--random-crop", "1", "--pad-size", "2", *recipe]
    identity = {"IMAGENET_JOB_UID": "uid", "IMAGENET_SPEC_HASH": "hash", "IMAGENET_ATTEMPT": "0"}
    whole = tmp_path / "whole"
    always = ["--checkpoint-every-seconds", "0.000001", "--checkpoint-keep", "1000"]
    ended = train(arguments(digits, whole, *more, *always), **identity)
    assert ended.returncode == 0, ended.stderr
    # 1,455 images: 6 batches of 256, two for each update.
    middle = whole / "attempts/r0/checkpoints/epoch-0000-batch-00000004"

    cut = tmp_path / "cut"
    shutil.copytree(middle, cut / "attempts/r0/checkpoints" / middle.name)
    ended = train(arguments(digits, cut, *more), **identity | {"IMAGENET_ATTEMPT": "1"})
    assert ended.returncode == 0, ended.stderr
    found, expected = result(cut, attempt=1), result(whole)
    assert found["resumedFrom"] == str(cut / "attempts/r0/checkpoints" / middle.name)
    assert found["train"]["images"] == TRAIN - 4 * 256
    assert found["validation"] == expected["validation"]
    models = [
        load_file(folder / "model-0001.safetensors")
        for folder in (whole / "attempts/r0", cut / "attempts/r1")
    ]
    assert models[0].keys() == models[1].keys()
    assert [name for name, array in models[0].items() if not array.equal(models[1][name])] == []


def test_sigterm_saves_within_an_epoch(digits: Path, tmp_path: Path) -> None:
    options = arguments(digits, tmp_path, "--network", "mlp")
    checkpoint = assert_sigterm_saves(options, tmp_path)
    assert (checkpoint / "weights.safetensors").exists()
    events = [event for _, event in read_events(tmp_path / "attempts/r0/metrics.jsonl")]
    assert isinstance(events[0], Started)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--gpus", "5"], "--gpus (workers.gpus): there is no GPU 5, PyTorch sees 0"),
        (["--gpus", "0,1"], "--gpus (workers.gpus): PyTorch gives each process one GPU, not 2"),
        (["--optimizer", "lbsgd"], "--optimizer lbsgd: only MXNet has that"),
    ],
)
def test_what_cannot_be_is_told_at_once(
    digits: Path, tmp_path: Path, more: list[str], message: str
) -> None:
    ended = train(arguments(digits, tmp_path, *more))
    assert ended.returncode == 3
    assert message in ended.stderr.splitlines()[-1]


def test_test_io_reads_and_trains_nothing(digits: Path, tmp_path: Path) -> None:
    assert_only_reads(arguments(digits, tmp_path, "--network", "lenet"), tmp_path, TRAIN)


def test_a_checkpoint_that_may_not_be_so_large_finds_no_room(tmp_path: Path) -> None:
    limits.check_refused_checkpoints(tmp_path, "PyTorch")


def test_a_real_lack_of_memory_ends_with_what_to_change(tmp_path: Path) -> None:
    advice = limits.advice_without_memory(tmp_path, "PyTorch")
    switch = "--activation-checkpointing 1 (spec.training.activationCheckpointing: true)"
    assert_says(advice, limits.LACKS_MEMORY, switch, "slower")
