"""The points of a sweep: one job for each strategy and number of workers, all on one dataset.

Every point is the manifest with its workers, its strategy and a name of its own, and nothing else
of what it trains: the global batch stays (strong scaling), so that accuracies can be compared.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from imagenet_operator.api.base import Manifest
from imagenet_operator.api.names import JOB_NAME_MAXIMUM
from imagenet_operator.api.strategies import STRATEGIES
from imagenet_operator.api.templates import own_program
from imagenet_operator.errors import ImageNetJobError, Problem
from imagenet_operator.manifests import names
from imagenet_operator.manifests.volumes import DATASET_PURPOSE
from imagenet_operator.scaling.variants import Variant, applied, framework_of

Judge = Callable[[Manifest], list[Problem]]
"""Gives the verdict on a job: what is wrong with it, if anything."""

SWEEP = "training.imagenet.dev/sweep"
"""The label by which the jobs of a sweep are found: the name of the manifest."""

_WORKERS = "workers"
"""What a strategy objects to, of `spec.training`, that takes a fixed number of workers."""

_DIGEST = 6


class InvalidSweep(ImageNetJobError):  # noqa: N818 - as InvalidJob
    """A sweep of which a point could not run."""


@dataclass(frozen=True)
class Point:
    """One job of a sweep.

    Attributes:
        strategy: How tables call its strategy.
        workers: How many train.
        manifest: The job.
    """

    strategy: str
    workers: int
    manifest: Manifest

    @property
    def name(self) -> str:
        """The job's name."""
        return str(self.manifest["metadata"]["name"])

    def __str__(self) -> str:
        """Say which point it is."""
        return f"{self.strategy}, {self.workers} worker{'s' if self.workers > 1 else ''}"


@dataclass(frozen=True)
class Sweep:
    """A sweep that can run.

    Attributes:
        points: In the order in which they run.
        left_out: A sentence for each strategy that has only some of the numbers of workers.
    """

    points: tuple[Point, ...]
    left_out: tuple[str, ...] = ()


def sweep(
    manifest: Manifest,
    workers: Sequence[int],
    variants: Sequence[Variant],
    problems_of: Judge,
) -> Sweep:
    """Return the points of a sweep.

    A strategy that runs one worker only has a point for that, if 1 is among the workers.

    Args:
        manifest: A valid job.
        workers: Numbers of workers, as given.
        variants: The strategies.
        problems_of: The verdict on a job.

    Raises:
        InvalidSweep: A point could not run; the message lists all that could not.
    """
    kept: list[Point] = []
    left_out: list[str] = []
    wrong: list[str] = []
    for variant in variants:
        points = [_point(manifest, variant, number) for number in sorted(set(workers))]
        verdicts = [(point, _problems(manifest, point, problems_of)) for point in points]
        good = [point for point, problems in verdicts if not problems]
        fixed = [point for point, found in verdicts if good and _asks_for_others(point, found)]
        kept += good
        if fixed:
            left_out.append(_left_out_sentence(variant, fixed))
        wrong += _problem_lines(verdicts, fixed)
    if wrong:
        raise InvalidSweep("\n".join([_headline(manifest), *wrong]))
    return Sweep(tuple(kept), tuple(left_out))


def _left_out_sentence(variant: Variant, fixed: Sequence[Point]) -> str:
    numbers = " and ".join(str(point.workers) for point in fixed)
    return f"{variant.label}: {numbers} workers are left out; it takes one"


def _problem_lines(
    verdicts: Sequence[tuple[Point, list[Problem]]], fixed: Sequence[Point]
) -> list[str]:
    return [
        f"  {point}: {problem}"
        for point, problems in verdicts
        if point not in fixed
        for problem in problems
    ]


def point_name(base: str, variant: Variant, workers: int) -> str:
    """Return a point's name: NAME-w2-horovod, cut in the middle where that would be too long."""
    suffix = f"-w{workers}-{variant.slug}"
    if len(base) + len(suffix) <= JOB_NAME_MAXIMUM:
        return f"{base}{suffix}"
    digest = hashlib.sha256(f"{base}{suffix}".encode()).hexdigest()[:_DIGEST]
    tail = f"-w{workers}-{digest}"
    return f"{base[: JOB_NAME_MAXIMUM - len(tail)].rstrip('-')}{tail}"


def shared_claim(manifest: Manifest) -> str | None:
    """Return the claim to make for the dataset of all points; None if the manifest names one."""
    volume = manifest["spec"]["dataset"].get("volume")
    if volume is None or "claimName" in volume:
        return None
    return names.claim(manifest["metadata"]["name"], DATASET_PURPOSE)


def _headline(manifest: Manifest) -> str:
    batch = manifest["spec"]["training"]["batchSize"]
    return (
        "some points cannot run, so nothing was started (the global batch of "
        f"{batch} stays the same at every point):"
    )


def _point(manifest: Manifest, variant: Variant, workers: int) -> Point:
    swapped = applied(variant, manifest)
    metadata, spec = swapped["metadata"], swapped["spec"]
    training = spec["training"]
    claim = shared_claim(manifest)
    dataset = (
        spec["dataset"] if claim is None else spec["dataset"] | {"volume": {"claimName": claim}}
    )
    # Deleted after a time, a point could not be read when the sweep goes on.
    policy = {
        key: value
        for key, value in spec.get("runPolicy", {}).items()
        if key != "ttlSecondsAfterFinished"
    }
    return Point(
        variant.label,
        workers,
        swapped
        | {
            "metadata": metadata
            | {
                "name": point_name(metadata["name"], variant, workers),
                "labels": {**metadata.get("labels", {}), SWEEP: metadata["name"]},
            },
            "spec": spec
            | {
                "dataset": dataset,
                "training": training
                | {"workers": {**training.get("workers", {}), "replicas": workers}},
                "runPolicy": policy,
            },
        },
    )


def _problems(manifest: Manifest, point: Point, of_job: Judge) -> list[Problem]:
    """Return why a point cannot run: as a job of its own, or as one of the manifest's sweep."""
    return [*of_job(point.manifest), *_image_problems(manifest, point)]


def _image_problems(manifest: Manifest, point: Point) -> list[Problem]:
    """Return why a point cannot run in the manifest's image, whose trainer has one framework.

    A program of one's own is not told the framework, and so not to train in another.
    """
    training = manifest["spec"]["training"]
    if training.get("image") is None or own_program.has_command(
        training.get("workers", {}).get("template")
    ):
        return []
    own, wanted = framework_of(manifest), framework_of(point.manifest)
    if own == wanted:
        return []
    return [
        Problem(
            "spec.training.image",
            f"is for {own} and would have to train in {wanted}",
            f"leave {point.strategy} out of --strategies, or remove the image",
        )
    ]


def _asks_for_others(point: Point, problems: list[Problem]) -> bool:
    """Return whether the strategy objects to the number of workers and nobody to anything else."""
    limits = tuple(
        rule.message
        for kind in point.manifest["spec"]["training"]["strategy"]
        for rule in STRATEGIES[kind].training_rules
        if rule.field == _WORKERS
    )
    return bool(problems) and all(
        problem.path == f"spec.training.{_WORKERS}" and problem.message.startswith(limits)
        for problem in problems
    )
