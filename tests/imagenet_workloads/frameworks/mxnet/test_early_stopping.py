"""One process stops early, and goes on after a kill before a validation."""

from pathlib import Path

import pytest

from imagenet_workloads.commands import predict, verify
from support.pictures import jpeg
from support.stopped_early import arguments, assert_stopped, cut, model
from support.tiny_dataset import write_dataset
from support.training_cluster import train

IDENTITY = {"IMAGENET_JOB_UID": "uid", "IMAGENET_SPEC_HASH": "hash"}


def test_killed_between_checkpoint_and_validation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dataset = write_dataset(tmp_path / "data", 200, 51, shards=1).folder

    def run(output: Path, attempt: int) -> None:
        given = ["--batch-size", "16", *arguments(dataset, output)]
        ended = train(given, **IDENTITY, IMAGENET_ATTEMPT=str(attempt))
        assert ended.returncode == 0, ended.stderr

    whole, second = tmp_path / "whole", tmp_path / "second"
    run(whole, 0)
    assert_stopped(whole)
    cut(whole, second, 2)
    run(second, 1)
    assert_stopped(second, 1, validated=(2, 3))
    assert model(second, 1) == model(whole)
    # The receipts lead to the best checkpoint, from which training goes on as it did.
    assert verify.main([str(whole)]) == 0
    # A prediction is by the exported model, which is the best one; the last one says otherwise.
    (tmp_path / "digit.jpg").write_bytes(jpeg(1, 28, 28))
    weights = whole / "attempts/r0/model-0001.params"
    said = []
    for content in (weights.read_bytes(), (whole / "model-0003.params").read_bytes()):
        weights.write_bytes(content)
        capsys.readouterr()
        given = [str(tmp_path / "digit.jpg"), "--model", str(whole), "--output", "json"]
        assert predict.main(given) == 0
        said.append(capsys.readouterr().out)
    assert said[0] != said[1]
