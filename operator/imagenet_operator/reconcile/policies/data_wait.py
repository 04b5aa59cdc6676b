"""Data wait: how fast the workers read, how fast the network could train, and what to change.

A step is the wait for its data, then the network. So images divided by the time of steps is the
speed of reading, if steps wait at all; without the waits it is the speed of the network. Both are
of one window of steps (`reconcile.windows`).

What most of the wait was for is measured by the workers: records that were still being read, or
images to decode. Decoders that have work and no processor lack cores, and so do threads that the
CPU limit stops; otherwise there are too few decoders. A GPU that has computed a step's gradients
before the program has launched its update waits for the program. `imagenetctl bench` uses the same
causes and remedies.
"""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Final

from imagenet_operator.reconcile.sample import Sample
from imagenet_operator.reconcile.windows import Steps
from imagenet_spec.resource import ImageNetJob, worker_memory
from imagenet_spec.resource.fields import COUNT_MAXIMUM
from imagenet_spec.resource.status import DataWaitStatus

REASON: Final = "TrainingWaitsForData"

LAUNCHES_REASON: Final = "TrainingWaitsForLaunches"

TOO_LONG: Final = 0.1
"""The share of the time above which waiting for data is an event."""

WORTH_A_WRITE: Final = 0.05
"""A greater change of the share is worth a write of the status."""

_THREADS: Final = "spec.training.dataThreads"
_CPUS: Final = "resources.limits.cpu in spec.training.workers.template"
_REQUEST: Final = "resources.requests.cpu in spec.training.workers.template"
_RESIZE: Final = "spec.dataset.preprocessing.resize"
_UNMEASURED: Final = "the cause was not measured; possible changes"
_WITHOUT_A_CORE: Final = 0.2
"""The share of the decoders' time above which they lack cores."""

_THROTTLED: Final = 0.1
"""The share of the steps' time above which the CPU limit is too low."""

_STARVED: Final = 0.5
"""The share of the steps in which GPUs wait for the program, above which it is the cause."""

_LARGE: Final = 1.5
"""The edge of a stored image, in edges of the network's, from which a smaller one is advised."""


class Cause(StrEnum):
    """What most of a wait was for; `WaitCause` of the status."""

    READS = "Reads"
    CORES = "Cores"
    DECODERS = "Decoders"
    LAUNCHES = "Launches"


def carried(
    former: DataWaitStatus | None, job: ImageNetJob, attempt: int, sample: Sample | None
) -> DataWaitStatus | None:
    """Return the comparison of the newest complete window; the former one without a window."""
    if sample is None or sample.attempt != attempt or sample.steps is None:
        return former
    return former if sample.steps.last is None else compared(job, sample.steps.last)


def compared(job: ImageNetJob, window: Steps) -> DataWaitStatus | None:
    """Return the comparison of a window of steps; None if its values are impossible."""
    if not (window.steps > 0 and window.images > 0 and 0 <= window.waited < window.seconds):
        return None
    share = window.waited / window.seconds
    busy = window.seconds_of_each * (1 - share)
    network = window.images / busy if busy > 0 else math.inf
    if network > COUNT_MAXIMUM:
        return None
    found = DataWaitStatus(
        images_per_second=round(network * (1 - share), 1),
        network_images_per_second=round(network, 1),
        share=round(share, 4),
    )
    why = cause(window) if is_too_long(found) else launches(window)
    named = None if why is None else why.value
    return found.model_copy(update={"cause": named, "message": message(job, found, why)})


def launches(window: Steps) -> Cause | None:
    """Return whether GPUs waited for the program to launch steps; None also if not measured."""
    return Cause.LAUNCHES if window.starved > _STARVED * window.launched else None


def cause(window: Steps) -> Cause | None:
    """Return what most of the wait of a window for data was for; None if that was not measured."""
    if window.read_waited > window.waited / 2:
        return Cause.READS
    if window.decode_waited <= window.waited / 2:
        return None
    without = window.decoded - window.decoded_cpu if window.decoded_cpu > 0 else 0.0
    is_throttled = window.throttled > _THROTTLED * window.seconds
    if is_throttled or without > _WITHOUT_A_CORE * window.decoded:
        return Cause.CORES
    return Cause.DECODERS


def is_visible(before: Sample, after: Sample) -> bool:
    """Whether a sample changes the comparison so much that it is worth a write."""
    old, new = _share(before), _share(after)
    if old is None or new is None:
        return old is not new
    return _has_moved(old, new)


def message(job: ImageNetJob, wait: DataWaitStatus, why: Cause | None = None) -> str:
    """Return a comparison in words, and what to change if the workers wait for too long."""
    workers, percent = _workers(job), round(100 * wait.share)
    is_one = workers == 1
    count = "the worker" if is_one else f"{workers:,} workers"
    speed = f"read{'s' if is_one else ''} {wait.images_per_second:,.0f} images/s"
    if not percent:
        speeds = f"{count} {speed} and {'does' if is_one else 'do'} not wait for data"
        return f"{speeds}; {advice(job, wait, why)}" if why else speeds
    whose = "GPU time waits" if job.spec.training.workers.gpus else "the workers' time waits"
    network = f"the network takes {wait.network_images_per_second:,.0f}"
    speeds = f"{count} {speed}, {network}: {percent} % of {whose}"
    return f"{speeds}; {advice(job, wait, why)}" if why or is_too_long(wait) else speeds


def is_worth_an_event(wait: DataWaitStatus) -> bool:
    """Whether something should be changed."""
    return wait.cause is not None or is_too_long(wait)


def is_too_long(wait: DataWaitStatus) -> bool:
    """Whether the workers wait so long that something should be changed."""
    return wait.share > TOO_LONG


def is_worth_a_write(old: DataWaitStatus | None, new: DataWaitStatus | None) -> bool:
    """Whether a new comparison alone is worth a write of the status."""
    if old is None or new is None:
        return old is not new
    return old.cause != new.cause or _has_moved(old.share, new.share)


def _has_moved(old: float, new: float) -> bool:
    return (old > TOO_LONG) != (new > TOO_LONG) or abs(new - old) > WORTH_A_WRITE


def _share(sample: Sample) -> float | None:
    """Return the share of the last window, as far as its values are possible."""
    window = None if sample.steps is None else sample.steps.last
    return None if window is None or not window.seconds > 0 else window.waited / window.seconds


def advice(job: ImageNetJob, wait: DataWaitStatus, why: Cause | None) -> str:
    """Return the cause and the fields to change, in words."""
    if why is Cause.LAUNCHES:
        change = "raise spec.training.batchSize"
        # Without a value it compiles already.
        if job.spec.training.compile is False:
            change = f"remove spec.training.compile, or {change}"
        return f"GPUs wait for the program to launch steps: {change}"
    if why is Cause.READS:
        return f"most of it for records to be read: {_faster_reads(job)}"
    needed = _more_cores(job, wait)
    if why is None:
        return f"{_UNMEASURED}: {f'{needed}, or ' if needed else ''}{_faster_reads(job)}"
    whom = "decoders that get no core" if why is Cause.CORES else "decoders, which all have a core"
    return f"most of it for {whom}: {needed or _raise_cores(job)}"


def _raise_cores(job: ImageNetJob) -> str:
    has_threads = job.spec.training.data_threads is not None
    return f"raise {f'{_THREADS} and ' if has_threads else ''}{_CPUS}{_or_smaller_images(job)}"


def _more_cores(job: ImageNetJob, wait: DataWaitStatus) -> str:
    """Return the advice to decode on more cores; empty if the job has what pack's measure asks."""
    training, dataset = job.spec.training, job.status.dataset
    core = None if dataset is None else dataset.decoded_images_per_second
    if not core:
        return _raise_cores(job)
    threads, cpus = training.data_threads, worker_memory.worker_cpus(training)
    processes = training.strategy.processes(training.workers.gpus)
    # Rounded up: a part of a core is one more thread.
    needed = math.ceil(wait.network_images_per_second / core / _workers(job))
    # Decoders leave a core to each process that trains.
    wanted = needed if threads is not None else needed + processes
    changes = []
    if threads is not None and threads * processes < needed:
        changes.append(f"raise {_THREADS} from {threads} to {math.ceil(needed / processes)}")
    if cpus is None:
        changes.append(f"write {_REQUEST}: {wanted}")
    elif cpus < wanted:
        changes.append(f"raise {_CPUS} from {cpus:g} to {wanted}")
    if not changes:
        return ""
    cores = "1 core" if needed == 1 else f"{needed:,} cores"
    beside = "" if threads is not None else " beside 1 for each process"
    return (
        f"{' and '.join(changes)} (decoding needs {cores} a worker{beside}, at {core:,.0f} "
        f"images/s a core){_or_smaller_images(job)}"
    )


def _faster_reads(job: ImageNetJob) -> str:
    """Return the advice for reading that is too slow although decoding is not."""
    source = job.spec.dataset.source.fields
    if source.remote_url is not None and job.spec.training.workers.cache is None:
        return "write spec.training.workers.cache"
    if source.remote_url is not None:
        return "use a faster spec.training.workers.cache"
    is_prepared = job.spec.dataset.volume is None
    field = "spec.dataset.source" if is_prepared else "spec.dataset.volume"
    return f"use a faster volume in {field}"


def _or_smaller_images(job: ImageNetJob) -> str:
    """Return the advice to store smaller images, if they are larger than the network needs."""
    dataset = job.spec.dataset
    model, resize = job.spec.training.model, dataset.preprocessing.resize
    edge = max(*model.training_sides, *model.validation_sides)
    if dataset.is_sealed or (resize is not None and resize < _LARGE * edge):
        return ""
    return f", or write a smaller {_RESIZE}" if resize else f", or write {_RESIZE}"


def _workers(job: ImageNetJob) -> int:
    """Return the workers of the attempt, which may have fewer than the job asks for."""
    attempt = job.status.training
    return (attempt.workers if attempt is not None else None) or job.spec.training.workers.replicas
