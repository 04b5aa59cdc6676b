"""The table of a sweep: text, CSV and Markdown.

The CSV has plain numbers, for `imagenet-plot --scaling`. Text and Markdown have rounded ones.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

from imagenet_operator.scaling.speedup import Row

COLUMNS = ("strategy", "workers", "seconds", "images_per_second", "speedup", "efficiency", "top1")
"""The columns of the CSV, and the keys of a point in JSON."""

HEADS = ("strategy", "workers", "time, s", "images/s", "speedup", "efficiency", "top-1")
"""The headings of text and Markdown."""

_NOTHING = "-"


def record(row: Row) -> dict[str, Any]:
    """Return the plain values of a row by column; None if not known."""
    item = row.measured
    return {
        "strategy": item.strategy,
        "workers": item.workers,
        "seconds": item.seconds,
        "images_per_second": _rounded(item.images_per_second, 2),
        "speedup": _rounded(row.speedup, 4),
        "efficiency": _rounded(row.efficiency, 4),
        "top1": _rounded(item.top1, 4),
    }


def as_csv(rows: Sequence[Row]) -> str:
    """Return the table as CSV; unknown values are empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(record(row) for row in rows)
    return text.getvalue()


def as_text(rows: Sequence[Row]) -> str:
    """Return the table for a terminal."""
    lines = [HEADS, *map(_cells, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            # Names are left-aligned, numbers right-aligned.
            cell.ljust(width) if number == 0 else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    )


def as_markdown(rows: Sequence[Row]) -> str:
    """Return the table for a README."""
    rule = ("---", *("---:" for _ in HEADS[1:]))
    lines = [HEADS, rule, *map(_cells, rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cells(row: Row) -> tuple[str, ...]:
    item = row.measured
    return (
        item.strategy,
        str(item.workers),
        f"{item.seconds:.0f}",
        _shown(item.images_per_second, ",.0f"),
        _shown(row.speedup, ".2f"),
        _shown(row.efficiency, ".0%"),
        _shown(item.top1, ".4f"),
    )


def _shown(value: float | None, form: str) -> str:
    return _NOTHING if value is None else format(value, form)


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)
