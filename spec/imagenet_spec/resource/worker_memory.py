"""The memory that reading and saving take in a worker: `validate` says it, and its pod requests it.

The ordered reader has batches in slots and records in windows, both in shared memory that counts
as the pod's, and decodes in programs (docs/order.md). Slots are exact. Windows depend on the bytes
of a record, which only the dataset knows, so they are an estimate. Of weights and the optimizer's
state rank 0 has two copies at most, one for a checkpoint and one for a receipt. The two packages do
not import each other; a contract test compares the figures with a real reader and real networks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from imagenet_spec.errors import Problem
from imagenet_spec.frameworks import FRAMEWORKS
from imagenet_spec.order import (
    FEWEST_CORES,
    LANES,
    READ_BYTES,
    TRAINING_SLOTS,
    VALIDATION_SLOTS,
    WINDOW,
    count_lanes,
)
from imagenet_spec.resource import elastic_workers, extra_arguments, quantities
from imagenet_spec.resource.capabilities import reads_in_order
from imagenet_spec.resource.frameworks import family_of
from imagenet_spec.resource.networks import is_small_resnet
from imagenet_spec.resource.templates import own_program

if TYPE_CHECKING:
    from imagenet_spec.resource.job import ImageNetJob
    from imagenet_spec.resource.training import TrainingSpec

DECODER: Final = 45 * 10**6
"""Bytes of a program that decodes."""

COPIES: Final = 2
_WEIGHT: Final = 4
_SMALL_RESNET_MILLIONS: Final = 2
_PAGE: Final = 4096
_LABEL_AND_IDENTITY: Final = 16
# ILSVRC2012 at 480 pixels: 96 KiB a record; a JPEG grows with the square of its edge.
_BYTES_OF_SQUARE: Final = Fraction(96 * 2**10, 480**2)
# Images that preparation does not resize: ILSVRC2012's files have 110 KB on average, for networks
# of 224 pixels. A smaller network is trained on smaller images.
_BYTES_AS_THEY_COME: Final = 110_000
_THEIR_NETWORK: Final = 224


@dataclass(frozen=True)
class WorkerMemory:
    """What all processes of a worker take together.

    Attributes:
        slots: Bytes of batches.
        windows: Bytes of records that are read ahead, about.
        decoders: Programs that decode; None if the template does not say how many cores a worker
            has.
        copies: Bytes of what checkpoints and receipts are written from; None if the size of the
            network is not known here.
    """

    slots: int
    windows: int
    decoders: int | None
    copies: int | None

    @property
    def bytes(self) -> int:
        return self.slots + self.windows + (self.decoders or 0) * DECODER + (self.copies or 0)

    def __str__(self) -> str:
        parts = [f"{_written(self.slots)} batches", f"{_written(self.windows)} records"]
        if self.decoders:
            of_each = "" if self.decoders == 1 else f" ({self.decoders} of {_written(DECODER)})"
            decoders = "decoder" if self.decoders == 1 else "decoders"
            parts.append(f"{_written(self.decoders * DECODER)} {decoders}{of_each}")
        if self.copies:
            parts.append(f"{_written(self.copies)} copies for checkpoints")
        unknown = []
        if self.decoders is None:
            # The template does not say how many cores a worker has.
            unknown.append(f"{_written(DECODER)} for each decoder")
        if self.copies is None:
            unknown.append("two copies of weights and optimizer for checkpoints")
        more = f", and {' and '.join(unknown)}" if unknown else ""
        return f"about {_written(self.bytes)} ({', '.join(parts)}){more}"


def of_worker(job: ImageNetJob, workers: int | None = None) -> WorkerMemory | None:
    """Return what both take in each worker; None if the ordered reader does not read.

    The counts of the dataset are used if the job's status has them.
    """
    training = job.spec.training
    workers = training.workers.replicas if workers is None else workers
    given = extra_arguments.values(training)
    has_no_records = given.get("--benchmark") == "1" or not reads_in_order(training)
    if own_program.has_command(training.workers.template) or has_no_records:
        return None
    processes = training.strategy.processes(training.workers.gpus)
    size = training.batch_size // (processes * workers)
    images = None if job.status.dataset is None else job.status.dataset.images
    # A dataset that is not listed yet has no counts.
    train = images.train if images is not None and images.train else None
    validates = train is None or (images is not None and images.validation > 0)
    record = _bytes_of_record(job)
    ahead = _read_ahead(processes * workers, record, train)
    if validates:
        ahead += (VALIDATION_SLOTS + 1) * size * record
    model = training.model
    slots = TRAINING_SLOTS * _slot(training, size, model.training_sides)
    if validates:
        slots += VALIDATION_SLOTS * _slot(training, size, model.validation_sides)
    return WorkerMemory(
        slots=processes * slots,
        windows=processes * ahead,
        decoders=_decoders(training, given.get("--decoding")),
        copies=None if (state := _state(training)) is None else COPIES * state,
    )


def worker_cpus(training: TrainingSpec) -> float | None:
    """Return the CPUs that the template gives to the program of a worker; None without any."""
    cpus = (_resource(training, kind, "cpu") for kind in ("limits", "requests"))
    return next((float(amount) for amount in cpus if amount), None)


def of_fewest_workers(job: ImageNetJob) -> WorkerMemory | None:
    """Return the most that both take: fewer workers have larger batches and more lanes."""
    training = job.spec.training
    is_elastic = elastic_workers.is_elastic(training)
    return of_worker(job, elastic_workers.worker_counts(training)[0] if is_elastic else None)


def warnings(job: ImageNetJob) -> list[Problem]:
    """Return the memory of the template that is less than both take."""
    found = of_fewest_workers(job)
    if found is None:
        return []
    problems = []
    for kind in ("limits", "requests"):
        memory = _resource(job.spec.training, kind, "memory")
        if memory and memory < found.bytes:
            problems.append(
                Problem(
                    f"resources.{kind}.memory in spec.training.workers.template",
                    f"is less than a worker reads and saves with, {found}",
                    f"write at least {in_mebibytes(found.bytes)} and what training takes, or a "
                    "smaller batchSize",
                    "operator",
                )
            )
    return problems


def in_mebibytes(size: int) -> str:
    """Return bytes as a quantity."""
    return f"{math.ceil(size / 2**20)}Mi"


def _state(training: TrainingSpec) -> int | None:
    """Return the bytes of a checkpoint, about; None if the size of the network is not known."""
    model, optimizer = training.model, training.optimizer
    family = family_of(model.network)
    if is_small_resnet(model):
        millions = _SMALL_RESNET_MILLIONS
    elif family.millions:
        millions = family.millions[family.depths.index(model.num_layers) if family.depths else 0]
    else:
        # The networks whose weights depend on the size of images are for small ones.
        return 0 if family.has_fixed_input else None
    # Without momentum, these have no state. The others have one array or two.
    of_momentum = optimizer.name in ("sgd", "nag", "lbsgd")
    arrays = (1 if optimizer.momentum else 0) if of_momentum else 2
    averages = 0 if optimizer.ema_decay is None else 1
    return millions * 10**6 * _WEIGHT * (1 + arrays + averages)


def _slot(training: TrainingSpec, size: int, sides: tuple[int, int]) -> int:
    """Return the bytes of a batch of images of a height and width."""
    gives_bytes = training.workers.gpus > 0 and FRAMEWORKS[training.framework].normalizes_on_gpu
    channels = training.model.image_shape[0]
    images = size * channels * math.prod(sides) * (1 if gives_bytes else 4)
    return sum(-(-part // _PAGE) * _PAGE for part in (images, _LABEL_AND_IDENTITY * size))


def _read_ahead(processes: int, record: int, images: int | None) -> int:
    """Return the bytes of training records in memory when an epoch begins.

    A read of each lane ends with the window in which it exceeds READ_BYTES: on average in its
    middle. No more is read than the process's share of the images.
    """
    lanes = LANES if images is None else count_lanes(images)
    ahead = lanes // math.gcd(lanes, processes) * (READ_BYTES + WINDOW * record // 2)
    return ahead if images is None else min(ahead, -(-images // processes) * record)


def _bytes_of_record(job: ImageNetJob) -> int:
    """Estimate it by the size to which preparation resizes."""
    dataset = job.spec.dataset
    resize = None if dataset.is_sealed else dataset.preprocessing.resize
    if resize is not None:
        return math.ceil(_BYTES_OF_SQUARE * resize**2)
    edge = min(_THEIR_NETWORK, *job.spec.training.model.training_sides)
    return math.ceil(Fraction(_BYTES_AS_THEY_COME * edge**2, _THEIR_NETWORK**2))


def _decoders(training: TrainingSpec, decoding: str | None) -> int | None:
    """Return the programs of a worker that decode; None if its cores are unknown."""
    cpus, threads = worker_cpus(training), training.data_threads
    processes = training.strategy.processes(training.workers.gpus)
    if decoding == "threads":
        return 0
    if cpus is None:
        return None if threads is None else processes * threads
    cores = max(1, math.ceil(cpus))
    if decoding is None and cores < FEWEST_CORES:
        return 0
    left = max(1, (cores - processes) // processes)
    return processes * (left if threads is None else min(threads, cores))


def _resource(training: TrainingSpec, kind: str, name: str) -> Fraction | None:
    """Return an amount of the template; None if it has none, or one that other rules refuse."""
    for container in own_program.main_containers(training.workers.template):
        resources = container.get("resources")
        amounts = resources.get(kind) if isinstance(resources, Mapping) else None
        if isinstance(amounts, Mapping) and name in amounts:
            with suppress(ValueError):
                return quantities.parse(amounts[name])
    return None


def _written(size: int) -> str:
    return f"{size / 10**9:.2f} GB" if size >= 10**8 else f"{math.ceil(size / 10**6)} MB"
