"""`imagenet-train --framework TensorFlow` in one process, from command line to what it leaves."""

import json
import shutil
import subprocess
from pathlib import Path

import cv2
import numpy as np
import pytest
import tensorflow as tf

from imagenet_spec.events import Started, Validated, read_events
from imagenet_workloads.frameworks.tensorflow.weights import load_arrays
from support import limits
from support.digits import digit, label
from support.listed_files import listed_files
from support.one_process import assert_only_reads, assert_sigterm_saves
from support.tiny_records import MEAN, STD, write_dataset
from support.training_cluster import PROGRAM, result, train

TRAIN, VALIDATION = 600, 101


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_dataset(tmp_path_factory.mktemp("digits"), TRAIN, VALIDATION, shards=3)


def arguments(digits: Path, output: Path, *more: str) -> list[str]:
    common = ["--framework", "TensorFlow", "--dataset", str(digits), "--output", str(output)]
    return [
        *common,
        "--image-shape",
        "3,28,28",
        "--batch-size",
        "32",
        "--warmup-epochs",
        "1",
        *more,
    ]


def judged(model: Path) -> int:
    """Validation images that plain TensorFlow classifies right with an exported model."""
    drawn = np.random.default_rng(0).permutation(1797)[TRAIN : TRAIN + VALIDATION]
    images = np.stack([digit(int(number)) for number in drawn]).astype(np.float32)
    classify = tf.saved_model.load(str(model)).signatures["serving_default"]
    normal = (images - np.asarray(MEAN, np.float32)) / np.asarray(STD, np.float32)
    found = classify(data=tf.constant(normal))["probabilities"].numpy().argmax(axis=1)
    return int(sum(guess == label(int(number)) for guess, number in zip(found, drawn, strict=True)))


def test_digits_are_learned_and_the_model_is_plain_tensorflows(
    digits: Path, tmp_path: Path
) -> None:
    more = ("--network", "lenet", "--num-epochs", "5", "--lr", "0.05", "--top-k", "3")
    ended = train(arguments(digits, tmp_path, *more))
    assert ended.returncode == 0, ended.stderr
    found, attempt = result(tmp_path), tmp_path / "attempts/r0"
    assert found["framework"] == "TensorFlow"
    assert found["validation"]["top1"] >= 0.9
    assert found["validation"]["images"] == VALIDATION
    assert found["train"]["images"] == 5 * 600
    assert judged(attempt / found["model"]["savedModel"]) == found["validation"]["top1Count"]
    assert listed_files(attempt) >= {"model/saved_model.pb", "model-0005.npz", "model-card.json"}

    written = [event for _, event in read_events(attempt / "metrics.jsonl")]
    assert [event.epoch for event in written if isinstance(event, Validated)] == [0, 1, 2, 3, 4]
    assert "epoch 5 validated: top-3" in (attempt / "train.log").read_text()
    head, *lines = (attempt / "training.log").read_text().splitlines()
    assert head.split() == ["Step", "Epoch", "Speed", "Loss", "FinLoss", "LR"]
    assert [line.split()[0] for line in lines][-1] == "95"
    _, *lines = (attempt / "evaluation.log").read_text().splitlines()
    assert float(lines[-1].split()[2]) == pytest.approx(100 * found["validation"]["top1"], abs=0.01)

    image = tmp_path / "digit.png"
    cv2.imwrite(str(image), digit(6))
    program = PROGRAM.with_name("imagenet-predict")
    command = [str(program), "--model", str(tmp_path), "--top", "1", "--output", "json", str(image)]
    said = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert said[0]["predictions"][0]["class"] == f"digit-{label(6)}"


def test_a_resumed_training_is_the_uninterrupted_one(digits: Path, tmp_path: Path) -> None:
    # Adam, a macrobatch and augmentation: whatever could get out of step.
    more = ["--network", "mlp", "--num-epochs", "2", "--optimizer", "adam", "--lr", "0.002"]
    more += ["--macrobatch-size", "64", "--random-crop", "1", "--pad-size", "2"]
    identity = {"IMAGENET_JOB_UID": "uid", "IMAGENET_SPEC_HASH": "hash", "IMAGENET_ATTEMPT": "0"}
    whole = tmp_path / "whole"
    always = ["--checkpoint-every-seconds", "0.000001", "--checkpoint-keep", "1000"]
    ended = train(arguments(digits, whole, *more, *always), **identity)
    assert ended.returncode == 0, ended.stderr
    # 19 batches, rounded up to whole updates of 2 batches.
    middle = whole / "attempts/r0/checkpoints/epoch-0001-batch-00000014"

    cut = tmp_path / "cut"
    shutil.copytree(middle, cut / "attempts/r0/checkpoints" / middle.name)
    ended = train(arguments(digits, cut, *more), **identity | {"IMAGENET_ATTEMPT": "1"})
    assert ended.returncode == 0, ended.stderr
    found, expected = result(cut, attempt=1), result(whole)
    assert found["resumedFrom"] == str(cut / "attempts/r0/checkpoints" / middle.name)
    assert found["train"]["images"] == 600 - 14 * 32
    assert found["validation"] == expected["validation"]
    models = [
        load_arrays(folder / "model-0002.npz")
        for folder in (whole / "attempts/r0", cut / "attempts/r1")
    ]
    for name, array in models[0].items():
        assert np.array_equal(array, models[1][name]), name


def test_sigterm_saves_within_an_epoch(digits: Path, tmp_path: Path) -> None:
    options = arguments(digits, tmp_path, "--network", "mlp")
    checkpoint = assert_sigterm_saves(options, tmp_path)
    assert (checkpoint / "weights.npz").exists()
    events = [event for _, event in read_events(tmp_path / "attempts/r0/metrics.jsonl")]
    assert isinstance(events[0], Started)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--gpus", "5"], "--gpus (workers.gpus): there is no GPU 5, TensorFlow sees 0"),
        (["--max-random-h", "9"], "--max-random-h: only MXNet has that"),
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
    limits.check_refused_checkpoints(tmp_path, "TensorFlow")


def test_a_real_lack_of_memory_ends_with_what_to_change(tmp_path: Path) -> None:
    # oneDNN's convolution ends with a segmentation fault if it gets no memory on a CPU.
    said = limits.advice_without_memory(tmp_path, "TensorFlow", TF_ENABLE_ONEDNN_OPTS="0")
    assert said == limits.LACKS_MEMORY
