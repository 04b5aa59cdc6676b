"""A sample: the metrics of a job's pods at one time, as one value for the decision.

A sampler beside the loop scrapes the pods (`scrape`) and calls `sample_of`. A reconcile takes the
newest sample as an input, and works without one. `figures` says which metric becomes which figure.

A worker that writes a checkpoint may not answer in time, and a sum without it would be wrong. So
sums change only when all workers answer that are expected to. Rank 0's values stay while rank 0 may
be the one that is late. A sum is dropped when it is older than the longest checkpoint.

A custom image may serve metrics on some workers only. A worker that has not answered within that
time since the first of its attempt did is not expected to answer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from statistics import fmean
from types import MappingProxyType
from typing import Final

from imagenet_operator.manifests import labels
from imagenet_operator.reconcile import windows
from imagenet_operator.reconcile.scrape import BY_LABEL, Scrape, attempt_number, count, summed
from imagenet_operator.reconcile.windows import Comparison, StepWindow, compared
from imagenet_spec import metrics
from imagenet_spec.resource.figures import EPOCH, FIGURES, Combine

PREPARATION_SERIES: Final[Mapping[str, str]] = {
    "images": metrics.PREPARE_IMAGES.name,
    "planned": metrics.PREPARE_IMAGES_PLANNED.name,
    "bytes": metrics.PREPARE_BYTES.name,
    "skipped": metrics.PREPARE_SKIPPED_IMAGES.name,
    "fetched": metrics.PREPARE_FETCHED_BYTES.name,
    "to_fetch": metrics.PREPARE_FETCH_PLANNED_BYTES.name,
    "fetch_files": metrics.PREPARE_FETCH_FILES.name,
    "asked_files": metrics.PREPARE_FETCH_ASKED_FILES.name,
    "listing_requests": metrics.PREPARE_LISTING_REQUESTS.name,
    "listing_bytes": metrics.PREPARE_LISTING_BYTES.name,
    "listing_seconds": metrics.PREPARE_LISTING_SECONDS.name,
    "packing_requests": metrics.PREPARE_PACKING_REQUESTS.name,
    "packing_bytes": metrics.PREPARE_PACKING_BYTES.name,
    "packing_seconds": metrics.PREPARE_PACKING_SECONDS.name,
}
"""The series of the preparation that the operator reads, by the attribute of `Preparation`."""


@dataclass(frozen=True)
class Preparation:
    """The progress of one role of the preparation, over its pods that answered; 0 if unknown.

    Attributes:
        planned: To be done by these pods, as far as they know.
        skipped: Damaged images left out.
        fetched: Bytes of the source's files in the cache.
        fetch_speed: Bytes per second, over the last minutes.
        listing_requests: Of listing an archive on a server, estimated.
        packing_requests: Of reading its images, estimated.
        packing_seconds: In one pod.
    """

    images: int = 0
    planned: int = 0
    bytes: int = 0
    skipped: int = 0
    fetched: int = 0
    to_fetch: int = 0
    fetch_speed: float = 0.0
    fetch_files: int = 0
    asked_files: int = 0
    listing_requests: int = 0
    listing_bytes: int = 0
    listing_seconds: int = 0
    packing_requests: int = 0
    packing_bytes: int = 0
    packing_seconds: int = 0


def preparation_by_role(
    heard: Collection[Scrape], before: Mapping[str, Preparation] | None, seconds: float
) -> dict[str, Preparation]:
    """Return the progress of each role of which a pod answered, `seconds` after the last sample."""
    found = {
        role: Preparation(
            **{
                name: count(summed(pods, PREPARATION_SERIES[name])) or 0
                for name in PREPARATION_SERIES
            }
        )
        for role in ("fetch", "index", "pack", "seal")
        if (pods := [item for item in heard if item.role == role])
    }
    if "fetch" in found and seconds > 0:
        fetch, former = found["fetch"], (before or {}).get("fetch")
        if former is not None:
            # A moving average over the samples.
            speed = max(0, fetch.fetched - former.fetched) / seconds
            if former.fetch_speed:
                speed = (speed + 3 * former.fetch_speed) / 4
            found["fetch"] = replace(fetch, fetch_speed=speed)
    return found


LONGEST_CHECKPOINT: Final = timedelta(minutes=5)
"""How long a worker may be silent before sums over all workers are dropped."""

_WORKER: Final = "worker"

_OF_RANK_0: Final = tuple(item for item in FIGURES if item.combine is Combine.RANK_0)
_SUMS: Final = tuple(item for item in FIGURES if item.combine is Combine.SUM)
_MEANS: Final = tuple(item for item in FIGURES if item.combine is Combine.MEAN)
_RATIOS: Final = tuple(item for item in FIGURES if item.combine is Combine.RATIO)
_SUMMED: Final = windows.SERIES.union(*((item.metric, item.per) for item in _RATIOS))


@dataclass(frozen=True)
class Asked:
    """A pod that is asked for its metrics, whether it answers or not.

    `attempt` is None for a pod of the preparation.
    """

    role: str
    attempt: int | None

    @classmethod
    def of_labels(cls, pod_labels: Mapping[str, str]) -> Asked:
        return cls(
            pod_labels.get(labels.JOB_ROLE, ""), attempt_number(pod_labels.get(labels.ATTEMPT, ""))
        )


_ONLY_THOSE_THAT_ANSWERED: Final[Mapping[str, Asked]] = MappingProxyType({})


@dataclass(frozen=True)
class Sample:
    """The metrics of a job's pods at one time. None means that no pod reported it.

    Attributes:
        taken_at: When the pods were asked; values may be older, if no pod answered now.
        asked: The newest attempt of which pods were asked; None if there was none.
        silent_since: Since when none of them has answered; None if one did.
        attempt: The newest attempt of which a pod answered; training figures are of it alone.
        heard_since: When a pod of this attempt first answered.
        figures: Field of `resource.figures` → value, unrounded, as far as it is known.
        whole_at: When all workers last answered that are expected to; sums are of that time.
        progressed_at: When a sample of this attempt last showed progress of a worker.
        steps: The last 100 steps or more of all workers.
        rank0_pod: The pod of the worker that last reported rank 0; empty before.
        phase: What rank 0 does, as its program calls it.
        seconds: Rank 0's time by phase; the first worker's, while no rank is known.
        left_out: The pods whose metrics exceed a limit, in words; empty if there are none.
    """

    taken_at: datetime
    asked: int | None = None
    silent_since: datetime | None = None
    attempt: int | None = None
    heard_since: datetime | None = None
    figures: Mapping[str, float] = field(default_factory=dict)
    epochs: int | None = None
    batch: int | None = None
    batches_per_epoch: int | None = None
    whole_at: datetime | None = None
    progressed_at: datetime | None = None
    steps: StepWindow | None = None
    rank0_pod: str = ""
    phase: str = ""
    seconds: Mapping[str, float] = field(default_factory=dict)
    preparation: Mapping[str, Preparation] | None = None
    totals: Totals | None = None
    comparison: Comparison | None = None
    left_out: str = ""

    @property
    def epoch(self) -> int | None:
        """The epoch that rank 0 trains, from 0."""
        value = self.figures.get(EPOCH)
        return None if value is None else int(value)

    @property
    def position(self) -> int | None:
        """The steps of rank 0 since the beginning of its first epoch."""
        if self.epoch is None or self.batch is None or self.batches_per_epoch is None:
            return None
        return self.epoch * self.batches_per_epoch + self.batch


@dataclass(frozen=True)
class Totals:
    """The running totals of a sample, which the next one is compared with.

    Attributes:
        work: Pod name → the most images and units of work that it reported in any sample. Pods that
            do not answer stay, so that their next answer is not mistaken for progress.
        sums: Series of a ratio or a window → sum over the workers, when all of them last answered.
    """

    work: Mapping[str, float] = field(default_factory=dict)
    sums: Mapping[str, float] = field(default_factory=dict)


METRICS: Final = windows.SERIES.union(
    (
        metrics.TRAIN_PHASE_WORK.name,
        metrics.TRAIN_RANK.name,
        metrics.TRAIN_EPOCHS.name,
        metrics.TRAIN_BATCH.name,
        metrics.TRAIN_BATCHES_PER_EPOCH.name,
    ),
    BY_LABEL,
    (name for item in FIGURES for name in (item.metric, item.per) if name),
    PREPARATION_SERIES.values(),
)
"""Every series that the operator reads."""


def sample_of(
    scrapes: Mapping[str, Scrape],
    previous: Sample | None,
    now: datetime,
    asked: Mapping[str, Asked] = _ONLY_THOSE_THAT_ANSWERED,
) -> Sample:
    """Build the sample of a job from the scrapes of its pods.

    While no pod answers, the values of the previous sample stay. `asked` has all running pods that
    were asked, `scrapes` those that answered, both by name.
    """
    heard = dict(sorted(scrapes.items()))
    before = Sample(now) if previous is None else previous
    passed = (now - before.taken_at).total_seconds()
    preparation = preparation_by_role(heard.values(), before.preparation, passed)
    attempts = _attempts(heard.values())
    if not attempts and not preparation and previous is not None:
        sample = replace(previous, taken_at=now)
    else:
        sample = Sample(taken_at=now, preparation=preparation or None)
    if attempts:
        sample = _with_training(sample, heard, max(attempts), previous, asked)
    newest = max(_attempts(asked.values()), default=None)
    since = None
    if newest is not None and newest not in attempts:
        since = (before.silent_since if before.asked == newest else None) or now
    if sample.whole_at is not None and sample.taken_at - sample.whole_at > LONGEST_CHECKPOINT:
        old = dict.fromkeys(item.field for item in (*_SUMS, *_MEANS, *_RATIOS))
        sample = replace(sample, figures=_updated(sample.figures, old))
    return replace(sample, asked=newest, silent_since=since)


def _attempts(pods: Iterable[Asked | Scrape]) -> set[int]:
    return {pod.attempt for pod in pods if pod.attempt is not None}


def _with_training(
    bare: Sample,
    heard: Mapping[str, Scrape],
    attempt: int,
    previous: Sample | None,
    asked: Mapping[str, Asked],
) -> Sample:
    former = Sample(bare.taken_at, heard_since=bare.taken_at)
    if previous is not None and previous.attempt == attempt:
        former = previous
    workers = {
        pod: item for pod, item in heard.items() if (item.role, item.attempt) == (_WORKER, attempt)
    }
    sample = replace(former, taken_at=bare.taken_at, preparation=bare.preparation, attempt=attempt)
    # Without these workers there is no sum.
    expected = {pod for pod, item in asked.items() if item == Asked(_WORKER, attempt)}
    is_late = sample.taken_at - (sample.heard_since or sample.taken_at) > LONGEST_CHECKPOINT
    if is_late and sample.totals is not None:
        expected &= sample.totals.work.keys()
    is_whole = expected <= workers.keys()
    rank0_pod = next(
        (pod for pod in workers if workers[pod].values.get(metrics.TRAIN_RANK.name) == 0), ""
    )
    first = workers.get(rank0_pod)
    if first is not None:
        sample = replace(sample, rank0_pod=rank0_pod)
    if first is not None or is_whole:
        values = first.values if first is not None else {}
        figures = {item.field: item.number.accepted(values.get(item.metric)) for item in _OF_RANK_0}
        sample = replace(
            sample,
            figures=_updated(sample.figures, figures),
            epochs=count(values.get(metrics.TRAIN_EPOCHS.name)),
            batch=count(values.get(metrics.TRAIN_BATCH.name)),
            batches_per_epoch=count(values.get(metrics.TRAIN_BATCHES_PER_EPOCH.name)),
        )
    # Rank 0 is unknown while workers resume.
    doing = [item.phase for item in (first, *workers.values()) if item is not None and item.phase]
    sample = replace(sample, phase=doing[0] if doing else former.phase)
    seconds = [item.seconds for item in (first, *workers.values()) if item and item.seconds]
    if first is not None or former.figures.get(EPOCH) is None:
        sample = replace(sample, seconds=seconds[0] if seconds else former.seconds)
    if is_whole:
        times = {pod: item.before_exchange for pod, item in workers.items()}
        found = compared(sample.comparison, times, sample.taken_at)
        sample = replace(_with_sums(sample, list(workers.values())), comparison=found)
    # Older programs report images alone; evaluations and checkpoints do not increase them.
    before = former.totals.work if former.totals is not None else {}
    series = (metrics.TRAIN_IMAGES.name, metrics.TRAIN_PHASE_WORK.name)
    work = dict(before)
    for pod, item in workers.items():
        done = sum(item.values.get(name, 0.0) for name in series)
        work[pod] = max(done, before.get(pod, 0.0))
    # The attempt has advanced now, unless nothing rose since the last sample.
    has_advanced = (
        former.progressed_at is None
        or former.totals is None
        or any(done > before.get(pod, 0.0) for pod, done in work.items())
        or (
            sample.epoch is not None
            and former.epoch is not None
            and (sample.epoch, sample.batch) != (former.epoch, former.batch)
        )
    )
    return replace(
        sample,
        totals=replace(sample.totals or Totals(), work=work),
        progressed_at=sample.taken_at if has_advanced else former.progressed_at,
    )


def _with_sums(former: Sample, workers: list[Scrape]) -> Sample:
    figures = {item.field: item.number.accepted(summed(workers, item.metric)) for item in _SUMS}
    for item in _MEANS:
        known = [pod.values[item.metric] for pod in workers if item.metric in pod.values]
        figures[item.field] = item.number.accepted(fmean(known)) if known else None
    before = former.totals or Totals()
    sums = {name: summed(workers, name) or 0.0 for name in _SUMMED}
    for item in _RATIOS:
        of = sums[item.metric] - before.sums.get(item.metric, 0.0)
        per = sums[item.per] - before.sums.get(item.per, 0.0)
        value = former.figures.get(item.field) if per <= 0 else item.number.clamped(of / per)
        figures[item.field] = value
    return replace(
        former,
        whole_at=former.taken_at,
        figures=_updated(former.figures, figures),
        steps=windows.advanced(former.steps, sums, former.position),
        totals=Totals(sums=sums),
    )


def _updated(former: Mapping[str, float], changes: Mapping[str, float | None]) -> dict[str, float]:
    """Return figures with changes; None removes one."""
    merged = {**former, **changes}
    return {name: value for name, value in merged.items() if value is not None}
