"""What runs the points of a sweep: this machine and a cluster do it behind one interface."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from imagenet_operator.api import ImageNetJob
from imagenet_operator.scaling.points import Point
from imagenet_operator.scaling.speedup import Measured


@dataclass(frozen=True)
class Outcome:
    """What one point came to: measured, failed, or interrupted.

    Attributes:
        point: The point.
        measured: Its figures, if it succeeded.
        failure: Why it failed, if it did, for people.
        is_old: It was done before this sweep began or went on.
        document: The result for scripts, of a point that was run now.
    """

    point: Point
    measured: Measured | None = None
    failure: str | None = None
    is_old: bool = False
    document: dict[str, Any] | None = None

    @property
    def is_interrupted(self) -> bool:
        """Whether the user wants to stop."""
        return self.measured is None and self.failure is None


def by_status(point: Point, job: ImageNetJob) -> Measured:
    """Return the figures of a point that succeeded, by its job's status alone."""
    training = job.status.training
    assert training is not None
    return Measured(
        point.strategy,
        point.workers,
        training.clock.seconds,
        training.images_per_second,
        None if training.accuracy is None else training.accuracy.validation,
    )


class Runner(Protocol):
    """A place where points run."""

    def get_ready(self, points: Sequence[Point]) -> None:
        """See that all points can run, then make what they share.

        Raises:
            ImageNetJobError: One cannot; nothing has been made.
        """

    def run(self, point: Point) -> Outcome:
        """Run a point to its end, or read what it came to if it has been run."""

    def remedy(self, failed: Sequence[str]) -> str:
        """Say how points that failed, by the names of their jobs, are run again."""
