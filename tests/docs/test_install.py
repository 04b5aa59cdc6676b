"""The commands and settings of docs/install.md, docs/air-gapped.md and docs/images.md exist."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from imagenet_spec.resource.sources import Source
from support import chart

DOCS = chart.REPOSITORY / "docs"
INSTALL = (DOCS / "install.md").read_text()
IMAGES = (DOCS / "images.md").read_text()
AIR_GAPPED = (DOCS / "air-gapped.md").read_text()
VALUES = yaml.safe_load((chart.FOLDER / "values.yaml").read_text())

# `registry`, `pods.user`, `crds.install: false`, as in the page.
_VALUE = re.compile(r"`([a-z][A-Za-z]*(?:\.[a-z][A-Za-z]*)*)(?:: [^`]*)?`")


def _named_in(table: str) -> list[str]:
    rows = table.partition("| Value | Purpose |")[2].partition("\n\n")[0]
    cells = (row.split("|")[1] for row in rows.splitlines() if row.startswith("| `"))
    return [name for cell in cells for name in _VALUE.findall(cell)]


@pytest.mark.parametrize("value", [*_named_in(INSTALL), *_named_in(AIR_GAPPED)])
def test_a_value_that_is_named_exists(value: str) -> None:
    place: Any = VALUES
    for name in value.split("."):
        assert name in place
        place = place[name]


def test_every_file_that_is_typed_exists() -> None:
    typed = re.findall(r"(?:(?:examples|charts)/|-c constraints/)[\w./-]+", INSTALL + AIR_GAPPED)
    typed = [path.removeprefix("-c ") for path in typed]
    assert typed
    assert [path for path in typed if not (chart.REPOSITORY / path).exists()] == []


def test_every_example_for_a_cluster_is_in_the_table() -> None:
    listed = set(re.findall(r"\.\./examples/([\w-]+)\.yaml", INSTALL))
    there = {path.stem for path in (chart.REPOSITORY / "examples").glob("*.yaml")}
    # The other digits are for one machine: digits-kubernetes.yaml is the same job.
    local = {name for name in there if name.startswith("digits")} - {"digits-kubernetes"}
    assert listed == there - local


# Each place and layout of images, with words of the example's source.
DOORS = {
    "http": {"imagenet-http": "http:"},
    "s3": {"imagenet-s3": "key: "},
    "kaggle": {"imagenet-kaggle-competition": "competition: ", "kaggle-dataset": "dataset: owner"},
    "huggingFace": {"imagenet-hugging-face": "dataset: ILSVRC/imagenet-1k"},
    "a tree of torchvision": {"imagenet-tree": "imagenet/train/n01440764/"},
    "Kaggle's tree": {"imagenet-kaggle": "imagenet/ILSVRC/Data/CLS-LOC/train/"},
    "the development kit": {"imagenet-archives": "ILSVRC2012_devkit_t12/data/"},
    "listed archives": {"imagenet-s3-keys": "keys:"},
    "bounding boxes": {"imagenet-s3": "boundingBoxes: ["},
    "smaller images of a prepared dataset": {"resize": "resize: 256"},
    "a prefix of archives": {"imagenet-prefix": "prefix: archives"},
    "WebDataset": {"imagenet-webdataset": "000017.cls", "imagenet-shards-http": "names:"},
    "Parquet": {"imagenet-parquet": ".parquet"},
    "CIFAR": {"cifar10": "cifar-10-binary.tar.gz", "cifar100": "cifar-100-binary.tar.gz"},
    "one compressed archive": {"imagenet-winter21": "winter21_whole.tar.gz"},
    "publish": {"imagenet-publish": "publish:"},
    "prepared": {"imagenet-published": "prepared:", "imagenet-published-http": "prepared:"},
    "prepared on a claim": {"imagenet-snapshot": "claimName: imagenet-restored"},
    "synthetic": {"synthetic": "synthetic:"},
}


@pytest.mark.parametrize("door", DOORS)
def test_every_door_has_an_example(door: str) -> None:
    for name, words in DOORS[door].items():
        assert words in (chart.REPOSITORY / "examples" / f"{name}.yaml").read_text()


def test_every_kind_of_source_has_a_door() -> None:
    kinds = set(Source.model_fields) - {*Source.beside, "volume"}
    assert {Source.model_fields[name].alias or name for name in kinds} <= set(DOORS)


def test_every_image_is_described() -> None:
    for folder in (chart.REPOSITORY / "images").glob("*/Dockerfile"):
        assert f"| `imagenet-{folder.parent.name}` |" in IMAGES
