"""Reads the CSV table of a sweep, from `imagenetctl scale`.

`scaling_plot` draws it. Another program may write the same columns.
"""

import csv
from dataclasses import dataclass
from pathlib import Path

from imagenet_workloads.errors import InputError

WORKERS = "workers"
GPUS = "GPUs"
ON_CPUS = "workers on CPUs, a stand-in for GPUs"

COLUMNS = ("strategy", "workers", "images_per_second", "speedup")


@dataclass(frozen=True)
class Point:
    """One point of a sweep.

    Attributes:
        number: The number of workers, or of GPUs.
        images_per_second: The speed of all workers.
        speedup: The speedup over one worker or GPU.
        unit: What is counted; a sweep has one unit.
    """

    number: int
    images_per_second: float
    speedup: float
    unit: str = WORKERS


def read_points(path: Path) -> dict[str, list[Point]]:
    """Return the points of each series by their number, without those that have no speed.

    A series is a strategy, or a network with one.

    Raises:
        InputError: The file is not such a table, or has no point.
    """
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            missing = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
            if missing:
                raise InputError(f"{path}: has no column {missing[0]!r}; write {','.join(COLUMNS)}")
            lines = [line for line in reader if line["speedup"]]
        found: dict[str, list[Point]] = {}
        for line in lines:
            point = Point(
                int(line.get("gpus") or 0) or int(line["workers"]),
                float(line["images_per_second"]),
                float(line["speedup"]),
                {"": WORKERS, "0": ON_CPUS}.get(line.get("gpus") or "", GPUS),
            )
            found.setdefault(_series(line), []).append(point)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {path}: {error}") from error
    if not found:
        raise InputError(f"{path}: has no point with a speed, so there is nothing to plot")
    return {name: sorted(points, key=lambda point: point.number) for name, points in found.items()}


def _series(line: dict[str, str]) -> str:
    network = line.get("network")
    return f"{network}, {line['strategy']}" if network else line["strategy"]
