"""docs/architecture.md and docs/security.md speak of files and ports that are there."""

import re

import pytest

from imagenet_operator.manifests import rendezvous
from imagenet_operator.manifests.settings import DEFAULTS
from support.pod_subset import REPOSITORY

DOCS = REPOSITORY / "docs"
PATH = re.compile(r"\b(?:spec|operator|workloads|tests|docs|charts|images|examples)/[\w./-]+\.\w+")
FOLDER = re.compile(r"\b(?:operator|workloads|tests|examples)/[\w/]+(?![\w./-])")
BARE = re.compile(r"(?<![\w/])(?:[a-z_]+/)*[a-z_]+\.py\b")
ARCHITECTURE = (DOCS / "architecture.md").read_text()


PAGES = ["architecture.md", "security.md", "add-a-strategy.md", "own-image.md"]


@pytest.mark.parametrize("page", PAGES)
def test_every_file_that_is_named_is_there(page: str) -> None:
    named = set(PATH.findall((DOCS / page).read_text().replace("\\", "")))
    assert named
    assert [path for path in sorted(named) if not (REPOSITORY / path).is_file()] == []


def test_every_file_of_the_drawing_is_named_below_it() -> None:
    drawing, _, text = ARCHITECTURE.partition("\n```\n\n")
    drawn = set(BARE.findall(drawing))
    assert drawn
    named = set(PATH.findall(text))
    assert [path for path in drawn if not any(name.endswith(f"/{path}") for name in named)] == []


def test_every_folder_that_a_strategy_is_part_of_is_there() -> None:
    page = (DOCS / "add-a-strategy.md").read_text()
    named = {path.rstrip("/.") for path in FOLDER.findall(page)}
    assert {"tests/corpus", "tests/imagenet_operator/manifests/strategies"} <= named
    assert [path for path in sorted(named) if not (REPOSITORY / path).exists()] == []


@pytest.mark.parametrize("package", ["spec", "operator", "workloads"])
def test_every_folder_is_in_the_tree(package: str) -> None:
    root = REPOSITORY / package / f"imagenet_{package}"
    below = {str(path.parent.relative_to(root)) for path in root.rglob("*.py")} - {"."}
    table = ARCHITECTURE.partition(f"| {package}/{root.name} |")[2].partition("\n\n")[0]
    named = set(re.findall(r"(?<=[| ])[a-z][a-z_]*(?:/[a-z_]+)?(?=[, ])", table))
    # Strategies of a framework are among the modules that its line names.
    missing = {folder for folder in below - named if not folder.endswith("/strategies")}
    assert {folder for folder in missing if f"| {folder}/" not in table} == set()


def test_the_ports_are_those_of_the_builders() -> None:
    text = (DOCS / "security.md").read_text()
    assert f"metrics, {DEFAULTS.metrics_port}" in text
    assert f"NAME-r0-server-0.NAME-r0 {rendezvous.MEMBER_PORT}" in text
    assert f"({DEFAULTS.user})" in text
