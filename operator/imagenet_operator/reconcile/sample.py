"""A sample: the metrics of a job's pods at one time, as one value for the decision.

A sampler beside the loop scrapes the pods (`scrape`) and calls `sample_of`. A reconcile takes
the newest sample as an input, and works without one. `api.figures` says which metric becomes which
figure.

A worker that writes a checkpoint may not answer in time, and a sum without it would be wrong. So
sums change only when all workers answer that are expected to. Rank 0's values stay while rank 0 may
be the one that is late. A sum is dropped when it is older than the longest checkpoint.

An image of a user's own may serve metrics on some workers only. A worker that has not answered
within that time since the first of its attempt did is not expected to answer.

One worker that advances is progress, whether the others answer or not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final

from imagenet_operator.api.figures import EPOCH, FIGURES, Combine
from imagenet_operator.manifests import labels
from imagenet_operator.reconcile import preparation_sample, step_window
from imagenet_operator.reconcile.comparison import Comparison, compared
from imagenet_operator.reconcile.preparation_sample import Preparation, preparation_by_role
from imagenet_operator.reconcile.scrape import BY_LABEL, Scrape, attempt_number, count, summed
from imagenet_operator.reconcile.step_window import StepWindow
from imagenet_spec import metrics

LONGEST_CHECKPOINT: Final = timedelta(minutes=5)
"""How long a worker may be silent before sums over all workers are dropped."""

_WORKER: Final = "worker"

_OF_RANK_0: Final = tuple(item for item in FIGURES if item.combine is Combine.RANK_0)
_SUMS: Final = tuple(item for item in FIGURES if item.combine is Combine.SUM)
_RATIOS: Final = tuple(item for item in FIGURES if item.combine is Combine.RATIO)
_SUMMED: Final = step_window.SERIES.union(*((item.metric, item.per) for item in _RATIOS))


@dataclass(frozen=True)
class Asked:
    """A pod that is asked for its metrics, whether it answers or not.

    Attributes:
        role: In its job.
        attempt: Its number; None for a pod of the preparation.
    """

    role: str
    attempt: int | None

    @classmethod
    def of_labels(cls, found: Mapping[str, str]) -> Asked:
        """Return what a pod's labels say that it is."""
        return cls(found.get(labels.JOB_ROLE, ""), attempt_number(found.get(labels.ATTEMPT, "")))


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
        figures: Field of `api.figures` → value, unrounded, as far as it is known.
        epochs: How many are planned.
        batch: Batches done in this epoch.
        batches_per_epoch: On every worker.
        whole_at: When all workers last answered that are expected to; sums are of that time.
        progressed_at: When a sample of this attempt last showed progress of a worker.
        steps: The last 100 steps or more of all workers.
        rank0_pod: The pod of the worker that last reported rank 0; empty before.
        phase: What rank 0 does, as its program calls it.
        seconds: Rank 0's time by phase; the first worker's, while no rank is known.
        preparation: By role: fetch, index, pack, seal.
        totals: What the next sample is compared with.
        comparison: Of the workers' times before an exchange of gradients.
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


def _metrics() -> frozenset[str]:
    training = (
        metrics.TRAIN_PHASE_WORK,
        metrics.TRAIN_RANK,
        metrics.TRAIN_EPOCHS,
        metrics.TRAIN_BATCH,
        metrics.TRAIN_BATCHES_PER_EPOCH,
    )
    figures = (name for item in FIGURES for name in (item.metric, item.per) if name)
    preparation = preparation_sample.SERIES.values()
    named = (metric.name for metric in training)
    return frozenset((*named, *BY_LABEL, *figures, *preparation, *step_window.SERIES))


METRICS: Final = _metrics()
"""Every series that the operator reads."""


def sample_of(
    scrapes: Mapping[str, Scrape],
    previous: Sample | None,
    now: datetime,
    asked: Mapping[str, Asked] = _ONLY_THOSE_THAT_ANSWERED,
) -> Sample:
    """Build the sample of a job from the scrapes of its pods.

    While no pod answers, the values of the previous sample stay.

    Args:
        scrapes: Pod name → what it answered.
        previous: The sample before this one.
        now: When the pods were scraped.
        asked: Pod name → what it is, of all running pods that were asked.
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
    is_silent = newest is not None and newest not in attempts
    since = _silent_since(previous, newest, now) if is_silent else None
    return replace(_without_old_sums(sample), asked=newest, silent_since=since)


def _attempts(pods: Iterable[Asked | Scrape]) -> set[int]:
    return {pod.attempt for pod in pods if pod.attempt is not None}


def _silent_since(previous: Sample | None, asked: int | None, now: datetime) -> datetime:
    """When the silence of an attempt that is silent now began."""
    if previous is None or previous.asked != asked or previous.silent_since is None:
        return now
    return previous.silent_since


def _with_training(
    bare: Sample,
    heard: Mapping[str, Scrape],
    attempt: int,
    previous: Sample | None,
    asked: Mapping[str, Asked],
) -> Sample:
    """Return a sample with the figures of an attempt."""
    former = Sample(bare.taken_at, heard_since=bare.taken_at)
    if previous is not None and previous.attempt == attempt:
        former = previous
    workers = {
        pod: item for pod, item in heard.items() if (item.role, item.attempt) == (_WORKER, attempt)
    }
    sample = replace(former, taken_at=bare.taken_at, preparation=bare.preparation, attempt=attempt)
    is_whole = _expected(sample, asked) <= workers.keys()
    rank0_pod = next(
        (pod for pod in workers if workers[pod].values.get(metrics.TRAIN_RANK.name) == 0), ""
    )
    first = workers.get(rank0_pod)
    if first is not None:
        sample = replace(sample, rank0_pod=rank0_pod)
    if first is not None or is_whole:
        sample = _with_rank_0(sample, first.values if first is not None else {})
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
    totals = sample.totals or Totals()
    sample = replace(sample, totals=replace(totals, work=_work(workers, former.totals)))
    return replace(sample, progressed_at=_progressed_at(sample, former))


def _expected(sample: Sample, asked: Mapping[str, Asked]) -> set[str]:
    """Return the workers of a sample's attempt without which there is no sum."""
    workers = {pod for pod, item in asked.items() if item == Asked(_WORKER, sample.attempt)}
    since, totals = sample.heard_since, sample.totals
    if since is None or totals is None or sample.taken_at - since <= LONGEST_CHECKPOINT:
        return workers
    return workers & totals.work.keys()


def _with_rank_0(former: Sample, values: Mapping[str, float]) -> Sample:
    """Return a sample with the values of the worker of rank 0."""
    figures = {item.field: item.number.accepted(values.get(item.metric)) for item in _OF_RANK_0}
    return replace(
        former,
        figures=_updated(former.figures, figures),
        epochs=count(values.get(metrics.TRAIN_EPOCHS.name)),
        batch=count(values.get(metrics.TRAIN_BATCH.name)),
        batches_per_epoch=count(values.get(metrics.TRAIN_BATCHES_PER_EPOCH.name)),
    )


def _with_sums(former: Sample, workers: list[Scrape]) -> Sample:
    """Return a sample with the values of all workers together."""
    figures = {item.field: item.number.accepted(summed(workers, item.metric)) for item in _SUMS}
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
        steps=step_window.advanced(former.steps, sums, former.position),
        totals=Totals(sums=sums),
    )


def _updated(former: Mapping[str, float], changes: Mapping[str, float | None]) -> dict[str, float]:
    """Return figures with changes; None removes one."""
    merged = {**former, **changes}
    return {name: value for name, value in merged.items() if value is not None}


def _without_old_sums(sample: Sample) -> Sample:
    """Return a sample without the values of all workers, if these are too old."""
    if sample.whole_at is None or sample.taken_at - sample.whole_at <= LONGEST_CHECKPOINT:
        return sample
    old = dict.fromkeys(item.field for item in (*_SUMS, *_RATIOS))
    return replace(sample, figures=_updated(sample.figures, old))


def _work(workers: Mapping[str, Scrape], former: Totals | None) -> dict[str, float]:
    """Return the most images and units of work that each worker reported in any sample.

    Older programs report images alone; evaluations and checkpoints do not increase them.
    """
    before = former.work if former is not None else {}
    series = (metrics.TRAIN_IMAGES.name, metrics.TRAIN_PHASE_WORK.name)
    work = {
        pod: sum(item.values.get(name, 0.0) for name in series) for pod, item in workers.items()
    }
    return {
        pod: max(work.get(pod, 0.0), before.get(pod, 0.0)) for pod in work.keys() | before.keys()
    }


def _progressed_at(sample: Sample, former: Sample) -> datetime:
    """When the attempt last advanced: now, unless nothing rose since the last sample."""
    if former.progressed_at is None or former.totals is None or sample.totals is None:
        return sample.taken_at
    before = former.totals.work
    advanced = any(count > before.get(pod, 0.0) for pod, count in sample.totals.work.items()) or (
        sample.epoch is not None
        and former.epoch is not None
        and (sample.epoch, sample.batch) != (former.epoch, former.batch)
    )
    return sample.taken_at if advanced else former.progressed_at
