"""Elastic workers: with `workers.minReplicas`, attempts may differ in their number of workers.

All attempts train the same images in the same order. So the order must be the same for any number
of workers, and its lanes (docs/order.md) and the batch must be divisible by the number.
"""

from __future__ import annotations

from typing import Annotated, Any

from annotated_types import Ge, Le

from imagenet_spec.order import DIVISORS, LANES
from imagenet_spec.resource.base import DefaultWhenRead, Model, Unit
from imagenet_spec.resource.capabilities import IN_ORDER_CEL
from imagenet_spec.resource.fields import Seconds
from imagenet_spec.resource.strategies import DEVICES_CEL
from imagenet_spec.rules import Rule
from imagenet_spec.strategies import STRATEGIES

CHANGES_MAXIMUM = 60
"""The largest `maxChangesPerHour`; a status has one time for each change."""

_FIELD = "workers.minReplicas"
_FIXED = "!has(self.workers.minReplicas) || "
_ELASTIC = [kind for kind, strategy in STRATEGIES.items() if strategy.is_elastic]


class ElasticPolicy(Model):
    """When the number of workers changes."""

    wait_seconds: Annotated[Seconds, DefaultWhenRead()] = 300
    """The time in which all members of an attempt must be bound; the next attempt then has fewer
    workers. It replaces `scheduleTimeoutSeconds`, and applies to both kinds of gang."""

    max_changes_per_hour: Annotated[
        int, Ge(0), Le(CHANGES_MAXIMUM), Unit("changes"), DefaultWhenRead()
    ] = 4
    """The job gets more workers only if their number has changed less often in the last hour."""


DEFAULT_POLICY = ElasticPolicy()


def policy(training: Any) -> ElasticPolicy:
    """Return when the number of workers changes, by `spec.training` of an elastic job."""
    given: ElasticPolicy | None = training.workers.elastic
    return given or DEFAULT_POLICY


def is_elastic(training: Any) -> bool:
    """Whether attempts may differ in their number of workers, by `spec.training`."""
    return training.workers.min_replicas is not None


def worker_counts(training: Any) -> tuple[int, ...]:
    """Return the numbers of workers that an attempt may have, in ascending order.

    Without `minReplicas` it is `replicas`, and so it is for a stored job that has no such number.
    """
    workers = training.workers
    if not is_elastic(training):
        return (workers.replicas,)
    span = range(workers.min_replicas, workers.replicas + 1)
    return tuple(number for number in _dividing(training) if number in span) or (workers.replicas,)


def _dividing(training: Any) -> tuple[int, ...]:
    devices = training.strategy.devices(training.workers.gpus)
    return tuple(number for number in DIVISORS if training.batch_size % (number * devices) == 0)


def _explain_counts(training: Any) -> tuple[str, str]:
    workers, batch = training.workers, training.batch_size
    devices = training.strategy.devices(workers.gpus)
    dividing = _dividing(training)
    below = [number for number in dividing if number < workers.min_replicas]
    above = [number for number in dividing if number > workers.replicas]
    remedies = [
        *([f"minReplicas: {below[-1]}"] if below else []),
        *([f"replicas: {above[0]}"] if above else []),
    ]
    remedies = remedies or [_other_batch(workers, devices)]
    each = "" if devices == 1 else f", times {devices} devices,"
    return (
        f"no number of workers from {workers.min_replicas} to {workers.replicas} divides {LANES}"
        f" and{each} batchSize {batch}",
        f"write {' or '.join(remedies)}",
    )


def _other_batch(workers: Any, devices: int) -> str:
    """Return what to write if no number of workers at all divides the batch."""
    least = [number for number in DIVISORS if workers.min_replicas <= number <= workers.replicas]
    if least:
        return f"a batchSize that is divisible by {least[0] * devices}"
    below = max(number for number in DIVISORS if number < workers.min_replicas)
    return f"minReplicas: {below} with a batchSize that is divisible by {below * devices}"


WORKERS_RULES = (
    Rule(
        cel="!has(self.minReplicas) || self.minReplicas <= self.replicas",
        message="must be at most replicas",
        field="minReplicas",
        explain=lambda workers: (
            f"must be at most replicas, which is {workers.replicas}",
            f"write {workers.replicas} or less",
        ),
    ),
    Rule(
        cel="!has(self.elastic) || has(self.minReplicas)",
        message="needs minReplicas",
        field="elastic",
        hint="write the least number of workers as minReplicas",
    ),
)
"""The rules for `spec.training.workers`."""

RULES = (
    Rule(
        cel=(
            f"{_FIXED}self.workers.minReplicas > self.workers.replicas"
            f" || {list(DIVISORS)}.exists(n, n >= self.workers.minReplicas"
            f" && n <= self.workers.replicas && self.batchSize % (n * {DEVICES_CEL}) == 0)"
        ),
        message=(
            f"must leave a number of workers, up to replicas, that divides {LANES} and, times the"
            " devices of a worker, batchSize"
        ),
        field=_FIELD,
        explain=_explain_counts,
    ),
    Rule(
        cel=_FIXED + " || ".join(f"has(self.strategy.{kind})" for kind in _ELASTIC),
        message=f"must be absent except with the strategies {', '.join(_ELASTIC)}",
        field=_FIELD,
        hint="remove minReplicas",
    ),
    Rule(
        cel=(
            f"{_FIXED}!has(self.strategy.parameterServer)"
            " || self.strategy.parameterServer.kvStore != 'dist_async'"
        ),
        message="must not be dist_async with workers.minReplicas: its workers take no common steps",
        field="strategy.parameterServer.kvStore",
        hint="write kvStore: dist_sync, or remove workers.minReplicas",
    ),
    Rule(
        cel=f"{_FIXED}{IN_ORDER_CEL}",
        message=(
            "must be Ordered with workers.minReplicas, without augmentations that only"
            " ImageRecordIter has"
        ),
        field="reader",
        hint="write reader: Ordered, or remove workers.minReplicas",
    ),
    Rule(
        cel=f"{_FIXED}!has(self.deterministic) || !self.deterministic",
        message=(
            "must not be true with workers.minReplicas: another number of workers gives other bits"
        ),
        field="deterministic",
        hint="remove deterministic or workers.minReplicas",
    ),
)
"""The rules for `spec.training`."""
