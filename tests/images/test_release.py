"""`make release`: what a release consists of, all of one version."""

from __future__ import annotations

import hashlib
import json
import subprocess
import tarfile
import zipfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml

from imagenet_spec.load import load
from support.chart import REPOSITORY

VERSION = version("imagenet-operator")
# The environment that runs the tests is the one that builds.
MAKE = ("make", "--assume-old=.venv/.installed", "release")


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("release") / "dist"
    settings = (f"DIST={folder}", "IMAGE_PREFIX=registry.example.com/team/")
    subprocess.run([*MAKE, *settings], cwd=REPOSITORY, check=True, capture_output=True)
    return folder


def test_every_file_is_of_this_version(dist: Path) -> None:
    assert sorted(path.name for path in dist.iterdir()) == [
        "SHA256SUMS",
        f"imagenet-operator-{VERSION}.tgz",
        f"imagenet_operator-{VERSION}-py3-none-any.whl",
        f"imagenet_spec-{VERSION}-py3-none-any.whl",
        f"imagenet_workloads-{VERSION}-py3-none-any.whl",
        "names.txt",
    ]


def test_the_checksums_are_those_of_the_files(dist: Path) -> None:
    lines = (line.split("  ") for line in (dist / "SHA256SUMS").read_text().splitlines())
    sums = {name: digest for digest, name in lines}
    files = {path.name for path in dist.iterdir()} - {"SHA256SUMS"}
    assert sums == {name: hashlib.sha256((dist / name).read_bytes()).hexdigest() for name in files}


@pytest.mark.parametrize(
    ("package", "program"),
    [("imagenet_operator", "imagenetctl"), ("imagenet_workloads", "imagenet-train")],
)
def test_a_wheel_has_its_programs(dist: Path, package: str, program: str) -> None:
    with zipfile.ZipFile(dist / f"{package}-{VERSION}-py3-none-any.whl") as wheel:
        scripts = wheel.read(f"{package}-{VERSION}.dist-info/entry_points.txt").decode()
        assert f"{package}/__init__.py" in wheel.namelist()
    assert f"{program} = {package}." in scripts


def test_the_operator_s_wheel_has_the_page_and_the_list_of_its_library(dist: Path) -> None:
    source = REPOSITORY / "operator"
    files = (path for path in source.glob("imagenet_operator/page/**/*") if path.is_file())
    with zipfile.ZipFile(dist / f"imagenet_operator-{VERSION}-py3-none-any.whl") as wheel:
        names = set(wheel.namelist())
        listed = wheel.read(f"imagenet_operator-{VERSION}.dist-info/sboms/uplot.cdx.json")
    assert {str(path.relative_to(source)) for path in files if path.suffix != ".pyc"} <= names
    assert json.loads(listed)["components"][0]["name"] == "uplot"


def test_the_chart_brings_the_definition_of_the_resource(dist: Path) -> None:
    with tarfile.open(dist / f"imagenet-operator-{VERSION}.tgz") as chart:
        description = chart.extractfile("imagenet-operator/Chart.yaml")
        definition = chart.extractfile("imagenet-operator/files/imagenetjobs.yaml")
        assert description is not None and definition is not None
        assert yaml.safe_load(description)["version"] == VERSION
        assert yaml.safe_load(definition)["kind"] == "CustomResourceDefinition"


def test_the_names_are_the_chart_and_all_images_that_it_or_a_manifest_uses(dist: Path) -> None:
    chart, *images = (dist / "names.txt").read_text().splitlines()
    assert chart == f"oci://registry.example.com/team/charts/imagenet-operator:{VERSION}"
    values = yaml.safe_load((REPOSITORY / "charts/imagenet-operator/values.yaml").read_text())
    used = {*repositories(values), "imagenet-workloads-r"}
    assert set(images) == {
        f"registry.example.com/team/{repository}:{VERSION}" for repository in used
    }
    (job,) = load(REPOSITORY / "examples" / "r" / "alexnet-digits.yaml")
    assert job["spec"]["training"]["image"] == f"imagenet-workloads-r:{VERSION}"


def repositories(value: object) -> Iterator[str]:
    """Find the names of images in the chart's values."""
    for name, part in value.items() if isinstance(value, dict) else ():
        if name == "repository":
            yield part
        yield from repositories(part)


def test_a_release_without_a_registry_is_refused_in_one_line(tmp_path: Path) -> None:
    settings = (f"DIST={tmp_path}/dist", "IMAGE_PREFIX=")
    finished = subprocess.run(
        [*MAKE, *settings], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert finished.returncode != 0
    assert "type: make release IMAGE_PREFIX=" in finished.stdout
    assert not (tmp_path / "dist").exists()
