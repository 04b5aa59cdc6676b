"""Which Leases an operator holds, which others overlap with them, and who holds those.

All operators of a cluster keep their Leases in one namespace, so that they find each other. An
operator of listed namespaces holds one Lease for each of them, any other operator a single one.

A Lease is judged by when this process saw it change, as in client-go. The times in it come from
another machine's clock, and only show that it has changed.
"""

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from imagenet_operator.api.base import Manifest

NAME: Final = "imagenet-operator"
"""The Lease of an operator of all namespaces; the chart's roles name it too."""


@dataclass(frozen=True)
class Scope:
    """The Leases of one operator.

    Attributes:
        names: The names of its Leases, in alphabetical order.
    """

    names: tuple[str, ...]

    @classmethod
    def of(cls, namespaces: Sequence[str]) -> "Scope":
        """Return the scope of an operator of these namespaces; empty for all."""
        return cls(tuple(f"{NAME}.{item}" for item in sorted(set(namespaces))) or (NAME,))

    def overlaps(self, lease: str) -> bool:
        """Whether the holder of a Lease runs jobs that this operator would run too."""
        if NAME in self.names:
            return lease.startswith(f"{NAME}.") or lease == NAME
        return lease in self.names or lease == NAME


def jobs_of(lease: str) -> str:
    """Return which jobs the holder of a Lease runs, in words."""
    namespace = lease.removeprefix(NAME).removeprefix(".")
    return f"the namespace {namespace}" if namespace else "all namespaces"


@dataclass(frozen=True)
class _Seen:
    """What a Lease said, and since when by this process's monotonic clock."""

    spec: dict[str, Any]
    since: float


class Observations:
    """The Leases as this process has seen them."""

    def __init__(self) -> None:
        self._stored: dict[str, Manifest] = {}
        self._seen: dict[str, _Seen] = {}

    def replace(self, items: Iterable[Manifest]) -> None:
        """Take a list of all Leases.

        One that is missing stays held until it would have expired: its holder may not know yet.
        """
        self._stored.clear()
        for item in items:
            self.put(item)

    def put(self, item: Manifest) -> None:
        """Take one Lease as the API server has just sent it."""
        name, spec = item["metadata"]["name"], item.get("spec") or {}
        self._stored[name] = item
        if name not in self._seen or self._seen[name].spec != spec:
            self._seen[name] = _Seen(spec, time.monotonic())

    def stored(self, name: str) -> Manifest | None:
        """Return a Lease as it is stored."""
        return self._stored.get(name)

    def holders(self, scope: Scope) -> dict[str, str]:
        """Return the Leases of a scope, and those that overlap with it, that are held: by whom."""
        now = time.monotonic()
        return {
            name: seen.spec["holderIdentity"]
            for name, seen in sorted(self._seen.items())
            if scope.overlaps(name) and seen.spec.get("holderIdentity") and now < _expiry(seen)
        }

    def next_expiry(self, names: Iterable[str]) -> float:
        """Return when the first of these Leases expires, by the monotonic clock; never if none."""
        return min((_expiry(self._seen[name]) for name in names), default=math.inf)


def _expiry(seen: _Seen) -> float:
    return seen.since + float(seen.spec.get("leaseDurationSeconds") or 0)
