"""The list of what an image contains."""

from __future__ import annotations

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
