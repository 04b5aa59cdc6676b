"""Every link between the pages leads to a file, and to a heading of it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from support.pod_subset import REPOSITORY

LINK = re.compile(r"\]\(([^)\s]+)\)")
ELSEWHERE = ("https:", "http:", "mailto:")


def pages() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=REPOSITORY,
        check=True,
        capture_output=True,
        text=True,
    )
    return [REPOSITORY / name for name in listed.stdout.splitlines()]


def text_of(page: Path) -> str:
    """A page without its blocks of code."""
    return re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", text_of(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_every_link_leads_somewhere(page: Path) -> None:
    broken = []
    for link in LINK.findall(text_of(page)):
        if link.startswith(ELSEWHERE):
            continue
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


def test_the_indexes_list_every_page_once() -> None:
    """They are the navigation of the site, in which a link with an anchor is no entry."""
    docs = REPOSITORY / "docs"
    listed = [
        index.parent / link
        for index in docs.rglob("README.md")
        for link in LINK.findall(index.read_text())
        if link.endswith(".md") and not link.startswith("../")
    ]
    assert sorted(listed) == sorted(set(docs.rglob("*.md")) - {docs / "README.md"})
