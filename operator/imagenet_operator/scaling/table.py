"""The table of a sweep: speedup and efficiency of the measured points, as text, CSV and Markdown.

A series is a strategy, or a network with one. Its baseline is its run with the fewest workers, or
GPUs if the sweep is about those. The efficiency is defined as 1 there. With a run of one worker or
GPU, this is the usual definition. If the planned baseline has no speed, no other run replaces it.

The CSV has plain numbers, for `imagenet-plot --scaling`. Text and Markdown have rounded ones.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from imagenet_operator.scaling.points import Point


@dataclass(frozen=True)
class Measured:
    """The figures of one point; None if they are not known.

    The seconds are those in which all members ran, over all attempts. Images/s are summed over all
    workers, and `top1` is the accuracy on the validation images.
    """

    point: Point
    seconds: float
    images_per_second: float | None = None
    top1: float | None = None
    model_bytes: int | None = None


@dataclass(frozen=True)
class Row:
    """A row of the table: the speedup over one worker or GPU, and that divided by their number."""

    measured: Measured
    speedup: float | None = None
    efficiency: float | None = None


def rows(measured: Sequence[Measured], planned: Mapping[str, int] | None = None) -> list[Row]:
    """Return the rows, with series in their order, each sorted by workers or GPUs.

    Without `planned`, the smallest number of workers or GPUs of each series is the smallest
    measured one.
    """
    order = list(dict.fromkeys(item.point.series for item in measured))
    ordered = sorted(measured, key=lambda item: (order.index(item.point.series), item.point.units))
    singles: dict[str, float | None] = {}
    found = []
    for item in ordered:
        if item.point.series not in singles:
            # The smallest run of a series gives the speed of one worker or GPU.
            is_planned = (planned or {}).get(item.point.series) in (None, item.point.units)
            speed = item.images_per_second if is_planned else None
            singles[item.point.series] = speed / item.point.units if speed else None
        single = singles[item.point.series]
        if single is None or item.images_per_second is None:
            found.append(Row(item))
        else:
            speedup = item.images_per_second / single
            found.append(Row(item, speedup, speedup / item.point.units))
    return found


COLUMNS = ("strategy", "workers", "seconds", "images_per_second", "speedup", "efficiency", "top1")
"""The columns of the CSV, and the keys of a point in JSON."""

HEADS = ("strategy", "workers", "time, s", "images/s", "speedup", "efficiency", "top-1")
"""The headings of text and Markdown."""

_OF_NETWORKS = {"network": "network", "model_mb": "model, MB"}
"""Further columns and their headings, if several networks are compared."""

_GPUS = {"gpus": "GPUs"}
"""The column of a sweep over GPUs, or on CPUs in their place."""

STAND_IN = "0 GPUs: trained on CPUs, a stand-in that does not show the speed of GPUs."
"""The label of a sweep that `--gpus 0` runs on CPUs."""

_NOTHING = "-"


def record(row: Row) -> dict[str, Any]:
    """Return the plain values of a row by column; None if not known."""
    item = row.measured
    size = None if item.model_bytes is None else item.model_bytes / 1e6
    of_gpus = {} if item.point.gpus is None else {"gpus": item.point.gpus}
    of_network = (
        {"network": item.point.network, "model_mb": _rounded(size, 1)} if item.point.network else {}
    )
    return {
        "strategy": item.point.strategy,
        "workers": item.point.workers,
        "seconds": item.seconds,
        "images_per_second": _rounded(item.images_per_second, 2),
        "speedup": _rounded(row.speedup, 4),
        "efficiency": _rounded(row.efficiency, 4),
        "top1": _rounded(item.top1, 4),
        **of_gpus,
        **of_network,
    }


def as_csv(rows: Sequence[Row]) -> str:
    """Return the table as CSV; unknown values are empty."""
    text = io.StringIO()
    columns = (
        *COLUMNS,
        *(_GPUS if _has_gpus(rows) else ()),
        *(_OF_NETWORKS if _has_networks(rows) else ()),
    )
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(record(row) for row in rows)
    return text.getvalue()


def as_text(rows: Sequence[Row]) -> str:
    """Return the table for a terminal."""
    lines, names = _lines(rows), _names(rows)
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    text = "\n".join(
        "  ".join(
            # Names are left-aligned, numbers right-aligned.
            cell.ljust(width) if number < names else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    )
    return f"{text}\n{STAND_IN}" if _is_stand_in(rows) else text


def as_markdown(rows: Sequence[Row]) -> str:
    """Return the table for a README."""
    heads, *cells = _lines(rows)
    names = _names(rows)
    lines = [heads, (*["---"] * names, *["---:"] * (len(heads) - names)), *cells]
    text = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    return f"{text}\n{STAND_IN}\n" if _is_stand_in(rows) else text


def _names(rows: Sequence[Row]) -> int:
    return 2 if _has_networks(rows) else 1


def _has_networks(rows: Sequence[Row]) -> bool:
    return any(row.measured.point.network for row in rows)


def _has_gpus(rows: Sequence[Row]) -> bool:
    return any(row.measured.point.gpus is not None for row in rows)


def _is_stand_in(rows: Sequence[Row]) -> bool:
    return any(row.measured.point.gpus == 0 for row in rows)


def _lines(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    heads: tuple[str, ...] = HEADS
    cells: list[tuple[str, ...]] = [_cells(row) for row in rows]
    if _has_gpus(rows):
        heads = (*HEADS[:2], *_GPUS.values(), *HEADS[2:])
        cells = [
            (*line[:2], _shown(row.measured.point.gpus, "d"), *line[2:])
            for row, line in zip(rows, cells, strict=True)
        ]
    if not _has_networks(rows):
        return [heads, *cells]
    first, last = _OF_NETWORKS.values()
    sizes = [_shown(record(row).get("model_mb"), ",.1f") for row in rows]
    return [
        (first, *heads, last),
        *(
            (row.measured.point.network, *line, size)
            for row, line, size in zip(rows, cells, sizes, strict=True)
        ),
    ]


def _cells(row: Row) -> tuple[str, ...]:
    item = row.measured
    return (
        item.point.strategy,
        str(item.point.workers),
        f"{item.seconds:.0f}",
        _shown(item.images_per_second, ",.0f" if (item.images_per_second or 0) >= 10 else ".1f"),
        _shown(row.speedup, ".2f"),
        _shown(row.efficiency, ".0%"),
        _shown(item.top1, ".4f"),
    )


def _shown(value: float | None, form: str) -> str:
    return _NOTHING if value is None else format(value, form)


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)
