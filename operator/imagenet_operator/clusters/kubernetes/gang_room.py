"""The room that gangs wait for: how much of it there is, and whose turn it is to take it.

What one gang was just given must not be counted as free for the next, so one pass at a time sees
the room, until it has acted. A few others stand in line behind it. Whoever comes after them gives
his place among the passes to somebody who has work, and is wished for when the line has moved: any
number of gangs may wait, and a job that waits for nothing must not wait for them.

How much room there is takes a list of all pods of the cluster. What it says is believed for a
while, so that it costs the same however many wait; but our own pods come from the cache, and what
is given to a gang makes the next one ask anew.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from imagenet_operator.api.base import Manifest
from imagenet_operator.clusters.kubernetes import kinds, nodes
from imagenet_operator.clusters.kubernetes.cache import Cache, JobKey
from imagenet_operator.clusters.kubernetes.client import Client
from imagenet_operator.reconcile.types import Capacity

IN_LINE: Final = 4
"""Passes that see the room or stand in line for it; all others have work to do."""

BELIEVED_SECONDS: Final = 10.0
"""How long the list of bound pods is believed; a gang that waits looks every 30 s."""

_RUNS_SOMEWHERE: Final = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
_ENDED: Final = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True)
class _Bound:
    """What bound pods took of the nodes when they were listed.

    Attributes:
        taken: By node and resource.
        known: UIDs of our pods that were bound by then: they are counted, or had ended.
        until: How long it is believed, by the monotonic clock.
    """

    taken: Mapping[str, Mapping[str, Fraction]]
    known: frozenset[str]
    until: float


class GangRoom:
    """What nodes have left for gangs, to be seen by one of them at a time.

    Args:
        client: Of the API server.
        pods: Our own.
        nodes: All of them.
        wish: Called with a job whose turn has come, and whether that may wait.
    """

    def __init__(
        self, client: Client, pods: Cache, nodes: Cache, wish: Callable[[JobKey, bool], None]
    ) -> None:
        self._client = client
        self._pods = pods
        self._nodes = nodes
        self._wish = wish
        self._lock = asyncio.Lock()
        self._in_line = 0
        self._sent_away: dict[JobKey, None] = {}
        self._bound: _Bound | None = None

    @contextlib.asynccontextmanager
    async def turn(self, key: JobKey) -> AsyncIterator[bool]:
        """Have the room to oneself; yields False, at once, if too many stand in line for it."""
        if self._in_line >= IN_LINE:
            self._sent_away[key] = None
            yield False
            return
        self._sent_away.pop(key, None)
        self._in_line += 1
        try:
            async with self._lock:
                yield True
        finally:
            self._in_line -= 1
            if self._sent_away:
                following = next(iter(self._sent_away))
                self.forget(following)
                self._wish(following, True)

    def forget(self, key: JobKey) -> None:
        """Wish no more for a job; it is there, or is gone."""
        self._sent_away.pop(key, None)

    def is_given(self) -> None:
        """Believe no list that is from before a gang was let go."""
        self._bound = None

    async def free(self) -> Capacity:
        """Return what each node has left for pods.

        Raises:
            ApiError: The pods cannot be read.
        """
        bound = self._bound
        if bound is None or time.monotonic() >= bound.until:
            bound = self._bound = await self._list()
        return nodes.free(
            (node.manifest() for node in self._nodes.all()), self._ours(bound.known), bound.taken
        )

    async def _list(self) -> _Bound:
        until = time.monotonic() + BELIEVED_SECONDS
        known = {stored.uid for stored in self._pods.all() if stored.node is not None}
        taken: dict[str, dict[str, Fraction]] = {}
        async for page in self._client.pages(kinds.POD.path(), fieldSelector=_RUNS_SOMEWHERE):
            for pod in page["items"]:
                nodes.add(taken, pod)
                known.add(pod["metadata"]["uid"])
        return _Bound(taken, frozenset(known), until)

    def _ours(self, known: frozenset[str]) -> list[Manifest]:
        """Return our pods that no list told of: let go and not bound yet, or bound since."""
        unlisted = (stored.manifest() for stored in self._pods.all() if stored.uid not in known)
        return [pod for pod in unlisted if _takes_room(pod)]


def _takes_room(pod: Manifest) -> bool:
    """Whether a pod is on a node, or waits for the scheduler and for nothing else."""
    spec, phase = pod["spec"], pod["status"].get("phase")
    if spec.get("nodeName"):
        return phase not in _ENDED
    is_let_go = phase == "Pending" and not spec.get("schedulingGates")
    return is_let_go and "deletionTimestamp" not in pod["metadata"]
