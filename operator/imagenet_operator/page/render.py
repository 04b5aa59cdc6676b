"""The document of a page: the template with its style, its programs, its data and its sections.

The Content-Security-Policy lets the document's own blocks in by their hashes, and nothing else:
whatever a name of the job became, it could load and run nothing.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from functools import cache
from html import escape
from importlib import resources
from string import Template
from typing import Any

from imagenet_operator.page import html
from imagenet_operator.page.contents import Contents
from imagenet_operator.page.sections import Section, sections
from imagenet_operator.page.series import Curves, account_of
from imagenet_spec.names import VERSION

CHARTS = "uplot"
"""The folder of the charting library, which comes from npm as it is; uplot.cdx.json names it."""


def page(contents: Contents) -> str:
    """Return the document."""
    job = contents.job
    curves = Curves(contents.runs, account_of(job))
    parts = sections(contents, curves)
    styles = [asset(f"{CHARTS}/uPlot.min.css"), asset("page.css")]
    scripts = [asset(f"{CHARTS}/uPlot.iife.min.js"), asset("page.js")]
    return Template(asset("page.html")).substitute(
        policy=_policy(styles, scripts),
        title=html.text(f"{job.metadata.name}: {job.status.phase or 'new'}"),
        name=html.name(job.metadata.name),
        styles="\n".join(f"<style>{style}</style>" for style in styles),
        scripts="\n".join(f"<script>{script}</script>" for script in scripts),
        data=as_data(curves.document()),
        contents=links(parts),
        sections=written(parts),
        version=VERSION,
        licence=licence(),
    )


def links(parts: Sequence[Section]) -> str:
    """Return the items of a list that leads to sections."""
    return "".join(
        f'<li><a href="#{part.name}">{html.text(part.heading)}</a></li>' for part in parts
    )


def written(parts: Sequence[Section]) -> str:
    """Return sections with their headings."""
    return "\n".join(
        f'<section aria-labelledby="{part.name}"><h2 id="{part.name}">'
        f"{html.text(part.heading)}</h2>\n{part.content}</section>"
        for part in parts
    )


def licence() -> str:
    """Return the licence of the charting library, which opens on request."""
    return html.details("Licence of uPlot", f"<pre>{escape(asset(f'{CHARTS}/LICENSE'))}</pre>")


def as_data(document: Any) -> str:
    """Return JSON that ends no script element: each `<` is an escape of JSON."""
    dumped = json.dumps(document, separators=(",", ":"), allow_nan=False)
    return dumped.replace("<", "\\u003c")


@cache
def asset(name: str) -> str:
    """Return a file of this package."""
    return resources.files(__package__).joinpath(*name.split("/")).read_text(encoding="utf-8")


def _policy(styles: list[str], scripts: list[str]) -> str:
    return (
        f"default-src 'none'; script-src {_hashes(scripts)}; style-src {_hashes(styles)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _hashes(blocks: list[str]) -> str:
    digests = (hashlib.sha256(block.encode()).digest() for block in blocks)
    return " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
