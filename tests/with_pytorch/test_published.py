"""PyTorch trains from a published dataset on a server and in a bucket."""

from pathlib import Path

import pytest

from support.digit_datasets import TRAIN, VALIDATION, prepare_digits
from support.evaluations import check_evaluation
from support.served_datasets import train_from_bucket, train_from_server

OPTIONS = (
    *("--framework", "PyTorch", "--network", "lenet", "--image-shape", "3,28,28"),
    *("--batch-size", "32", "--num-epochs", "3", "--lr", "0.05", "--warmup-epochs", "1"),
    *("--data-nthreads", "1"),
)


@pytest.mark.parametrize("record_format", ["RecordIO", "TFRecord"])
def test_digits_are_learned_from_a_server(record_format: str, tmp_path: Path) -> None:
    (tmp_path / "digits").mkdir()
    dataset = prepare_digits(tmp_path / "digits", record_format)
    ended = train_from_server(dataset, tmp_path, *OPTIONS)
    assert ended.result["framework"] == "PyTorch"
    assert ended.result["train"]["images"] == 3 * TRAIN
    assert ended.result["validation"]["images"] == VALIDATION
    assert ended.result["validation"]["top1"] >= 0.9
    # Three epochs fetch the records once, besides dataset.json and the sums.
    assert ended.bytes_sent < 1.2 * ended.bytes_of_records


def test_digits_are_learned_from_a_bucket(tmp_path: Path) -> None:
    (tmp_path / "digits").mkdir()
    dataset = prepare_digits(tmp_path / "digits", "RecordIO")
    result = train_from_bucket(dataset, tmp_path, *OPTIONS)
    assert result["framework"] == "PyTorch"
    assert result["train"]["images"] == 3 * TRAIN
    assert result["validation"]["images"] == VALIDATION
    assert result["validation"]["top1"] >= 0.9
    evaluation = check_evaluation(tmp_path / "output/attempts/r0", dataset)
    shown = [*evaluation.mistakes, *evaluation.samples]
    archives = [f"{evaluation.classes[evaluation.labels[one.index]]}.tar" for one in shown]
    assert [(one.name or "").split("/")[-2] for one in shown] == archives
