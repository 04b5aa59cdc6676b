"""The site of docs/ as `make docs` builds it, and in Debian's chromium: what it shows and finds."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from markdown_it import MarkdownIt
from playwright.sync_api import Browser, Page

from support.pod_subset import REPOSITORY
from support.processes import DEADLINE_SECONDS

DOCS = REPOSITORY / "docs"
# Before any program of a page.
WATCH = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) =>
  window.violations.push(`${event.violatedDirective} ${event.blockedURI}`));
"""
QUESTIONS = {
    "download the model": "jobs/",
    "follow a log": "jobs/",
    "spot": "spot-nodes/",
    "H100": "h100/",
    "TensorBoard": "tracking/",
    "pretrained weights": "pretrained-weights/",
    "air-gapped": "air-gapped/",
    "costs": "costs/",
    "upload": "jobs/",
    "notebook": "notebook/",
}


def build(root: Path, into: Path) -> subprocess.CompletedProcess[str]:
    """Build the site of a tree as `make docs` does."""
    program = REPOSITORY / ".venv-docs" / "bin" / "mkdocs"
    assert program.exists(), "mkdocs is missing; type: make install-docs"
    return subprocess.run(
        [program, "build", "--strict", "--site-dir", into],
        cwd=root,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    built = build(REPOSITORY, folder)
    assert built.returncode == 0, built.stdout
    return folder


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


class Elements(HTMLParser):
    """The elements of a document by which a reader sees its form, and what it loads."""

    SHOWN = ("h1", "h2", "h3", "h4", "ol", "ul", "li", "table", "tr", "td", "pre", "img", "strong")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.shown: Counter[str] = Counter()
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in self.SHOWN:
            self.shown[tag] += 1
        for name, value in attrs:
            if name in ("src", "srcset", "action") or (tag == "link" and name == "href"):
                self.loaded.append(value or "")


def of_site(site: Path, page: Path) -> Path:
    """Return the file of the site that shows a page of the repository."""
    place = page.relative_to(DOCS) if page.is_relative_to(DOCS) else page.relative_to(REPOSITORY)
    folder = place.parent if place.name == "README.md" else place.with_suffix("")
    return site / ("" if page.is_relative_to(DOCS) else "tree") / folder / "index.html"


def test_each_page_has_the_form_that_the_repository_shows(site: Path) -> None:
    pages = [*DOCS.rglob("*.md"), REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md"]
    reader = MarkdownIt("gfm-like", {"linkify": False})
    different = {}
    for page in pages:
        article = re.search("<article.*</article>", of_site(site, page).read_text(), re.DOTALL)
        assert article is not None
        shown = Elements(article[0]).shown
        expected = Elements(reader.render(page.read_text())).shown
        if shown != expected:
            different[str(page)] = (shown - expected, expected - shown)
    assert different == {}
    assert len(pages) > 70


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    loaded = {
        reference for page in pages for reference in Elements(page.read_text()).loaded if reference
    }
    assert "assets/site.css" in loaded
    assert [reference for reference in loaded if re.match(r"\w+:|//", reference)] == []
    styles = [path.read_text() for path in site.rglob("*.css")]
    assert [found for text in styles for found in re.findall(r"url\((?!['\"]?data:)", text)] == []


def test_a_file_beside_docs_is_shown_as_it_is(site: Path) -> None:
    page = (site / "tree/examples/cifar10.yaml/index.html").read_text()
    code = "".join(re.findall(r"(?s)<pre.*?</pre>", page))
    words = re.findall(r"\w+", html.unescape(re.sub(r"<[^>]+>", "", code)))
    assert words == re.findall(r"\w+", (REPOSITORY / "examples/cifar10.yaml").read_text())
    assert 'href="../tree/examples/cifar10.yaml/"' in (site / "sources/index.html").read_text()


def write_tree(root: Path, pages: dict[str, str]) -> None:
    """Write a tree that has what builds the site, and these pages."""
    shutil.copytree(REPOSITORY / "website", root / "website")
    shutil.copy(REPOSITORY / "mkdocs.yml", root)
    for name, text in pages.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text)


def test_a_notebook_is_shown_by_its_cells(tmp_path: Path) -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# Cells\n", "[One](../docs/one.md) of them."]},
        {"cell_type": "code", "source": ["sums[0](docs/one.md)"]},
    ]
    pages = {
        "docs/README.md": "# Documentation\n\n## First\n- [One](one.md)\n",
        "docs/one.md": "# One\n[there](../examples/one.ipynb)\n",
        "examples/one.ipynb": json.dumps({"cells": cells}),
    }
    write_tree(tmp_path, pages)
    built = build(tmp_path, tmp_path / "site")
    assert built.returncode == 0, built.stdout
    shown = (tmp_path / "site/tree/examples/one.ipynb/index.html").read_text()
    assert '<a href="../../../one/">One</a> of them' in shown
    assert "sums[0](docs/one.md)" in re.sub("<[^>]+>", "", shown)


def test_a_link_to_nothing_fails_the_build(tmp_path: Path) -> None:
    index = "# Documentation\n\n## First\n- [One](one.md), [elsewhere](../gone.py)\n"
    one = "# One\n[there](gone.md), [below](README.md#gone)\n"
    pages = {"docs/README.md": index, "docs/one.md": one, "docs/two.md": "# Two\n"}
    write_tree(tmp_path, pages)
    built = build(tmp_path, tmp_path / "site")
    assert built.returncode == 1
    for missing in ("gone.md", "gone.py", "README.md#gone", "two.md"):
        assert missing in built.stdout


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    """A page in a browser, from which nothing was asked outside the site."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(1000 * DEADLINE_SECONDS)
    context.add_init_script(WATCH)
    opened = context.new_page()
    asked: list[str] = []
    opened.on("request", lambda request: asked.append(request.url))
    opened.on("pageerror", lambda error: asked.append(str(error)))
    yield opened
    assert asked
    assert [url for url in asked if not url.startswith((address, "data:", "blob:"))] == []
    assert opened.evaluate("window.violations") == []
    context.close()


def test_the_search_finds_each_page_among_the_first_three(page: Page, address: str) -> None:
    page.goto(address)
    page.keyboard.press("/")
    page.get_by_text("Type to start searching").wait_for()
    query = page.locator("[data-md-component=search-query]")
    items = page.locator(".md-search-result__item")
    found = {}
    for question in QUESTIONS:
        query.fill("")
        items.first.wait_for(state="detached")
        query.press_sequentially(question)
        # A result's address has the words of its query, which are fewer while it is typed.
        last = re.split("[ -]", question.lower())[-1]
        complete = items.locator(f'[href*="={last}"], [href*="+{last}"]')
        complete.first.wait_for()
        links = [items.nth(number).locator("a").first for number in range(min(3, items.count()))]
        hrefs = [link.evaluate("(link) => link.href") for link in links]
        found[question] = [href.removeprefix(address).partition("?")[0] for href in hrefs]
    missed = {asked: places for asked, places in found.items() if QUESTIONS[asked] not in places}
    assert missed == {}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_diagrams_are_drawn(page: Page, address: str, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)
    for place in ("tree/", "architecture/"):
        page.goto(address + place)
        drawn = page.locator("div.mermaid")
        drawn.wait_for()
        assert (drawn.bounding_box() or {})["height"] > 100
        assert page.evaluate("document.body.dataset.mdColorScheme") == (
            "slate" if scheme == "dark" else "default"
        )


@pytest.mark.parametrize("place", ["", "reference/source/", "benchmarks/", "tree/"])
def test_a_telephone_scrolls_no_page_sideways(page: Page, address: str, place: str) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto(address + place)
    assert page.evaluate("document.documentElement.scrollWidth") == 390


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_and_links_have_contrast(page: Page, address: str, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)
    rules = ["color-contrast", "link-in-text-block"]
    page.goto(address + "costs/")
    found = Axe().run(page, options={"runOnly": rules})
    assert found.violations_count == 0, found.generate_report()
