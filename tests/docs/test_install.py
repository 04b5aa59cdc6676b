"""The commands and settings of docs/install.md and docs/images.md exist."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from support import chart

DOCS = chart.REPOSITORY / "docs"
INSTALL = (DOCS / "install.md").read_text()
IMAGES = (DOCS / "images.md").read_text()
VALUES = yaml.safe_load((chart.FOLDER / "values.yaml").read_text())

# `registry`, `pods.user`, `crds.install: false`, as in the page.
_VALUE = re.compile(r"`([a-z][A-Za-z]*(?:\.[a-z][A-Za-z]*)*)(?:: [^`]*)?`")


def _named_in(table: str) -> list[str]:
    rows = table.partition("| Value | Purpose |")[2].partition("\n\n")[0]
    cells = (row.split("|")[1] for row in rows.splitlines() if row.startswith("| `"))
    return [name for cell in cells for name in _VALUE.findall(cell)]


@pytest.mark.parametrize("value", _named_in(INSTALL))
def test_a_value_that_is_named_exists(value: str) -> None:
    place: Any = VALUES
    for name in value.split("."):
        assert name in place
        place = place[name]


def test_every_file_that_is_typed_exists() -> None:
    typed = re.findall(r"(?:examples|charts)/[\w./-]+", INSTALL)
    assert typed
    assert [path for path in typed if not (chart.REPOSITORY / path).exists()] == []


def test_every_example_for_a_cluster_is_in_the_table() -> None:
    listed = set(re.findall(r"\.\./examples/([\w-]+)\.yaml", INSTALL))
    there = {path.stem for path in (chart.REPOSITORY / "examples").glob("*.yaml")}
    # The other digits are for one machine: digits-kubernetes.yaml is the same job.
    local = {name for name in there if name.startswith("digits")} - {"digits-kubernetes"}
    assert listed == there - local


def test_every_image_is_described() -> None:
    for folder in (chart.REPOSITORY / "images").glob("*/Dockerfile"):
        assert f"| `imagenet-{folder.parent.name}` |" in IMAGES
