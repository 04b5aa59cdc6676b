"""Datasets as versions before an index of TFRecord, and before lists of images, wrote them."""

import json
from pathlib import Path

from imagenet_workloads.dataset import FILE_NAME, read_dataset
from imagenet_workloads.records import image_list


def without_index(dataset: Path, shard: str) -> None:
    """Take the index of a packed shard away, of which its sidecar then says nothing."""
    (dataset / f"{shard}.idx").unlink()
    sidecar = dataset / f"{shard}.json"
    document = json.loads(sidecar.read_text())
    del document["indexSha256"]
    sidecar.write_text(json.dumps(document) + "\n")


def without_image_lists(dataset: Path) -> None:
    """Take the lists of images of a sealed dataset away."""
    for listing in sorted(dataset.glob(f"*{image_list.SUFFIX}")):
        listing.unlink()
        sidecar = dataset / f"{listing.name.removesuffix(image_list.SUFFIX)}.json"
        document = json.loads(sidecar.read_text())
        del document["imageListSha256"]
        sidecar.write_text(json.dumps(document) + "\n")
    description = dataset / FILE_NAME
    older = json.loads(description.read_text())
    for split in older["splits"].values():
        for shard in split["shards"]:
            del shard["imageList"]
    description.write_text(json.dumps(older, indent=2, ensure_ascii=False) + "\n")


def make_older(dataset: Path) -> None:
    """Take the indexes and the lists of images of a sealed dataset away."""
    without_image_lists(dataset)
    for index in sorted(dataset.glob("*.idx")):
        without_index(dataset, index.stem)
    older = read_dataset(dataset).without_additions()
    (dataset / FILE_NAME).write_text(older.to_json())
