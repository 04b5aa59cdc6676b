"""Which data a command line means, and how its images are prepared."""

from pathlib import Path

import numpy as np
import pytest

from imagenet_workloads.commands.train import parse
from imagenet_workloads.errors import InputError
from imagenet_workloads.frameworks.mxnet.data import choose
from support.tiny_dataset import write_dataset, write_shard


def test_a_dataset_brings_its_classes_mean_and_std(tmp_path: Path) -> None:
    data = write_dataset(tmp_path / "data", train=20, validation=6)
    options = parse(["--dataset", str(data.folder), "--image-shape", "3,28,28"])
    found = choose(options, 0, 1, 1, tmp_path)
    assert (found.class_count, found.classes[9], found.key) == (10, "digit-9", "0" * 32)
    assert (found.inputs.mean, found.inputs.std) == ((78.0,) * 3, (96.0,) * 3)
    assert found.training.images == 20
    assert found.validation is not None
    assert found.validation.images == 6


def test_what_is_written_wins_over_the_dataset(tmp_path: Path) -> None:
    data = write_dataset(tmp_path / "data", train=20, validation=0)
    options = parse(["--dataset", str(data.folder), "--rgb-mean", "1,2,3", "--rgb-std", "4,5,6"])
    found = choose(options, 0, 1, 1, tmp_path)
    assert (found.inputs.mean, found.inputs.std) == ((1, 2, 3), (4, 5, 6))
    assert found.validation is None


def test_records_are_taken_as_in_mxnets_example(tmp_path: Path) -> None:
    write_shard(tmp_path, "t", range(20))
    write_shard(tmp_path, "v", range(5))
    paths = ["--data-train", str(tmp_path / "t.rec"), "--data-val", str(tmp_path / "v.rec")]
    found = choose(parse([*paths, "--num-classes", "12"]), 0, 1, 1, tmp_path)
    assert (found.class_count, found.classes, found.key) == (12, (), None)
    assert found.inputs.mean == (123.68, 116.779, 103.939)
    assert found.inputs.std == (1, 1, 1)
    assert found.validation is not None
    assert found.validation.images == 5


@pytest.mark.parametrize(
    ("arguments", "resize"),
    [
        (["--image-shape", "3,224,224"], 256),
        (["--image-shape", "3,299,299"], 342),
        (["--image-shape", "3,28,28"], 0),
        (["--image-shape", "3,224,224", "--validation-resize", "0"], 0),
        (["--image-shape", "3,28,28", "--validation-resize", "32"], 32),
    ],
)
def test_validation_crops_seven_eighths_of_large_images(
    tmp_path: Path, arguments: list[str], resize: int
) -> None:
    write_shard(tmp_path, "t", range(4))
    options = parse(["--data-train", str(tmp_path / "t.rec"), *arguments])
    assert choose(options, 0, 1, 1, tmp_path).inputs.resize == resize


@pytest.mark.parametrize(
    ("examples", "ranks", "batches"), [("100", 1, 7), ("100", 2, 4), ("1281167", 2, 500)]
)
def test_a_benchmark_needs_no_data(tmp_path: Path, examples: str, ranks: int, batches: int) -> None:
    arguments = ["--benchmark", "1", "--image-shape", "3,8,8", "--batch-size", "16"]
    options = parse([*arguments, "--num-examples", examples])
    found = choose(options, 0, ranks, 1, tmp_path)
    assert found.training.batches_per_epoch == batches
    (batch, *rest) = found.training.epoch(0, batches - 2)
    assert batch.data.shape == (16, 3, 8, 8)
    assert len(rest) == 1


@pytest.mark.parametrize(("reader", "antialias"), [("Ordered", "dct"), ("ImageRecordIter", "none")])
def test_result_json_says_whether_the_reader_reduces_while_it_decodes(
    tmp_path: Path, reader: str, antialias: str
) -> None:
    data = write_dataset(tmp_path / "data", train=4, validation=0)
    arguments = ["--dataset", str(data.folder), "--reader", reader, "--validation-resize", "32"]
    inputs = choose(parse(arguments), 0, 1, 1, tmp_path).inputs
    packing, validation = (step for step in inputs.document()["steps"] if step["step"] == "resize")
    assert packing["shorterEdge"] == "unknown", "its options have no resize"
    assert (validation["shorterEdge"], validation["antialias"]) == (32, antialias)


def test_without_data_there_is_a_message(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="write --dataset FOLDER, --dataset-url URL, --data-train"):
        choose(parse([]), 0, 1, 1, tmp_path)


def test_each_rank_of_a_benchmark_has_its_own_part(tmp_path: Path) -> None:
    arguments = ["--benchmark", "1", "--image-shape", "3,8,8", "--num-examples", "100"]
    whole = parse([*arguments, "--batch-size", "16"])
    half = parse([*arguments, "--batch-size", "8"])
    (batch, *_) = choose(whole, 0, 1, 1, tmp_path).training.epoch(0, 0)
    parts = [next(choose(half, rank, 2, 1, tmp_path).training.epoch(0, 0)) for rank in (0, 1)]
    np.testing.assert_array_equal(
        np.concatenate([part.data.asnumpy() for part in parts]), batch.data.asnumpy()
    )
    np.testing.assert_array_equal(
        np.concatenate([part.label.asnumpy() for part in parts]), batch.label.asnumpy()
    )
