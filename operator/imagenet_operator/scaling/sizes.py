"""The sizes of the points: numbers of workers, or of GPUs and how many of them a worker has."""

from __future__ import annotations

from dataclasses import dataclass

from imagenet_operator.api.base import Manifest

CPUS = 0
"""The number of GPUs of a sweep on CPUs, a stand-in for one on GPUs."""


@dataclass(frozen=True)
class Size:
    """The size of a point.

    Attributes:
        workers: The number of workers.
        gpus: The GPUs of each worker; None for those of the manifest.
    """

    workers: int
    gpus: int | None = None

    @property
    def all_gpus(self) -> int | None:
        """The GPUs of all workers; None if the sweep is not about GPUs."""
        return None if self.gpus is None else self.workers * self.gpus

    @property
    def slug(self) -> str:
        """The size as part of a job's name: w2, w2-cpu or g8."""
        if self.gpus:
            return f"g{self.all_gpus}"
        return f"w{self.workers}" + ("" if self.gpus is None else "-cpu")

    def __str__(self) -> str:
        """Return the size in words."""
        workers = _counted(self.workers, "worker")
        if self.gpus:
            return f"{_counted(self.workers * self.gpus, 'GPU')} in {workers}"
        return workers + ("" if self.gpus is None else " on CPUs")


def of_workers(numbers: tuple[int, ...], *, on_cpus: bool = False) -> list[tuple[Size, ...]]:
    """Return the sizes of --workers, each as the only way to have it."""
    return [(Size(number, CPUS if on_cpus else None),) for number in sorted(set(numbers))]


def of_gpus(manifest: Manifest, numbers: tuple[int, ...]) -> list[tuple[Size, ...]]:
    """Return the ways to have each number of GPUs, the preferred one first.

    Workers have as many GPUs as in the manifest, if that divides the number. One worker with all
    of them is the other way, for strategies of one worker too.

    Args:
        manifest: A valid job.
        numbers: The numbers of GPUs.
    """
    each = manifest["spec"]["training"].get("workers", {}).get("gpus", 0)
    return [
        tuple(
            dict.fromkeys(
                ([Size(number // each, each)] if each and number % each == 0 else [])
                + [Size(1, number)]
            )
        )
        for number in sorted(set(numbers))
    ]


def _counted(number: int, name: str) -> str:
    return f"{number} {name}{'' if number == 1 else 's'}"
