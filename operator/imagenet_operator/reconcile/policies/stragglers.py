"""Stragglers: workers that compute for longer than the others before each exchange of gradients.

In a synchronous strategy every step takes as long as that of the slowest worker, so the time of a
step does not show who is slow. The time before the exchange does (`reconcile.windows`). A process
is named if it took `FACTOR` times the median over the latest windows together, and was clearly slow
in each of them: one long pause names no one. It is no longer named after as many windows below
`CLEARED`. Between the two nothing changes, so the status says who was named before. Stragglers are
reported; nothing is ended because of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Final

from imagenet_operator.reconcile.windows import Comparison
from imagenet_spec.resource.status import MemberStatus, Straggler, TrainingStatus

FACTOR: Final = 1.5
"""How many times the median a straggler takes."""

CLEARED: Final = 1.25
"""Below this factor a process is not slow in a window."""

MOST: Final = 16
"""How many stragglers a status has."""

REASON: Final = "SlowBeforeExchange"

_MOST_NAMED: Final = 3


def slowest(training: TrainingStatus, comparison: Comparison) -> tuple[Straggler, ...]:
    """Return the stragglers of an attempt, the slowest first.

    The factor of one that was named before stays: each change is a write of the status.
    """
    named = {(item.name, item.slot): item for item in training.stragglers or ()}
    slow = []
    for (pod, text), factors in comparison.factors.items():
        slot = int(text) if text else None
        if (pod, slot) in named and not _is_clear(factors):
            slow.append(named[pod, slot])
        elif _is_slow(factors):
            slow.append(Straggler(name=pod, slot=slot, factor=round(fmean(factors), 1)))
    slow.sort(key=lambda item: (-item.factor, item.name, item.slot or 0))
    return tuple(slow[:MOST])


def is_visible(before: Comparison | None, after: Comparison | None) -> bool:
    """Whether the stragglers of a status may change with a comparison."""
    return _marks(before) != _marks(after)


def message(training: TrainingStatus) -> str:
    """Return the stragglers of an attempt's status in words; there must be one."""
    found = training.stragglers or ()
    first, *others = [_described(item, training.members) for item in found[:_MOST_NAMED]]
    workers = sum(member.role == "worker" for member in training.members)
    of = f"{workers} workers" if all(item.slot is None for item in found) else "all processes"
    more = [f"{len(found) - _MOST_NAMED} more"] if len(found) > _MOST_NAMED else []
    sentence = f"{first} as long before each exchange of gradients as the median of {of}"
    return "; ".join([sentence, *others, *more])


def new(former: TrainingStatus, training: TrainingStatus) -> bool:
    """Whether a status names a straggler that the former one did not."""
    named = {(item.name, item.slot) for item in former.stragglers or ()}
    return any((item.name, item.slot) not in named for item in training.stragglers or ())


def _described(straggler: Straggler, members: Sequence[MemberStatus]) -> str:
    node = next((member.node for member in members if member.name == straggler.name), None)
    where = f" on node {node}" if node else ""
    slot = "" if straggler.slot is None else f"slot {straggler.slot} of "
    worker = f"worker {straggler.name.rpartition('-')[2]}"
    return f"{slot}{worker} (pod {straggler.name}{where}) takes {straggler.factor:g} times"


def _is_slow(factors: Sequence[float]) -> bool:
    return min(factors) >= CLEARED and fmean(factors) >= FACTOR


def _is_clear(factors: Sequence[float]) -> bool:
    return max(factors) < CLEARED


def _marks(comparison: Comparison | None) -> object:
    """Return what the stragglers of a status follow from, beside that status."""
    if comparison is None:
        return {}
    factors = comparison.factors
    return {key: (_is_slow(item), _is_clear(item)) for key, item in factors.items()}
