"""Leader election: one process at a time acts for a namespace, as the holder of its Lease.

The semantics are those of client-go. `operator` acquires the Leases when its caches are synced, and
begins to work after that. While it works, `hold` renews them; if that fails for too long, or if
another process has taken one, the operator ends. The fence keeps its last requests from being
carried out after that. docs/decisions/0010-leader-election.md gives the reasons.

An operator of all namespaces and one of a single namespace hold different Leases. So each first
writes its own ones and then looks for the other's: of two that start at once, at least one sees the
other, gives up its Leases and waits. All of a cluster keep their Leases in one namespace, so that
they find each other.

A Lease is judged by when this process saw it change, as in client-go. The times in it come from
another machine's clock, and only show that it has changed.
"""

import asyncio
import contextlib
import logging
import math
import random
import secrets
import socket
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from imagenet_operator.clusters.kubernetes import metrics
from imagenet_operator.clusters.kubernetes.client import (
    CONFLICT,
    NOT_FOUND,
    TIMES,
    ApiError,
    Client,
    Fence,
    LeaseTimes,
)
from imagenet_operator.clusters.kubernetes.objects import LEASE
from imagenet_spec.errors import ImageNetJobError
from imagenet_spec.resource.base import Manifest

LOGGER = logging.getLogger(__name__)

NAME: Final = "imagenet-operator"
"""The Lease of an operator of all namespaces; the chart's roles name it too."""

_RELEASE_SECONDS: Final = 1.0
_ANSWER_SECONDS: Final = 5.0
"""How long a release waits for the answers of requests under way."""

_JITTER: Final = 0.5
"""By which share a wait is shortened at random, so that two operators do not stay in step."""


@dataclass(frozen=True)
class Scope:
    """The Leases of one operator, in alphabetical order."""

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
        name, spec = item["metadata"]["name"], item.get("spec") or {}
        self._stored[name] = item
        if name not in self._seen or self._seen[name].spec != spec:
            self._seen[name] = _Seen(spec, time.monotonic())

    def stored(self, name: str) -> Manifest | None:
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


class LeaseLost(ImageNetJobError):  # noqa: N818 - says what has happened
    """This process may not act any more."""


class LeaderElection:
    """Acquires, renews and releases the Leases of one operator.

    No other requests may delay those of its client, which has no fence. The fence is that of the
    operator. All operators of the cluster have their Leases in one namespace; `watched` are those
    whose jobs this one runs, empty for all.

    Attributes:
        identity: The name of this process in its Leases.
        trouble: Why the Leases cannot be read; empty if they can.
    """

    def __init__(
        self,
        client: Client,
        namespace: str,
        watched: Sequence[str],
        fence: Fence,
        times: LeaseTimes = TIMES,
    ) -> None:
        self.identity = f"{socket.gethostname()}_{secrets.token_hex(4)}"
        self.trouble = f"leases in {namespace} are not listed yet"
        self._client = client
        self._namespace = namespace
        self._scope = Scope.of(watched)
        self._fence = fence
        self._times = times
        self._observed = Observations()
        self._renewed_at = -math.inf
        self._blocked_until = math.inf
        self._reported: dict[str, str] = {}
        self._complaint = ""
        self._set_leader(False)

    # ------------------------------------------------------------------ acquire

    async def acquire(self) -> None:
        while not await self._try():
            await asyncio.sleep(self._pause())
        self._set_leader(True)
        LOGGER.info("leads %s as %s", _listed(self._scope.names), self.identity)

    async def _try(self) -> bool:
        """Acquire the Leases if no other process holds one; return whether that succeeded."""
        # After a failure, an expiry of before must not shorten the pause to nothing.
        self._blocked_until = math.inf
        try:
            async with asyncio.timeout(self._times.renew_deadline):
                await self._observe()
                rivals = self._rivals()
                self._blocked_until = self._observed.next_expiry(rivals)
                if rivals:
                    return False
                asked_at = time.monotonic()
                if await self._take() and not self._rivals():
                    self._extend(asked_at)
                    return True
        except (ApiError, TimeoutError) as error:
            self._complain(error)
        await self.release()
        return False

    async def _take(self) -> bool:
        """Write the Leases, then look who else holds one; return whether all were written."""
        for name in self._scope.names:
            try:
                await self._write(name, self.identity)
            except ApiError as error:
                if error.code != CONFLICT:
                    raise
                return False
        await self._observe()
        return True

    def _pause(self) -> float:
        """Return the seconds until the next attempt: not later than a Lease expires."""
        pause = self._times.retry_period * random.uniform(1 - _JITTER, 1)
        return max(min(pause, self._blocked_until - time.monotonic()), 0.0)

    def _rivals(self) -> dict[str, str]:
        """Return the Leases that other processes hold, and their holders; report changes."""
        holders = self._observed.holders(self._scope)
        self._report(holders)
        return {name: holder for name, holder in holders.items() if holder != self.identity}

    # ------------------------------------------------------------------ hold

    async def hold(self) -> None:
        """Renew the Leases until cancelled; raise LeaseLost if one is taken or expires."""
        while True:
            await asyncio.sleep(self._times.retry_period)
            left = self._renewed_at + self._times.renew_deadline - time.monotonic()
            renewed = False
            # If this process was stopped for long, the holder of another Lease may lead by now.
            if left > 0:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(left):
                        renewed = await self._renew()
            if not renewed:
                self._lose(f"it was not renewed for {self._times.renew_deadline:g} s")

    async def _renew(self) -> bool:
        while True:
            asked_at = time.monotonic()
            outcomes = await asyncio.gather(
                *(self._write(name, self.identity) for name in self._scope.names),
                return_exceptions=True,
            )
            failures = [outcome for outcome in outcomes if outcome is not None]
            if not failures:
                self._extend(asked_at)
                return True
            for failure in failures:
                await self._handle(failure)
            await asyncio.sleep(self._times.retry_period * random.uniform(1 - _JITTER, 1))

    async def _handle(self, failure: BaseException) -> None:
        """Raise LeaseLost if another process has taken a Lease, which is why a renewal failed."""
        if not isinstance(failure, ApiError):
            raise failure
        self._complain(failure)
        if failure.code not in (CONFLICT, NOT_FOUND):
            return
        # This process may have renewed it without hearing the answer; a missing one is created.
        try:
            await self._observe()
        except ApiError as error:
            self._complain(error)
            return
        for name, rival in self._rivals().items():
            if name in self._scope.names:
                self._lose(f"{rival} has taken {name}")

    def _lose(self, why: str) -> None:
        self._fence.close()
        self._set_leader(False)
        raise LeaseLost(f"the lease is lost: {why}")

    # ------------------------------------------------------------------ release

    async def release(self) -> None:
        """Give up the Leases that this process holds, so that another one need not wait.

        Requests under way get their answers first. Without the answer of one, it keeps the Leases
        until they expire, because the API server may still carry it out.
        """
        self._fence.close()
        self._set_leader(False)
        if not await self._fence.settle(_ANSWER_SECONDS):
            return
        try:
            async with asyncio.timeout(_RELEASE_SECONDS):
                while not await self._clear():
                    pass
        except (ApiError, TimeoutError) as error:
            self._complain(error)

    async def _clear(self) -> bool:
        """Remove this process from its Leases; return whether no renewal came between."""
        # The last renewal may have been cut off, so its answer is not known.
        await self._observe()
        try:
            for name in self._scope.names:
                spec = (self._observed.stored(name) or {}).get("spec") or {}
                if spec.get("holderIdentity") == self.identity:
                    await self._write(name, None)
        except ApiError as error:
            if error.code != CONFLICT:
                raise
            return False
        return True

    # ------------------------------------------------------------------ requests

    async def _observe(self) -> None:
        listed = await self._client.get(LEASE.path(self._namespace))
        self.trouble = ""
        self._observed.replace(listed.get("items") or ())

    async def _write(self, name: str, holder: str | None) -> None:
        """Write a Lease with a holder, or with none; create it if it does not exist."""
        stored = self._observed.stored(name)
        spec = self._spec({} if stored is None else stored.get("spec") or {}, holder)
        if stored is None:
            metadata = {"name": name, "namespace": self._namespace}
            made = {"apiVersion": LEASE.api_version, "kind": LEASE.name, "metadata": metadata}
            path = LEASE.path(self._namespace)
            self._observed.put(await self._client.create(path, {**made, "spec": spec}))
        else:
            # The resource version in it makes the API server refuse the write after any other one.
            path = LEASE.path(self._namespace, name)
            self._observed.put(await self._client.replace(path, {**stored, "spec": spec}))
        metrics.LEASE_WRITES.inc()

    def _spec(self, before: Mapping[str, Any], holder: str | None) -> dict[str, Any]:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        transitions = int(before.get("leaseTransitions") or 0)
        if holder is None:
            released = {"leaseDurationSeconds": 1, "acquireTime": now, "renewTime": now}
            return {**released, "leaseTransitions": transitions}
        former = before.get("holderIdentity")
        return {
            "holderIdentity": holder,
            "leaseDurationSeconds": self._times.duration,
            "acquireTime": before["acquireTime"] if former == holder else now,
            "renewTime": now,
            "leaseTransitions": transitions + (former != holder),
        }

    def _extend(self, asked_at: float) -> None:
        self._renewed_at = asked_at
        self._fence.extend(asked_at)

    # ------------------------------------------------------------------ reports

    def _set_leader(self, is_leader: bool) -> None:
        self.is_leader = is_leader
        for name in self._scope.names:
            metrics.LEADER.labels(name).set(is_leader)

    def _report(self, holders: Mapping[str, str]) -> None:
        """Export who holds the Leases, and log those that this process waits for."""
        if holders == self._reported:
            return
        metrics.report_holders(holders)
        for name, holder in holders.items() - self._reported.items():
            if holder == self.identity:
                continue
            if name in self._scope.names:
                LOGGER.info("waits: %s holds the lease %s", holder, name)
            else:
                own = _listed(self._scope.names)
                remedy = "uninstall one of the two, or change watchNamespaces"
                LOGGER.error("does not run %s: %s runs %s; %s", own, holder, jobs_of(name), remedy)
        self._reported = dict(holders)

    def _complain(self, error: Exception) -> None:
        said = str(error) or "no answer in time"
        if self.trouble:
            self.trouble = f"leases in {self._namespace} cannot be listed: {said}"
        if said != self._complaint:
            LOGGER.warning("lease: %s", said)
            self._complaint = said


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(jobs_of, names))
