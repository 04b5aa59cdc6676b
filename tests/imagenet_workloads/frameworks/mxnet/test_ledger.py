"""Real workers, killed and resumed with another number: the ledger has every record once."""

import json
from pathlib import Path

import mxnet as mx
import pytest

from imagenet_workloads.commands.ledger import main
from support.tiny_dataset import write_dataset
from support.training_cluster import TrainingCluster, train

IMAGES = 90
JOB = {"IMAGENET_JOB_UID": "uid", "IMAGENET_SPEC_HASH": "hash"}


def exchange_two_records(dataset: Path) -> None:
    """Put a record in the place of another one, as a wrong reader would have trained it."""
    (record, *_) = sorted(dataset.glob("train-*.rec"))
    index = record.with_suffix(".idx")
    reader = mx.recordio.MXIndexedRecordIO(str(index), str(record), "r")
    records = [reader.read_idx(key) for key in reader.keys]
    writer = mx.recordio.MXIndexedRecordIO(str(index), str(record), "w")
    for key, content in enumerate([records[1], records[0], *records[2:]]):
        writer.write_idx(key, content)
    writer.close()


def test_another_number_of_workers_goes_on_with_the_missing_images(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dataset, output = tmp_path / "data", tmp_path / "out"
    write_dataset(dataset, train=IMAGES, validation=0, shards=2)
    arguments = ["--dataset", str(dataset), "--output", str(output), "--network", "mlp"]
    arguments += ["--image-shape", "3,28,28", "--batch-size", "4", "--data-nthreads", "1"]
    arguments += ["--checkpoint-every-seconds", "0.000001", "--disp-batches", "1"]
    first = [*arguments, "--num-epochs", "100000"]
    environment = JOB | {"IMAGENET_ATTEMPT": "0"}
    with TrainingCluster(
        tmp_path / "members", "dist_sync", first, environment=environment
    ) as cluster:
        rank_0 = cluster.worker_of_rank(0)
        # The checkpoint of the batch before it is complete.
        cluster.wait_for_line(rank_0, "epoch 1 batch 4:")
        for member in cluster.members.values():
            member.kill()
    epochs = 1 + max(
        json.loads(path.read_text())["epoch"]
        # Not those of a checkpoint in progress, which has a hidden name.
        for path in output.glob("attempts/*/checkpoints/epoch-*/manifest.json")
    )
    ended = train([*arguments, "--num-epochs", str(epochs)], **JOB, IMAGENET_ATTEMPT="1")
    assert ended.returncode == 0, ended.stderr

    assert main([str(output), "--dataset", str(dataset), "--output", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [attempt["workers"] for attempt in found["attempts"]] == [2, 1]
    assert found["attempts"][1]["image"] % 8 in (0, IMAGES % 8)
    assert [epoch["trained"] for epoch in found["epochs"]] == [IMAGES] * epochs

    exchange_two_records(dataset)
    assert main([str(output), "--dataset", str(dataset)]) == 1
    assert capsys.readouterr().out.count("wrong: position") == 2 * epochs
