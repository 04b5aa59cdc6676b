"""Reads the log of one pod of a cluster, each line once, whatever becomes of the connection.

If the connection is lost, it asks for the lines of the last seconds again, and leaves out those
that it has had. A line is known by its time and text, since times may be out of order: two streams
are written at once, and clocks are set back. A log may be complete only if its program had ended
before it was asked for.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import Final

from imagenet_operator.clusters.interface import ClusterError
from imagenet_operator.clusters.kubernetes.client import NOT_FOUND, SILENT, ApiError, Client
from imagenet_operator.manifests import names
from imagenet_operator.sdk.interface import LogLine, Outage
from imagenet_spec.resource import Manifest

_SILENCE_SECONDS: Final = 60.0
"""A connection without a line for so long is opened again, in case the other end is gone."""

_OVERLAP: Final = timedelta(seconds=5)
"""How far back lines are asked for again; a line may be so much older than one before it."""


class Reader:
    """The log of the program of a pod of a cluster; `say` gets the words for a pod that is gone."""

    def __init__(
        self,
        client: Client,
        path: str,
        pod: str,
        outage: Outage,
        say: Callable[[str], None] = lambda said: None,
    ) -> None:
        self._client = client
        self._path = path
        self._pod = pod
        self._outage = outage
        self._say = say
        self._newest: datetime | None = None
        self._had: list[tuple[datetime, str]] = []
        """The lines that the next request may bring again."""

    async def lines(self, *, follow: bool, tail: int | None = None) -> AsyncIterator[LogLine]:
        """Yield each line once, in order; with `follow`, until the program has ended.

        With `tail`, the first one is so many lines before the end.
        """
        while True:
            try:
                ended = not follow or has_ended(await self._client.get(self._path))
                async for line in self._once(follow=not ended, is_last=ended, tail=tail):
                    yield line
            except ClusterError as error:
                if isinstance(error, ApiError) and error.code == NOT_FOUND:
                    self._say(f"{self._pod} is gone; the last lines of its log may be missing")
                    return
                # A program that writes nothing for long is no outage.
                is_quiet = isinstance(error, ApiError) and error.reason == SILENT and not ended
                if not is_quiet:
                    await self._outage.pause(error)
                    continue
            else:
                # A log that ended before its program may have been cut.
                if ended:
                    return
            self._outage.over()
            await asyncio.sleep(self._outage.poll_seconds)

    async def _once(
        self, *, follow: bool, is_last: bool, tail: int | None
    ) -> AsyncIterator[LogLine]:
        query = {"container": names.CONTAINER, "timestamps": "true"}
        if follow:
            query["follow"] = "true"
        if self._newest is not None:
            since = self._newest.replace(microsecond=0) - _OVERLAP
            query["sinceTime"] = since.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            self._had = [item for item in self._had if item[0] >= since]
        elif tail is not None:
            query["tailLines"] = str(tail)
        again = Counter(self._had)
        # A line without a time has that of the line before it.
        at = self._newest
        async for raw in self._client.lines(f"{self._path}/log", _SILENCE_SECONDS, **query):
            self._outage.over()
            # An incomplete line is read again, unless nothing will follow.
            if not raw.endswith(b"\n") and not is_last:
                return
            written = raw.rstrip(b"\n").decode("utf-8", "replace")
            stamp, _, text = written.partition(" ")
            try:
                at = datetime.fromisoformat(stamp)
            except ValueError:
                # A message of the kubelet, or the rest of a line that `sinceTime` has cut.
                text = written
            if at is None:
                yield LogLine(self._pod, text)
                continue
            if again[at, text] > 0:
                again[at, text] -= 1
                continue
            self._had.append((at, text))
            self._newest = at if self._newest is None else max(at, self._newest)
            yield LogLine(self._pod, text, at)


def has_started(pod: Manifest) -> bool:
    """Whether the program of a pod has started."""
    return _state(pod) in ("running", "terminated")


def has_ended(pod: Manifest) -> bool:
    """Whether the program of a pod has ended."""
    return _state(pod) == "terminated"


def _state(pod: Manifest) -> str:
    """Return running, terminated or waiting, of the program's container."""
    status = pod.get("status") or {}
    for item in status.get("containerStatuses") or ():
        if item["name"] == names.CONTAINER:
            return str(next(iter(item["state"]), "waiting"))
    return "terminated" if status.get("phase") in ("Succeeded", "Failed") else "waiting"
