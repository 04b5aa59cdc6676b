"""What mkdocs cannot know of the tree: the order of the pages, and the files that they link to.

`make docs` calls these functions while it builds the site; mkdocs.yml names them. The pages are
written for a reader of the repository. Their navigation is docs/README.md, and their links to files
beside docs lead to pages below tree/, which are made here.
"""

from __future__ import annotations

import json
import posixpath
import re
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
INDEX = "README.md"
TREE = "tree/"
"""The pages of the site that show files beside docs."""
NOTEBOOK = ".ipynb"
# Blocks and spans of code, in which nothing is a link; and links with their text.
_LINK = re.compile(
    r"^```.*?^```$|`[^`\n]*`|\[(?P<text>(?:[^\[\]]|\[[^\[\]]*\])*)\]\((?P<target>[^)\s]+)\)",
    re.MULTILINE | re.DOTALL,
)


def on_config(config: MkDocsConfig) -> None:
    """Make the navigation from the index of the pages: its sections, and their pages in order.

    The pages of a folder that has an index, such as docs/decisions, are below the folder's entry.
    """
    config.nav = [{"Home": INDEX}]
    for part in (DOCS / INDEX).read_text("utf-8").split("\n## ")[1:]:
        entries: list[Any] = []
        for link in _LINK.finditer(part):
            # A target with an anchor is a second link to its page.
            if not (link["target"] or "").endswith(".md"):
                continue
            path = DOCS / link["target"]
            name = _shown(path) or link["target"]
            if path.name != INDEX:
                entries.append(name)
            elif name.startswith(TREE):
                entries.append({link["text"]: name})
            else:
                targets = (link["target"] or "" for link in _LINK.finditer(path.read_text("utf-8")))
                below = [path.parent / target for target in targets if target.endswith(".md")]
                entries.append({link["text"]: [name, *map(_shown, below)]})
        config.nav.append({part.partition("\n")[0]: entries})


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Add the files beside docs that pages link to, and the program that draws diagrams."""
    pages = [DOCS / file.src_uri for file in files.documentation_pages()]
    for page in pages:
        for link in _LINK.finditer(page.read_text("utf-8")):
            path = _path(page, link["target"])
            name = path and _shown(path)
            if path is None or name is None or files.get_file_from_path(name):
                continue
            # It has no place in the navigation, unless the index names it.
            level = InclusionLevel.NOT_IN_NAV
            if path.suffix == ".md":
                file = File.generated(config, name, abs_src_path=str(path), inclusion=level)
                pages.append(path)
            else:
                file = File.generated(config, name, content=_content(path), inclusion=level)
            files.append(file)
    drawing = distribution("mermaidx").locate_file("mermaidx/assets/mermaid.js")
    files.append(File.generated(config, "assets/mermaid.js", abs_src_path=str(drawing)))


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let the links of a page lead to pages of the site; a folder without a page becomes text.

    mkdocs itself reports what leads nowhere: `make docs` then fails.
    """
    place = page.file.src_uri
    path = ROOT / place.removeprefix(TREE) if place.startswith(TREE) else DOCS / place
    if place.startswith(TREE) and place != TREE + INDEX:
        page.meta["search"] = {"exclude": True}
    for beginning, boost in config.extra["boost"].items():
        if place.startswith(beginning):
            page.meta["search"] = {"boost": boost}
    if not path.is_file():
        path = path.with_suffix("")
        if path.suffix != NOTEBOOK:
            return markdown

    def in_site(link: re.Match[str]) -> str:
        if (linked := _path(path, link["target"])) is None:
            return link[0]
        if name := _shown(linked):
            _, hash_sign, anchor = link["target"].partition("#")
            target = posixpath.relpath(name, posixpath.dirname(place) or ".")
            return f"[{link['text']}]({target}{hash_sign}{anchor})"
        return link["text"] if linked.is_dir() else link[0]

    return _LINK.sub(in_site, markdown)


def _content(path: Path) -> str:
    """Return the Markdown that shows a file: a block of code, or the cells of a notebook."""
    text = path.read_text("utf-8")
    if path.suffix != NOTEBOOK:
        return f"# {path.relative_to(ROOT)}\n\n````{path.suffix[1:] or 'text'}\n{text}\n````\n"
    cells = [(cell["cell_type"], "".join(cell["source"])) for cell in json.loads(text)["cells"]]
    return "\n\n".join(
        source if kind == "markdown" else f"```python\n{source}\n```" for kind, source in cells
    )


def _path(page: Path, target: str | None) -> Path | None:
    """Return the file of the tree that a link names, or a folder; None for any other link."""
    name = (target or "").partition("#")[0]
    if not name or ":" in name:
        return None
    path = (page.parent / name).resolve()
    return path / INDEX if (path / INDEX).is_file() else path


def _shown(path: Path) -> str | None:
    """Return the name in the site of a file of the tree; None if the site cannot show it."""
    path = path.resolve()
    if not path.is_file():
        return None
    if path.is_relative_to(DOCS):
        return path.relative_to(DOCS).as_posix()
    name = TREE + path.relative_to(ROOT).as_posix()
    return name if path.suffix == ".md" else f"{name}.md"
