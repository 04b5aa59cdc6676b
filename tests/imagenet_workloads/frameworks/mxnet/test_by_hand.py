"""`imagenet-train` with the options of train_imagenet.py: folders of records, and --model."""

from pathlib import Path

import mxnet as mx
import pytest

from support.tiny_dataset import write_dataset
from support.training_cluster import train


def split(folder: Path) -> tuple[Path, Path]:
    """Two folders of record files and their indexes, without a dataset.json."""
    written = write_dataset(folder / "sealed", train=600, validation=100, shards=2).folder
    for name in ("train", "validation"):
        (folder / name).mkdir()
        for path in written.glob(f"{name}-*"):
            path.rename(folder / name / path.name)
    return folder / "train", folder / "validation"


@pytest.mark.costly
def test_folders_of_records_are_trained_into_a_model_of_a_new_folder(tmp_path: Path) -> None:
    training, validation = split(tmp_path)
    model = tmp_path / "model" / "of today" / "lenet"
    options = [
        *("--data-train", str(training), "--data-val", str(validation), "--model", str(model)),
        *("--num-classes", "10", "--num-examples", "600", "--output", str(tmp_path / "output")),
        *("--network", "lenet", "--image-shape", "3,28,28", "--batch-size", "32"),
        *("--num-epochs", "3", "--lr", "0.05", "--kv-store", "local"),
    ]
    ended = train(options)
    assert ended.returncode == 0, ended.stderr
    assert sorted(path.name for path in model.parent.iterdir()) == [
        *(f"lenet-{epoch:04}.params" for epoch in (1, 2, 3)),
        "lenet-symbol.json",
    ]
    # MXNet itself loads it.
    network, weights, _ = mx.model.load_checkpoint(str(model), 3)
    assert set(weights) <= set(network.list_arguments())
    log = (tmp_path / "output/attempts/r0/train.log").read_text()
    assert "epoch 3 validated" in log

    # It goes on from the files, as with train_imagenet.py.
    more = [*options, "--load-epoch", "3", "--num-epochs", "4"]
    more[more.index("--output") + 1] = str(tmp_path / "again")
    assert train(more).returncode == 0
    assert (model.parent / "lenet-0004.params").exists()


def test_a_folder_of_the_model_that_cannot_be_made_is_said_before_the_first_epoch(
    tmp_path: Path,
) -> None:
    training, _ = split(tmp_path)
    (tmp_path / "file").touch()
    options = [
        *("--data-train", str(training), "--model", str(tmp_path / "file" / "lenet")),
        *("--num-classes", "10", "--num-examples", "600", "--output", str(tmp_path / "output")),
        *("--network", "lenet", "--image-shape", "3,28,28", "--batch-size", "32"),
    ]
    ended = train(options)
    assert ended.returncode == 3
    assert f"cannot create {tmp_path / 'file'}" in ended.stderr
    assert "images/s" not in ended.stderr
