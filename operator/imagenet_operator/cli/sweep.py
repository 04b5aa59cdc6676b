"""The interface that runs the points of a sweep, on this machine or on a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from imagenet_operator.api import ImageNetJob
from imagenet_operator.scaling.points import Point
from imagenet_operator.scaling.speedup import Measured


@dataclass(frozen=True)
class Outcome:
    """The outcome of one point: measured, failed, or interrupted.

    Attributes:
        point: The point.
        measured: Its figures, if it succeeded.
        failure: Why it failed, or None.
        is_old: Whether it was done before this command started.
        document: The JSON result, if the point ran now.
    """

    point: Point
    measured: Measured | None = None
    failure: str | None = None
    is_old: bool = False
    document: dict[str, Any] | None = None

    @property
    def is_interrupted(self) -> bool:
        """Whether the user interrupted it."""
        return self.measured is None and self.failure is None


def by_status(point: Point, job: ImageNetJob) -> Measured:
    """Return the figures of a point that succeeded, from its job's status."""
    training = job.status.training
    assert training is not None
    return Measured(
        point.strategy,
        point.workers,
        training.clock.seconds,
        training.images_per_second,
        None if training.accuracy is None else training.accuracy.validation,
        point.network,
        gpus=point.gpus,
    )


class Runner(Protocol):
    """Runs points."""

    def get_ready(self, points: Sequence[Point]) -> None:
        """Check that all points can run, then create what they share.

        Raises:
            ImageNetJobError: One cannot; nothing was created.
        """

    def run(self, point: Point) -> Outcome:
        """Run a point to its end, or read the outcome of an earlier run."""

    def remedy(self, failed: Sequence[str]) -> str:
        """Return how to run failed jobs again."""
