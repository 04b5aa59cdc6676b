"""TensorFlow trains from a published dataset on a server and in a bucket."""

from pathlib import Path

from support.served_datasets import train_from_bucket, train_from_server
from support.tiny_records import write_dataset

TRAIN, VALIDATION = 600, 101
OPTIONS = (
    *("--framework", "TensorFlow", "--network", "lenet", "--image-shape", "3,28,28"),
    *("--batch-size", "32", "--num-epochs", "5", "--lr", "0.05", "--warmup-epochs", "1"),
)


def test_digits_are_learned_from_a_server(tmp_path: Path) -> None:
    dataset = write_dataset(tmp_path / "digits", TRAIN, VALIDATION, shards=3)
    ended = train_from_server(dataset, tmp_path, *OPTIONS)
    assert ended.result["framework"] == "TensorFlow"
    assert ended.result["train"]["images"] == 5 * TRAIN
    assert ended.result["validation"]["images"] == VALIDATION
    assert ended.result["validation"]["top1"] >= 0.9
    # Five epochs fetch the records once, besides dataset.json and the sums.
    assert ended.bytes_sent < 1.2 * ended.bytes_of_records


def test_digits_are_learned_from_a_bucket(tmp_path: Path) -> None:
    dataset = write_dataset(tmp_path / "digits", TRAIN, VALIDATION, shards=3)
    result = train_from_bucket(dataset, tmp_path, *OPTIONS)
    assert result["framework"] == "TensorFlow"
    assert result["train"]["images"] == 5 * TRAIN
    assert result["validation"]["images"] == VALIDATION
    assert result["validation"]["top1"] >= 0.9
