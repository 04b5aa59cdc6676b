"""Events about what waits: the API server is asked for them when nothing else knows the cause.

A missing Secret, a volume that is not attached or a Job whose pods are refused is only in Events.
`reconciler` adds them to the `Observed` before it decides. They are listed only for objects that
wait for over 30 s, and for one of each role. Each job's are listed at most once in 30 s.

A pod that gets no node may wait for a claim, and only the claim's Events say why that has no
volume. So its claims are read as well.
"""

import asyncio
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from imagenet_operator.api import queue
from imagenet_operator.api.base import Manifest
from imagenet_operator.clusters.interface import JobKey
from imagenet_operator.clusters.kubernetes import objects
from imagenet_operator.clusters.kubernetes.client import FORBIDDEN, NOT_FOUND, ApiError, Client
from imagenet_operator.clusters.kubernetes.objects import EVENT, WORKLOAD
from imagenet_operator.manifests import names
from imagenet_operator.reconcile.policies import waiting
from imagenet_operator.reconcile.types import QUEUED, ObjectEvent, WaitingObject

LOGGER = logging.getLogger(__name__)

INTERVAL: Final = timedelta(seconds=30)
"""The shortest time between two looks at the Events of a job."""

MAX_OBJECTS: Final = 4
"""For how many objects of a job Events are listed at a time, each of another role."""

_PAGE: Final = 100

_PROGRESS: Final = frozenset({"Pulled", "Created", "Started", "SuccessfulCreate"})
"""Reasons of Events that end what older Events say."""

_STILL_MISSING: Final = timedelta(minutes=3)
"""How long what an Event names is missing without another Event: the kubelet retries each 2 min."""

_POD_SET: Final = re.compile(r"^couldn't assign flavors to pod set [^:]*: ")

_TIMES: Final = ("lastTimestamp", "eventTime", "firstTimestamp")


@dataclass(frozen=True)
class _Known:
    """What was read of a job, and when."""

    read_at: datetime
    events: Mapping[str, ObjectEvent] | None


class ObjectEvents:
    """The Events of waiting objects.

    Args:
        client: Of the API server.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: dict[JobKey, _Known] = {}

    def forget(self, key: JobKey) -> None:
        """Drop what is known of a job."""
        self._known.pop(key, None)

    async def read(
        self, key: JobKey, objects: Iterable[WaitingObject], now: datetime
    ) -> Mapping[str, ObjectEvent] | None:
        """Return the UID of each object of a job → the Event that says most about it.

        An object without such an Event is absent. If Events cannot be read, the last ones stay.
        None means that they could never be read.

        Args:
            key: The job.
            objects: What waits.
            now: The time.
        """
        stuck = waiting.needs_events(objects, now)
        if not stuck:
            self.forget(key)
            return {}
        known = self._known.get(key)
        if known is None or now >= known.read_at + INTERVAL:
            known = _Known(now, await self._list(key, _one_of_each_role(stuck)))
            self._known[key] = known
        return known.events

    async def _list(
        self, key: JobKey, objects: Sequence[WaitingObject]
    ) -> Mapping[str, ObjectEvent] | None:
        try:
            found = await asyncio.gather(*(self._about(key, item) for item in objects))
        except ApiError as error:
            LOGGER.warning("%s/%s: the Events of its pods cannot be read: %s", *key, error)
            former = self._known.get(key)
            return None if former is None else former.events
        return {
            item.uid: event for item, event in zip(objects, found, strict=True) if event is not None
        }

    async def _about(self, key: JobKey, item: WaitingObject) -> ObjectEvent | None:
        namespace = key[0]
        if item.reason == QUEUED:
            return await self._of_workload(key, item)
        for name in item.claims:
            event = await self._of_claim(namespace, name)
            if event is not None:
                return event
        return relevant_event(await self._of(namespace, item.uid))

    async def _of_claim(self, namespace: str, name: str) -> ObjectEvent | None:
        """Return the Event that says why a claim has no volume; None if it has one."""
        try:
            claim = await self._client.get(
                objects.BY_NAME["PersistentVolumeClaim"].path(namespace, name)
            )
        except ApiError as error:
            if error.code != NOT_FOUND:
                raise
            return None
        if claim.get("status", {}).get("phase", "Pending") != "Pending":
            return None
        events = await self._of(namespace, claim["metadata"]["uid"])
        known = [event for event in events if event.get("reason") in waiting.CLAIM_REASONS]
        if not known:
            return None
        # A provisioner also reports each of its attempts.
        newest = max(known, key=lambda event: (event.get("type") == "Warning", _time(event)))
        return ObjectEvent(newest["reason"], _message(newest), _described(claim))

    async def _of_workload(self, key: JobKey, item: WaitingObject) -> ObjectEvent | None:
        """Return why Kueue holds an object; None without Kueue's API or the right to read it."""
        namespace, name = key
        try:
            if item.attempt is None:
                of_job = {"labelSelector": f"{queue.JOB_UID}={item.uid}"}
                found = (await self._client.get(WORKLOAD.path(namespace), **of_job))["items"]
            else:
                group = names.service(name, item.attempt)
                found = [await self._client.get(WORKLOAD.path(namespace, group))]
        except ApiError as error:
            if error.code not in (FORBIDDEN, NOT_FOUND):
                raise
            return None
        words = queue_words(found[0]) if found else ""
        return ObjectEvent(QUEUED, words) if words else None

    async def _of(self, namespace: str, uid: str) -> Sequence[Manifest]:
        selection = {"fieldSelector": f"involvedObject.uid={uid}", "limit": str(_PAGE)}
        answer = await self._client.get(EVENT.path(namespace), **selection)
        return answer.get("items") or ()


def queue_words(workload: Manifest) -> str:
    """Return why a workload of Kueue is not admitted; empty if it does not say."""
    status = workload.get("status") or {}
    waits = {
        item["type"]: str(item.get("message") or "")
        for item in status.get("conditions") or ()
        if item["status"] == "False"
    }
    if "QuotaReserved" in waits:
        return _POD_SET.sub("", waits["QuotaReserved"])
    checks = [
        str(item.get("name"))
        for item in status.get("admissionChecks") or ()
        if item.get("state") != "Ready"
    ]
    return f"it has quota, and waits for the admission check {', '.join(checks)}" if checks else ""


def _one_of_each_role(objects: Iterable[WaitingObject]) -> list[WaitingObject]:
    """Return the object of each role that waits longest: pods of one template wait alike."""
    found: dict[str, WaitingObject] = {}
    for item in sorted(objects, key=lambda item: (str(item.since), item.name)):
        found.setdefault(item.role, item)
    return list(found.values())[:MAX_OBJECTS]


def _described(claim: Manifest) -> str:
    """Return the name, the class and the access modes of a claim."""
    spec = claim["spec"]
    storage_class = spec.get("storageClassName")
    facts = [
        f"StorageClass {storage_class}" if storage_class else "no StorageClass",
        *(spec.get("accessModes") or ()),
    ]
    return f"PersistentVolumeClaim {claim['metadata']['name']} ({', '.join(facts)})"


def relevant_event(events: Iterable[Manifest]) -> ObjectEvent | None:
    """Return the Event that says why an object waits now; None if none does.

    The newest one counts, and of its kind a recent one that names what is missing: the kubelet also
    reports that it gave up waiting for it.
    """
    known = [event for event in events if event.get("reason") in waiting.EVENT_REASONS | _PROGRESS]
    if not known:
        return None
    newest = max(known, key=_time)
    if newest["reason"] in _PROGRESS:
        return None
    alike = [
        event
        for event in known
        if event["reason"] == newest["reason"] and _time(newest) - _time(event) <= _STILL_MISSING
    ]
    best = max(alike, key=lambda event: (waiting.names_missing(_message(event)), _time(event)))
    return ObjectEvent(best["reason"], _message(best))


def _message(event: Manifest) -> str:
    return str(event.get("message") or "")


def _time(event: Manifest) -> datetime:
    series: Mapping[str, Any] = event.get("series") or {}
    texts = [series.get("lastObservedTime"), *(event.get(name) for name in _TIMES)]
    text = next(filter(None, texts), None)
    return datetime.min.replace(tzinfo=UTC) if text is None else datetime.fromisoformat(text)
