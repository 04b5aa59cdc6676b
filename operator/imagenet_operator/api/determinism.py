"""Rules of `deterministic: true`: what cannot give the same bits each time is refused.

With two workers, a sum of gradients has the same bits in any order. MXNet's servers sum in the
order of arrival, in its compiled code. So `parameterServer` takes at most two workers. Servers
that sum in the order of ranks would have to be written and maintained outside MXNet.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from imagenet_operator.api.base import Rule
from imagenet_operator.api.capabilities import unchanged_cel
from imagenet_spec.program.train import ONLY_IMAGE_RECORD_ITER

MOST_WORKERS = 2
"""Workers of `parameterServer`."""

_OFF = "!(has(self.deterministic) && self.deterministic) || "
_ELSEWHERE = "!has(self.strategy.parameterServer) || "


def _only_deterministic(holds: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda training: not training.deterministic or holds(training)


IN_ORDER_CEL = (
    f"(has(self.reader) ? self.reader == 'Ordered' : ({unchanged_cel(ONLY_IMAGE_RECORD_ITER)}))"
)
"""`reads_in_order` as a CEL expression over `spec.training`."""


def reads_in_order(training: Any) -> bool:
    """Whether the ordered reader reads the records, named or by default."""
    if training.reader is not None:
        return bool(training.reader == "Ordered")
    return not any(getattr(training.augmentation, name) for name in ONLY_IMAGE_RECORD_ITER)


def _store(training: Any) -> Any:
    server = training.strategy.parameter_server
    return None if server is None else server.kv_store


RULES = (
    Rule(
        cel=f"{_OFF}!(has(self.compile) && self.compile)",
        message="must not be true with deterministic: compiled code may differ each time",
        hint="remove compile or deterministic",
        field="compile",
        holds=_only_deterministic(lambda training: not training.compile),
    ),
    Rule(
        cel=f"{_OFF}{_ELSEWHERE}self.strategy.parameterServer.kvStore != 'dist_async'",
        message="must not be dist_async with deterministic: it applies gradients as they arrive",
        hint="write kvStore: dist_sync, or remove deterministic",
        field="strategy.parameterServer.kvStore",
        holds=_only_deterministic(lambda training: _store(training) != "dist_async"),
    ),
    Rule(
        cel=f"{_OFF}{_ELSEWHERE}self.workers.replicas <= {MOST_WORKERS}",
        message=(
            f"must be at most {MOST_WORKERS} with parameterServer and deterministic: servers sum "
            "in the order of arrival"
        ),
        hint=f"write replicas: {MOST_WORKERS}, or another strategy",
        field="workers.replicas",
        holds=_only_deterministic(
            lambda training: _store(training) is None or training.workers.replicas <= MOST_WORKERS
        ),
    ),
    Rule(
        cel=f"{_OFF}{IN_ORDER_CEL}",
        message="must be Ordered with deterministic, without augmentations that only "
        "ImageRecordIter has",
        hint="write reader: Ordered",
        field="reader",
        holds=_only_deterministic(reads_in_order),
    ),
)
