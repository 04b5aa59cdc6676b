"""The list of what an image contains."""

from __future__ import annotations

import json
from pathlib import Path

import sbom

LINES = ["ii \tlibstdc++6\t12.2.0-14+deb12u1\tamd64", "rc \tnano\t7.2-1\tamd64"]


def test_debian_s_installed_packages_are_components() -> None:
    (package,) = sbom.of_debian(LINES)
    purl = "pkg:deb/debian/libstdc%2B%2B6@12.2.0-14%2Bdeb12u1?arch=amd64"
    assert package == {
        "bom-ref": purl,
        "type": "library",
        "name": "libstdc++6",
        "version": "12.2.0-14+deb12u1",
        "purl": purl,
    }


def test_environments_and_debian_s_packages_become_one_list() -> None:
    pip, numpy = ({"bom-ref": name, "name": name} for name in ("pip==1", "numpy==2"))
    documents = [
        {"bomFormat": "CycloneDX", "components": [numpy]},
        {"bomFormat": "CycloneDX", "components": [pip, numpy]},
    ]
    packages = sbom.of_debian(LINES)
    assert sbom.merged(documents, packages) == {
        "bomFormat": "CycloneDX",
        "components": [numpy, pip, *packages],
    }


def test_what_a_wheel_brings_of_other_projects_is_a_component(tmp_path: Path) -> None:
    folder = tmp_path / "imagenet_operator-1.dist-info" / "sboms"
    folder.mkdir(parents=True)
    uplot = {"bom-ref": "pkg:npm/uplot@1", "name": "uplot"}
    (folder / "uplot.cdx.json").write_text(json.dumps({"components": [uplot]}))
    (tmp_path / "plain-1.dist-info").mkdir()
    assert sbom.of_wheels(tmp_path) == [uplot]
