"""Every kind of source is registered on both sides, and nothing else compares with its name."""

import re

from imagenet_spec.resource import dataset_status
from imagenet_spec.resource.sources import SOURCES
from imagenet_workloads.prepare.layouts import decide as decisions
from imagenet_workloads.prepare.sources.kinds import KINDS
from support.pod_subset import REPOSITORY

PACKAGES = (
    REPOSITORY / "operator" / "imagenet_operator",
    REPOSITORY / "workloads" / "imagenet_workloads",
)
# The stores give the bytes of the sources, and name the field of the cache in their messages.
FOLDERS = {"sources", "stores"}


def test_every_kind_is_registered_on_both_sides() -> None:
    assert sorted(SOURCES) == sorted(kind.name for kind in KINDS)


def test_what_index_counts_besides_images_is_called_so() -> None:
    assert set(dataset_status.NOT_IMAGES) == {decisions.HIDDEN.name, decisions.UNLISTED.name}


def test_nothing_else_asks_for_a_kind() -> None:
    named = re.compile(rf"\bsource\.({'|'.join(SOURCES)})\b")
    found = {
        str(file.relative_to(REPOSITORY))
        for package in PACKAGES
        for file in package.rglob("*.py")
        if not FOLDERS & {*file.relative_to(package).parts} and named.search(file.read_text())
    }
    assert found == set()
