"""The table of a sweep over numbers of workers, as `imagenetctl scale` writes it: CSV.

Between that file and `scaling_plot`. Whoever measures in another way may write the same columns.
"""

import csv
from dataclasses import dataclass
from pathlib import Path

from imagenet_workloads.errors import InputError

COLUMNS = ("strategy", "workers", "images_per_second", "speedup")


@dataclass(frozen=True)
class Point:
    """One training of a sweep.

    Attributes:
        workers: how many trained.
        images_per_second: over all of them.
        speedup: over one of them.
    """

    workers: int
    images_per_second: float
    speedup: float


def read_points(path: Path) -> dict[str, list[Point]]:
    """The points of each strategy by number of workers; without those that have no speed.

    Raises:
        InputError: the file is no such table, or has no point.
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
                int(line["workers"]), float(line["images_per_second"]), float(line["speedup"])
            )
            found.setdefault(line["strategy"], []).append(point)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {path}: {error}") from error
    if not found:
        raise InputError(f"{path}: holds no point with a speed, so there is nothing to draw")
    return {name: sorted(points, key=lambda point: point.workers) for name, points in found.items()}
