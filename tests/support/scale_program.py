"""`imagenetctl scale` as a process."""

import csv

from support.stand_ins import Finished, Running, Workplace


def start(workplace: Workplace, *options: str) -> Running:
    return workplace.start("scale", workplace.manifest, "--workdir", workplace.workdir, *options)


def scale(workplace: Workplace, *options: str) -> Finished:
    return start(workplace, *options).finish()


def written(workplace: Workplace) -> list[dict[str, str]]:
    """The lines of the CSV."""
    with (workplace.workdir / "scaling" / "digits.csv").open() as file:
        return list(csv.DictReader(file))
