"""uPlot: the committed files are those of its release, and the list of content names them."""

from __future__ import annotations

import hashlib
import json
from importlib import resources
from typing import Any

FOLDER = resources.files("imagenet_operator.page") / "uplot"


def component() -> dict[str, Any]:
    document = json.loads((FOLDER / "uplot.cdx.json").read_text())
    assert document["bomFormat"] == "CycloneDX"
    (found,) = document["components"]
    assert isinstance(found, dict)
    return found


def test_every_file_has_its_checksum() -> None:
    files = {path.name: path.read_bytes() for path in FOLDER.iterdir()}
    del files["uplot.cdx.json"]
    listed = {one["name"]: one["hashes"][0]["content"] for one in component()["components"]}
    assert listed == {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}


def test_version_and_licence_are_those_of_the_files() -> None:
    found = component()
    assert found["purl"] == f"pkg:npm/uplot@{found['version']}"
    assert f"(v{found['version']})" in (FOLDER / "uPlot.iife.min.js").read_text()[:100]
    assert found["licenses"] == [{"license": {"id": "MIT"}}]
    assert (FOLDER / "LICENSE").read_text().startswith("The MIT License (MIT)")
