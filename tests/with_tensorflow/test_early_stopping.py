"""One process stops early, and goes on after a kill before a validation."""

from pathlib import Path

from support.stopped_early import arguments, assert_stopped, cut, model
from support.tiny_records import write_dataset
from support.training_cluster import train

IDENTITY = {"IMAGENET_JOB_UID": "uid", "IMAGENET_SPEC_HASH": "hash"}


def test_killed_between_checkpoint_and_validation(tmp_path: Path) -> None:
    dataset = write_dataset(tmp_path / "data", 200, 51, shards=1)

    def run(output: Path, attempt: int) -> None:
        given = ["--framework", "TensorFlow", "--batch-size", "16", *arguments(dataset, output)]
        ended = train(given, **IDENTITY, IMAGENET_ATTEMPT=str(attempt))
        assert ended.returncode == 0, ended.stderr

    whole, second = tmp_path / "whole", tmp_path / "second"
    run(whole, 0)
    assert_stopped(whole)
    cut(whole, second, 2)
    run(second, 1)
    assert_stopped(second, 1, validated=(2, 3))
    assert model(second, 1) == model(whole)
