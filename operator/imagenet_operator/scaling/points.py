"""The points of a sweep: one job for each network, strategy and size, on one dataset.

A point is the manifest with another name, number of workers or GPUs, strategy and network. The
global batch stays the same (strong scaling), so that accuracies can be compared. With weak scaling
the batch of each worker, or GPU, stays the same.

A sweep has no state but its jobs, which are stored in the working directory or by the API server.
So it can be resumed at any point: `point_status` says which jobs still have to run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import product

from imagenet_operator.manifests import names
from imagenet_operator.manifests.volumes import DATASET_PURPOSE
from imagenet_operator.reconcile.policies.job_status import holds
from imagenet_operator.scaling import variants
from imagenet_operator.scaling.variants import Network, Variant, applied, framework_of
from imagenet_operator.sdk.submission import is_same
from imagenet_spec.errors import ImageNetJobError, Problem
from imagenet_spec.resource import ImageNetJob
from imagenet_spec.resource.base import Manifest
from imagenet_spec.resource.fields import JOB_NAME_MAXIMUM
from imagenet_spec.resource.strategies import STRATEGIES
from imagenet_spec.resource.templates import own_program
from imagenet_spec.resource.training import devices
from imagenet_spec.validate import parse

CPUS = 0
"""The number of GPUs of a sweep on CPUs, a stand-in for one on GPUs."""


@dataclass(frozen=True)
class Size:
    """The size of a point; `gpus` are those of each worker, None for those of the manifest."""

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
        workers = _counted(self.workers, "worker")
        if self.gpus:
            return f"{_counted(self.workers * self.gpus, 'GPU')} in {workers}"
        return workers + ("" if self.gpus is None else " on CPUs")


def sizes_of_workers(numbers: tuple[int, ...], *, on_cpus: bool = False) -> list[tuple[Size, ...]]:
    """Return the sizes of --workers, each as the only way to have it."""
    return [(Size(number, CPUS if on_cpus else None),) for number in sorted(set(numbers))]


def sizes_of_gpus(manifest: Manifest, numbers: tuple[int, ...]) -> list[tuple[Size, ...]]:
    """Return the ways to have each number of GPUs, the preferred one first.

    Workers have as many GPUs as in the manifest, if that divides the number. One worker with all
    of them is the other way, for strategies of one worker too.
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


Judge = Callable[[Manifest], list[Problem]]
"""Validates a job; returns its problems."""

SWEEP = "training.imagenet.dev/sweep"
"""The label of the jobs of a sweep, with the name of the manifest."""

_WORKERS = "workers"
"""The field of `spec.training` that a strategy with a fixed number of workers rejects."""

_PROCESSES = ("slotsPerWorker", "processesPerWorker")
"""The fields of strategies with a worker's number of processes."""

_DIGEST = 6


class InvalidSweep(ImageNetJobError):  # noqa: N818 - as InvalidJob
    """A point of the sweep could not run."""


@dataclass(frozen=True)
class Point:
    """One job of a sweep; the network has its name in tables, empty for the manifest's."""

    strategy: str
    size: Size
    manifest: Manifest
    network: str = ""

    @property
    def workers(self) -> int:
        return self.size.workers

    @property
    def gpus(self) -> int | None:
        return self.size.all_gpus

    @property
    def units(self) -> int:
        """The number of GPUs of a sweep on GPUs, else of workers."""
        return self.gpus or self.workers

    @property
    def name(self) -> str:
        return str(self.manifest["metadata"]["name"])

    @property
    def series(self) -> str:
        """What its points have in common: the network, if several are compared, and strategy."""
        return f"{self.network}, {self.strategy}" if self.network else self.strategy

    def __str__(self) -> str:
        return f"{self.series}, {self.size}"


@dataclass(frozen=True)
class Sweep:
    """A sweep that can run; `left_out` says in words what a strategy cannot run."""

    points: tuple[Point, ...]
    left_out: tuple[str, ...] = ()


def sweep(
    manifest: Manifest,
    sizes: Sequence[Sequence[Size]],
    variants: Sequence[Variant],
    problems_of: Judge,
    *,
    models: Sequence[Network] = (),
    is_weak: bool = False,
) -> Sweep:
    """Return the points of a sweep; a strategy of one worker has one if 1 is among the numbers.

    Each of `sizes` has the ways to have it. Without `models`, the network is the manifest's. With
    `is_weak`, the batch of each worker or GPU stays the same.

    Raises:
        InvalidSweep: Points could not run; the message lists them.
    """
    kept: list[Point] = []
    left_out: list[str] = []
    wrong: list[str] = []
    for model, variant in product(models or (None,), variants):
        candidates = (
            [_point(manifest, variant, model, size, is_weak) for size in ways] for ways in sizes
        )
        verdicts = [_first_that_runs(manifest, points, problems_of) for points in candidates]
        good = [point for point, problems in verdicts if not problems]
        fixed = [point for point, found in verdicts if good and _asks_for_others(point, found)]
        kept += good
        if fixed:
            # A number of GPUs fits into one worker, so only numbers of workers are left out.
            numbers = " and ".join(str(point.workers) for point in fixed)
            left_out.append(f"{fixed[0].series}: {numbers} workers are left out; it takes one")
        wrong += [
            f"  {point}: {problem}"
            for point, problems in verdicts
            if point not in fixed
            for problem in problems
        ]
    if wrong:
        batch = f"the global batch of {manifest['spec']['training']['batchSize']}"
        if is_weak:
            batch = "a {1}'s batch of {0}".format(*_kept_batch(manifest, sizes[0][0]))
        headline = "some points cannot run, so nothing was started"
        stays = f"{batch} stays the same at every point"
        raise InvalidSweep("\n".join([f"{headline} ({stays}):", *wrong]))
    return Sweep(tuple(kept), tuple(left_out))


def _first_that_runs(
    manifest: Manifest, ways: Sequence[Point], problems_of: Judge
) -> tuple[Point, list[Problem]]:
    for point in ways:
        problems = [
            *problems_of(point.manifest),
            *_image_problems(manifest, point),
            *variants.record_problems(manifest, point.manifest),
        ]
        if not _asks_for_others(point, problems):
            break
    return point, problems


def point_name(
    base: str,
    variant: Variant,
    size: Size,
    model: Network | None = None,
    *,
    is_weak: bool = False,
) -> str:
    """Return a point's name, such as NAME-w2-horovod-resnet-50, shortened if it is too long."""
    more = ([] if model is None else [model.label]) + (["weak"] if is_weak else [])
    suffix = "-".join([f"-{size.slug}", variant.slug, *more])
    return fitting_name(base, suffix, f"-{size.slug}-{{digest}}")


def fitting_name(base: str, suffix: str, short: str) -> str:
    """Return the name of a job: `base` and `suffix`, or one that is not too long.

    `short` ends a shortened name; `{digest}` in it is a hash of the whole name.
    """
    if len(base) + len(suffix) <= JOB_NAME_MAXIMUM:
        return f"{base}{suffix}"
    tail = short.format(digest=hashlib.sha256(f"{base}{suffix}".encode()).hexdigest()[:_DIGEST])
    return f"{base[: JOB_NAME_MAXIMUM - len(tail)].rstrip('-')}{tail}"


def shared_claim(manifest: Manifest) -> str | None:
    """Return the claim to create for the shared dataset; None if the manifest names one."""
    volume = manifest["spec"]["dataset"].get("volume")
    if volume is None or "claimName" in volume:
        return None
    return names.claim(manifest["metadata"]["name"], DATASET_PURPOSE)


def _kept_batch(manifest: Manifest, size: Size) -> tuple[int, str]:
    """Return the batch that weak scaling keeps, and whose it is: a worker's or a GPU's."""
    training = parse(manifest).spec.training
    if size.gpus is None:
        return training.batch_size // training.workers.replicas, "worker"
    return training.batch_size // devices(training), "GPU" if size.gpus else "worker"


def _point(
    manifest: Manifest, variant: Variant, model: Network | None, size: Size, is_weak: bool
) -> Point:
    swapped = applied(variant, manifest)
    if model is not None:
        swapped = variants.with_network(model, swapped)
    metadata, spec = swapped["metadata"], swapped["spec"]
    name = point_name(metadata["name"], variant, size, model, is_weak=is_weak)
    labels = {**metadata.get("labels", {}), SWEEP: metadata["name"]}
    claim = shared_claim(manifest)
    volume = {} if claim is None else {"volume": {"claimName": claim}}
    training = _training(spec["training"], size)
    if is_weak:
        units = size.all_gpus or size.workers
        training["batchSize"] = _kept_batch(manifest, size)[0] * units
    changes = {
        "dataset": spec["dataset"] | volume,
        "training": training,
        # A resumed sweep reads finished points, so they must not be deleted.
        "runPolicy": {
            key: value
            for key, value in spec.get("runPolicy", {}).items()
            if key != "ttlSecondsAfterFinished"
        },
    }
    job = {"metadata": metadata | {"name": name, "labels": labels}, "spec": spec | changes}
    label = "" if model is None else model.label
    return Point(variant.label, size, swapped | job, label)


def _training(training: Manifest, size: Size) -> Manifest:
    # A point is about one number.
    fixed = {
        name: value
        for name, value in training.get("workers", {}).items()
        if name not in ("minReplicas", "elastic")
    }
    former = fixed.get("gpus", 0)
    if size.gpus in (None, former):
        return training | {"workers": {**fixed, "replicas": size.workers}}
    ((kind, block),) = training["strategy"].items()
    # One process for each GPU is the default.
    strategy = {
        name: value
        for name, value in (block or {}).items()
        if name not in _PROCESSES or value != former
    }
    workers = {**fixed, "replicas": size.workers, "gpus": size.gpus}
    return training | {"strategy": {kind: strategy}, "workers": workers}


def _image_problems(manifest: Manifest, point: Point) -> list[Problem]:
    """Return why a point cannot run in the manifest's image, which has one framework.

    A user's own program gets no framework option, so any image is accepted.
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
            f"is for {own} and cannot train with {wanted}",
            f"leave {point.strategy} out of --strategies, or remove the image",
        )
    ]


def _asks_for_others(point: Point, problems: list[Problem]) -> bool:
    """Return whether the only problem is the strategy's fixed number of workers."""
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


class PointStatus(Enum):
    """The status of a point."""

    NEW = "no job is stored"
    OTHER = "another job has its name"
    UNFINISHED = "it has started"
    SUCCEEDED = "it has succeeded"
    FAILED = "it has failed"


def point_status(wanted: ImageNetJob, stored: ImageNetJob | None) -> PointStatus:
    """Return the status of a point."""
    if stored is None:
        return PointStatus.NEW
    if not is_same(wanted, stored):
        return PointStatus.OTHER
    if holds(stored.status.conditions, "Succeeded"):
        return PointStatus.SUCCEEDED
    if holds(stored.status.conditions, "Failed"):
        return PointStatus.FAILED
    return PointStatus.UNFINISHED
