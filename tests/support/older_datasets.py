"""Datasets of TFRecord as versions before its index wrote them."""

import json
from pathlib import Path

from imagenet_workloads.dataset import FILE_NAME, read_dataset


def without_index(dataset: Path, shard: str) -> None:
    """Take the index of a packed shard away, of which its sidecar then says nothing."""
    (dataset / f"{shard}.idx").unlink()
    sidecar = dataset / f"{shard}.json"
    document = json.loads(sidecar.read_text())
    del document["indexSha256"]
    sidecar.write_text(json.dumps(document) + "\n")


def make_older(dataset: Path) -> None:
    """Take the indexes of a sealed dataset away."""
    for index in sorted(dataset.glob("*.idx")):
        without_index(dataset, index.stem)
    older = read_dataset(dataset).without_indexes()
    (dataset / FILE_NAME).write_text(older.to_json())
