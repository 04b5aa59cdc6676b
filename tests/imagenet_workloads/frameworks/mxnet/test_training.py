"""`imagenet-train` in one process, from the command line to what it leaves."""

import hashlib
import json
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import mxnet as mx
import numpy as np
import pytest

from imagenet_spec.events import EpochFinished, Started, Validated, read_events
from imagenet_workloads.dataset import read_dataset
from support import limits, plain_mxnet
from support.evaluations import check_evaluation
from support.listed_files import listed_files
from support.one_process import assert_only_reads, assert_sigterm_saves
from support.sentences import assert_says
from support.tiny_dataset import TinyDataset, write_dataset
from support.training_cluster import result, train

MEAN, STD = (78.0, 78.0, 78.0), (96.0, 96.0, 96.0)


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> TinyDataset:
    folder = tmp_path_factory.mktemp("digits")
    written = write_dataset(folder, train=600, validation=101, shards=3)
    sealed = replace(read_dataset(folder), class_words={"digit-4": "four, quatre"})
    (folder / "dataset.json").write_text(sealed.to_json())
    return written


def arguments(digits: TinyDataset, output: Path, *more: str) -> list[str]:
    common = ["--dataset", str(digits.folder), "--output", str(output), "--warmup-epochs", "1"]
    return [*common, "--image-shape", "3,28,28", "--batch-size", "32", *more]


def test_digits_are_learned_and_the_model_is_plain_mxnets(
    digits: TinyDataset, tmp_path: Path
) -> None:
    more = ("--network", "lenet", "--num-epochs", "5", "--lr", "0.05", "--top-k", "3")
    words = tmp_path / "words"
    started = time.time()
    ended = train(arguments(digits, tmp_path, *more), IMAGENET_TERMINATION_LOG=str(words))
    assert ended.returncode == 0, ended.stderr
    found = result(tmp_path)
    assert found["validation"]["top1"] >= 0.9
    said = json.loads(words.read_text())
    assert said.pop("time") > 0
    check_time(tmp_path / "attempts/r0", started)
    assert said.pop("seconds").keys() == found["time"]["phases"].keys()
    result_sum = hashlib.sha256((tmp_path / "attempts/r0/result.json").read_bytes()).hexdigest()
    assert said == {
        "event": "finished",
        "epochs": 5,
        "top1": found["validation"]["top1"],
        "top5": found["validation"]["top5"],
        "imagesPerSecond": found["train"]["imagesPerSecond"],
        "loopCpuSeconds": found["train"]["loopCpuSeconds"],
        "checkpointStallSeconds": found["train"]["checkpointStallSeconds"],
        "resultSha256": result_sum,
    }
    assert said["loopCpuSeconds"] > 0
    assert found["train"]["images"] == 5 * 600
    attempt = tmp_path / "attempts/r0"
    assert listed_files(attempt) == {
        *("model-symbol.json", "model-0005.params", "labels.json"),
        *("model-card.md", "model-card.json"),
    }
    labels = json.loads((attempt / "labels.json").read_text())
    assert labels[3:5] == ["digit-3", {"class": "digit-4", "words": "four, quatre"}]
    check_judged_by_plain_mxnet(found, attempt, digits)
    evaluation = check_evaluation(attempt, digits.folder)
    assert (evaluation.job, evaluation.epoch) == ("local", 5)
    assert evaluation.words[4] == "four, quatre"
    card = json.loads((attempt / "model-card.json").read_text())
    assert sum(one["right"] for one in card["accuracyByClass"]) == evaluation.right
    assert card["validation"] == found["validation"]
    assert card["versions"]["MXNet"] == mx.__version__
    # Who sees the result sees all.
    written = [
        (attempt / name).stat().st_mtime_ns
        for name in ("evaluation.json", "model-card.md", "model-card.json", "result.json")
    ]
    assert written == sorted(written)

    events = [event for _, event in read_events(attempt / "metrics.jsonl")]
    assert [event.epoch for event in events if isinstance(event, Validated)] == [0, 1, 2, 3, 4]
    assert [event.epoch for event in events if isinstance(event, EpochFinished)] == [0, 1, 2, 3, 4]
    readable = (attempt / "train.log").read_text()
    assert "epoch 5 batch 19: " in readable
    assert "images/s" in readable
    assert "epoch 5 validated: top-3" in readable


def check_judged_by_plain_mxnet(found: dict[str, Any], attempt: Path, digits: TinyDataset) -> None:
    prefix = attempt / found["model"]["params"].rpartition("-")[0]
    records = sorted(digits.folder.glob("validation-*.rec"))
    inputs = found["inputs"]
    *_, normalize, _ = inputs["steps"]
    assert inputs["steps"][0]["step"] == "decode"
    assert normalize["mean"] == inputs["mean"][: inputs["imageShape"][0]]
    judged = plain_mxnet.evaluate(
        prefix, 5, records, tuple(inputs["imageShape"]), tuple(inputs["mean"]), tuple(inputs["std"])
    )
    assert judged.images == len(digits.validation) == found["validation"]["images"]
    assert judged.top1 == found["validation"]["top1Count"]
    assert judged.top5 == found["validation"]["top5Count"]


def check_time(attempt: Path, started: float) -> None:
    """Assert that the phases of a training add up to all of its time until its result."""
    account = json.loads((attempt / "result.json").read_text())["time"]
    phases = account["phases"]
    assert sum(phases.values()) == pytest.approx(account["seconds"], abs=0.01)
    # The folder is made before the import of MXNet.
    begun = attempt.parent.stat().st_mtime
    ended = (attempt / "result.json").stat().st_mtime
    *_, evaluated = (
        time
        for time, event in read_events(attempt / "metrics.jsonl")
        if isinstance(event, Validated)
    )
    # The clock of files lags by some milliseconds.
    assert evaluated - begun <= account["seconds"] <= ended - started + 0.1
    # One process may join in less than the half of a millisecond.
    unused = {phase for phase, seconds in phases.items() if not seconds}
    assert unused - {"joining"} == {"redone", "ending"}


def check_same_model(*folders: Path) -> None:
    first, second = (mx.nd.load(str(folder / "model-0002.params")) for folder in folders)
    for name, array in first.items():
        assert np.array_equal(array.asnumpy(), second[name].asnumpy()), name


def copy_until(checkpoint: Path, cut: Path) -> None:
    """Copy what an attempt leaves that died after `checkpoint`, in epoch 1 after batch 14."""
    shutil.copytree(checkpoint, cut / "attempts/r0/checkpoints" / checkpoint.name)
    # The attempt trained 3 batches more, of which its log names the first 2.
    whole = checkpoint.parents[1] / "metrics.jsonl"
    log = whole.read_text().splitlines(keepends=True)
    reached = '"epoch": 1, "batch": 16'
    end = next(number for number, line in enumerate(log, start=1) if reached in line)
    (cut / "attempts/r0/metrics.jsonl").write_text("".join(log[:end]))


def test_a_resumed_training_is_the_uninterrupted_one(digits: TinyDataset, tmp_path: Path) -> None:
    # Adam, a macrobatch and augmentation: whatever could get out of step.
    more = ["--network", "mlp", "--num-epochs", "2", "--optimizer", "adam", "--lr", "0.002"]
    more += ["--macrobatch-size", "64", "--random-crop", "1", "--pad-size", "2"]
    identity = {"IMAGENET_JOB_UID": "uid", "IMAGENET_SPEC_HASH": "hash", "IMAGENET_ATTEMPT": "0"}
    whole = tmp_path / "whole"
    always = ["--checkpoint-every-seconds", "0.000001", "--checkpoint-keep", "1000"]
    ended = train(arguments(digits, whole, *more, *always, "--disp-batches", "1"), **identity)
    assert ended.returncode == 0, ended.stderr
    # 19 batches, rounded up to whole updates of 2 batches.
    checkpoints = whole / "attempts/r0/checkpoints"
    middle = checkpoints / "epoch-0001-batch-00000014"
    assert sorted(path.name for path in checkpoints.iterdir())[-1] == "epoch-0002-batch-00000000"

    cut = tmp_path / "cut"
    copy_until(middle, cut)
    ended = train(arguments(digits, cut, *more), **identity | {"IMAGENET_ATTEMPT": "1"})
    assert ended.returncode == 0, ended.stderr
    found, expected = result(cut, attempt=1), result(whole)
    assert found["resumedFrom"] == str(cut / "attempts/r0/checkpoints" / middle.name)
    assert found["train"]["images"] == 600 - 14 * 32
    assert found["validation"] == expected["validation"]
    check_same_model(whole / "attempts/r0", cut / "attempts/r1")
    assert expected["time"]["phases"]["redone"] == 0
    assert min(found["time"]["phases"][phase] for phase in ("redone", "stepping")) > 0

    # An attempt that died before it exported: the next one only exports.
    (cut / "attempts/r1/result.json").unlink()
    ended = train(arguments(digits, cut, *more), **identity | {"IMAGENET_ATTEMPT": "2"})
    assert ended.returncode == 0, ended.stderr
    again = result(cut, attempt=2)
    assert again["validation"] == expected["validation"]
    for name, value in {"images": 0, "imagesPerSecond": None, "loopCpuSeconds": None}.items():
        assert again["train"][name] == value

    # An attempt that comes late finds the later one, and writes nothing.
    before = sorted(path for path in cut.rglob("*") if path.is_file())
    ended = train(arguments(digits, cut, *more), **identity | {"IMAGENET_ATTEMPT": "1"})
    assert ended.returncode == 3
    assert "a later attempt has taken over" in ended.stderr
    assert sorted(path for path in cut.rglob("*") if path.is_file()) == before


def test_another_batch_size_goes_on_with_the_missing_images(
    digits: TinyDataset, tmp_path: Path
) -> None:
    identity = {"IMAGENET_JOB_UID": "uid", "IMAGENET_SPEC_HASH": "hash", "IMAGENET_ATTEMPT": "0"}
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    more = ("--network", "mlp", "--num-epochs", "1")
    always = ("--checkpoint-every-seconds", "0.000001", "--checkpoint-keep", "1000")
    ended = train(arguments(digits, whole, *more, *always), **identity)
    assert ended.returncode == 0, ended.stderr
    name = "epoch-0000-batch-00000007"
    shutil.copytree(
        whole / "attempts/r0/checkpoints" / name, cut / "attempts/r0/checkpoints" / name
    )
    # 7 batches of 32 are 224 images: 4 batches of 50 and 24 images of the next one.
    ended = train(
        [*arguments(digits, cut, *more), "--batch-size", "50"],
        **identity | {"IMAGENET_ATTEMPT": "1"},
    )
    assert ended.returncode == 0, ended.stderr
    assert result(cut, attempt=1)["train"]["images"] == 600 - 224
    (started,) = (
        event
        for _, event in read_events(cut / "attempts/r1/metrics.jsonl")
        if isinstance(event, Started)
    )
    assert (started.epoch, started.batch) == (0, 4)


def test_sigterm_saves_within_an_epoch(digits: TinyDataset, tmp_path: Path) -> None:
    mlp = arguments(digits, tmp_path, "--network", "mlp")
    checkpoint = assert_sigterm_saves(mlp, tmp_path)
    # The same command also resumes without the operator.
    epochs = int(checkpoint.name.split("-")[1]) + 1
    ended = train([*mlp, "--num-epochs", str(epochs), "--checkpoint-every-epochs", "0"])
    assert ended.returncode == 0, ended.stderr
    started = [
        event
        for _, event in read_events(tmp_path / "attempts/r0/metrics.jsonl")
        if isinstance(event, Started)
    ]
    assert started[1].resumed_from == str(checkpoint)


def test_benchmark_and_mirror_train_without_data(tmp_path: Path) -> None:
    ended = train(
        ["--benchmark", "1", "--num-examples", "64", "--network", "resnet", "--num-layers", "8",
         "--image-shape", "3,28,28", "--num-classes", "10", "--batch-size", "16", "--monitor", "2",
         "--num-epochs", "1", "--output", str(tmp_path)],
        MXNET_BACKWARD_DO_MIRROR="1",
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    found = result(tmp_path)
    assert (found["train"]["images"], found["validation"]) == (64, None)
    card = json.loads((tmp_path / "attempts/r0/model-card.json").read_text())
    assert (card["validation"], card["accuracyByClass"]) == (None, [])
    assert not (tmp_path / "attempts/r0/evaluation.json").exists()
    assert "conv0_weight" in ended.stdout + ended.stderr


def test_images_of_image_record_iter_are_evaluated(digits: TinyDataset, tmp_path: Path) -> None:
    more = ("--network", "mlp", "--num-epochs", "1", "--reader", "ImageRecordIter")
    ended = train(arguments(digits, tmp_path, *more))
    assert ended.returncode == 0, ended.stderr
    check_evaluation(tmp_path / "attempts/r0", digits.folder)


def test_test_io_reads_and_trains_nothing(digits: TinyDataset, tmp_path: Path) -> None:
    options = arguments(digits, tmp_path, "--network", "lenet", "--data-nthreads", "1")
    assert_only_reads(options, tmp_path, 600)


def test_a_checkpoint_that_may_not_be_so_large_finds_no_room(tmp_path: Path) -> None:
    limits.check_refused_checkpoints(tmp_path, "MXNet")


@pytest.mark.costly
def test_a_real_lack_of_memory_ends_with_what_to_change(tmp_path: Path) -> None:
    advice = limits.advice_without_memory(tmp_path, "MXNet")
    assert_says(advice, limits.LACKS_MEMORY, "MXNET_BACKWARD_DO_MIRROR=1", "slower")


@pytest.mark.parametrize(
    ("more", "facts"),
    [
        (
            ["--network", "lenett"],
            ("--network (model.network)", "'lenett' is unknown", "did you mean lenet"),
        ),
        (["--kv-store", "dist_sync"], ("DMLC_ROLE", "role of this process", "local or device")),
        (["--gpus", "7"], ("no GPU 7", "MXNet sees 0")),
        (
            ["--dtype", "float16"],
            (
                "--dtype (precision)",
                "float16 on GPUs only",
                "write float32",
                "or --gpus (workers.gpus)",
            ),
        ),
    ],
)
def test_mistakes_end_with_3_and_a_message(
    digits: TinyDataset, tmp_path: Path, more: list[str], facts: tuple[str, ...]
) -> None:
    words = tmp_path / "last-words"
    ended = train(arguments(digits, tmp_path, *more), IMAGENET_TERMINATION_LOG=str(words))
    assert ended.returncode == 3
    assert f"imagenet-train: error: {words.read_text()}" in ended.stderr
    assert_says(words.read_text(), *facts)
