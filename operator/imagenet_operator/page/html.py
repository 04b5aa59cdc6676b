"""Pieces of HTML: every text that is not ours passes `text`.

A class or file name may hold anything: tags, newlines, controls of the writing direction. Tags are
escaped, controls become visible, and each name is isolated from the direction of its neighbours.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

TEXT_MAXIMUM = 300
"""Characters of a name."""
MESSAGE_MAXIMUM = 4000
ROWS_MAXIMUM = 2000
"""Rows of a table."""

_LINE = 30
"""Characters of a value that fit beside another pair."""
_WIDE = ' class="wide"'
_TAG = re.compile("<[^>]*>")

_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_DIRECTION = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_HIDDEN = frozenset(("Cc", "Cs", "Co", "Cn", "Zl", "Zp"))


def visible(value: str, most: int = TEXT_MAXIMUM) -> str:
    """Return a text of one line, with control characters as escapes of JSON."""
    shown = value if len(value) <= most else f"{value[: most - 1]}…"
    return "".join(
        _SHORT.get(one) or f"\\u{ord(one):04x}"
        if one in _DIRECTION or unicodedata.category(one) in _HIDDEN
        else one
        for one in shown
    )


def text(value: str, most: int = TEXT_MAXIMUM) -> str:
    """Return a text as HTML, also for the value of an attribute."""
    return html.escape(visible(value, most))


def name(value: str) -> str:
    """Return a name as HTML, isolated from the direction of the words around it."""
    return f"<bdi>{text(value)}</bdi>" if value else ""


def message(value: str) -> str:
    """Return a message of several lines as HTML."""
    lines = value[:MESSAGE_MAXIMUM].strip().splitlines()
    return "<br>".join(text(line, MESSAGE_MAXIMUM) for line in lines)


def paragraph(content: str) -> str:
    """Return a paragraph of HTML."""
    return f"<p>{content}</p>"


@dataclass(frozen=True)
class Column:
    """A column of a table: its heading, and whether it has numbers."""

    heading: str
    is_number: bool = False


def table(
    caption: str,
    columns: Sequence[Column],
    rows: Sequence[Sequence[str]],
    *,
    filtered: bool = False,
    more: str = "",
) -> str:
    """Return a table in a box that scrolls; the cells are HTML, the first of a row is its heading.

    Columns whose cells are all empty are left out. `more` says where the rows beyond `ROWS_MAXIMUM`
    are.
    """
    filled = [
        place for place in range(len(columns)) if not place or any(row[place] for row in rows)
    ]
    columns = [columns[place] for place in filled]
    rows = [[row[place] for place in filled] for row in rows]
    head = "".join(
        f'<th scope="col"{_kind(column)}>{text(column.heading)}</th>' for column in columns
    )
    body = "\n".join(
        "<tr>"
        + f'<th scope="row"{_kind(columns[0])}>{row[0]}</th>'
        + "".join(
            f"<td{_kind(column)}>{cell}</td>"
            for column, cell in zip(columns[1:], row[1:], strict=True)
        )
        + "</tr>"
        for row in rows[:ROWS_MAXIMUM]
    )
    label = text(caption)
    # A field that filters belongs to the table that follows it; page.js adds what it does.
    field = (
        f'<p class="filter"><label>Filter the rows: <input type="search" autocomplete="off" '
        f'aria-label="Filter the rows of: {label}"></label> '
        f"<output>{len(rows[:ROWS_MAXIMUM]):,} rows</output></p>"
        if filtered
        else ""
    )
    rest = len(rows) - ROWS_MAXIMUM
    return (
        f'{field}<div class="scroll" tabindex="0" role="region" aria-label="{label}">'
        f"<table><caption>{label}</caption>\n<thead><tr>{head}</tr></thead>\n"
        f"<tbody>\n{body}\n</tbody></table></div>"
        + (paragraph(f"{rest:,} further rows are left out. {text(more)}") if rest > 0 else "")
    )


def _kind(column: Column) -> str:
    return ' class="number"' if column.is_number else ""


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    """Return names with values; the values are HTML, and pairs with an empty one are left out."""
    rows = []
    for key, value in pairs:
        if value:
            kind = _WIDE if len(_TAG.sub("", value)) > _LINE else ""
            rows.append(f"<div{kind}><dt>{text(key)}</dt><dd>{value}</dd></div>")
    return f"<dl>{''.join(rows)}</dl>"


def details(summary: str, content: str) -> str:
    """Return content that opens on request."""
    return f"<details><summary>{text(summary)}</summary>{content}</details>"


def share(value: float) -> str:
    """Return a fraction of 1 as a percentage."""
    return f"{100 * value:.1f} %"


def duration(seconds: float) -> str:
    """Return a duration in its two largest units."""
    minutes = round(seconds) // 60
    if minutes >= 60:
        return f"{minutes // 60:,} h {minutes % 60} min"
    return f"{minutes} min {round(seconds) % 60} s" if minutes else f"{seconds:.1f} s"


def time(moment: datetime | None) -> str:
    """Return a time as an element, in UTC; empty without one."""
    if moment is None:
        return ""
    moment = moment.astimezone(UTC)
    return f'<time datetime="{moment.isoformat()}">{moment:%Y-%m-%d %H:%M:%S} UTC</time>'
