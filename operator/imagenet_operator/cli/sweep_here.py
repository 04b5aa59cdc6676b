"""Runs the points of a sweep on this machine, as `imagenetctl run` does."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from imagenet_operator.api import ImageNetJob, parse
from imagenet_operator.cli import local_resources, result, run
from imagenet_operator.cli.local_resources import LocalResources
from imagenet_operator.cli.sweep import Outcome, by_status
from imagenet_operator.clusters.local.state import JobFolder
from imagenet_operator.scaling.point_status import PointStatus, point_status
from imagenet_operator.scaling.points import Point
from imagenet_operator.scaling.speedup import Measured


class Here:
    """Runs points one after the other, in one working directory; a `Runner`.

    Args:
        place: The part of this machine that they may use.
        claim: The claim to create for the shared dataset; None if the manifest names one.
        output: The display, as --output of `imagenetctl run`.
    """

    def __init__(self, resources: LocalResources, claim: str | None, output: str) -> None:
        self._resources = resources
        self._claim = claim
        self._output = output

    def get_ready(self, points: Sequence[Point]) -> None:
        """Check every point, and create the dataset's folder."""
        if points:
            self._folder(points[0]).check()
        promised = frozenset() if self._claim is None else frozenset({self._claim})
        jobs = [parse(point.manifest) for point in points]
        local_resources.check_mapped(jobs, self._resources)
        for job in jobs:
            local_resources.check(job, self._resources, promised)
        if self._claim is not None:
            self._resources.volumes.provision(self._claim)

    def run(self, point: Point) -> Outcome:
        """Run or resume a point, or read the outcome of an earlier run."""
        job = parse(point.manifest)
        stored = self._folder(point).stored()
        former = None if stored is None else ImageNetJob.model_validate(stored)
        if former is not None and point_status(job, former) is PointStatus.SUCCEEDED:
            found = result.collect(former, self._resources.volumes, 0.0, None)
            measured = _measured(point, found)
            # A program of the user's own may leave no speed.
            if measured.images_per_second is not None or not self._lost_its_result(point, found):
                return Outcome(point, measured, is_old=True)
        end = run.execute(job, self._resources, run.display_of(self._output))
        if end.succeeded:
            document = result.as_json(end, "Succeeded")
            return Outcome(point, _measured(point, end), document=document)
        if end.failure is not None:
            text, document = result.failure_text(end), result.as_json(end, "Failed")
            return Outcome(point, failure=text, document=document)
        return Outcome(point, document=result.as_json(end, "Interrupted"))

    def remedy(self, failed: Sequence[str]) -> str:
        """Return that the same command suffices: it starts failed jobs again."""
        return "the same command runs them again"

    def _lost_its_result(self, point: Point, found: result.Result) -> bool:
        """Whether the result of a point was deleted: its link is broken."""
        return found.model is None and (self._folder(point).path / "model").is_symlink()

    def _folder(self, point: Point) -> JobFolder:
        return JobFolder(self._resources.workdir, point.name)


def _measured(point: Point, end: result.Result) -> Measured:
    """Return the figures of the result, or of the status if the result was deleted."""
    if end.model is None:
        return by_status(point, end.job)
    training = end.job.status.training
    assert training is not None
    return Measured(
        point.strategy,
        point.workers,
        training.clock.seconds,
        end.training.get("train", {}).get("imagesPerSecond"),
        (end.training.get("validation") or {}).get("top1"),
        point.network,
        _model_bytes(end.model, end.training),
        point.gpus,
    )


def _model_bytes(folder: Path, training: dict[str, Any]) -> int | None:
    """Return the size of the model's files, which result.json names; None without any."""
    named = [folder / name for name in (training.get("model") or {}).values()]
    files = [
        file
        for path in named
        for file in ([path] if path.is_file() else path.rglob("*"))
        if file.is_file()
    ]
    return sum(file.stat().st_size for file in files) or None
