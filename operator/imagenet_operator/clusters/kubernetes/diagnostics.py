"""What only Events and logs explain: why an object waits, and the last lines of a failed program.

A missing Secret, a volume that is not attached or a Job whose pods are refused is only in Events.
`reconciler` adds them to the `Observed` before it decides. They are listed only for objects that
wait for over 30 s, and for one of each role. Each job's are listed at most once in 30 s. A pod that
gets no node may wait for a claim, and only the claim's Events say why that has no volume. So its
claims are read as well.

A failed attempt ends with the deletion of its pods, and their logs go with them. So `reconciler`
reads the log of the member that failed first, and adds its last lines as an event to the decision
that ends the attempt. A log that cannot be read delays nothing.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from imagenet_operator.clusters.interface import JobKey
from imagenet_operator.clusters.kubernetes import objects
from imagenet_operator.clusters.kubernetes.client import FORBIDDEN, NOT_FOUND, ApiError, Client
from imagenet_operator.clusters.kubernetes.objects import EVENT, POD, WORKLOAD
from imagenet_operator.manifests import names
from imagenet_operator.reconcile.context import EVENT_MAXIMUM
from imagenet_operator.reconcile.policies import waiting
from imagenet_operator.reconcile.types import QUEUED, Event, ObjectEvent, WaitingObject
from imagenet_spec.resource import ImageNetJob, queue
from imagenet_spec.resource.base import Manifest
from imagenet_spec.resource.status import MemberStatus, Status

LOGGER = logging.getLogger(__name__)

INTERVAL: Final = timedelta(seconds=30)
"""The shortest time between two reads of the Events of a job."""

MAX_OBJECTS: Final = 4
"""For how many objects of a job Events are listed at a time, each of another role."""

LINES: Final = 20
"""How many lines of a log an event has."""

_READ_BYTES: Final = 65536
"""The API server sends the beginning of the lines if they are longer, so this has room for them."""

_LOG_SECONDS: Final = 10.0
"""How long the kubelet of the pod may take to answer."""

_PAGE: Final = 100

_PROGRESS: Final = frozenset({"Pulled", "Created", "Started", "SuccessfulCreate"})
"""Reasons of Events that end what older Events say."""

_STILL_MISSING: Final = timedelta(minutes=3)
"""How long what an Event names is missing without another Event: the kubelet retries each 2 min."""

_POD_SET: Final = re.compile(r"^couldn't assign flavors to pod set [^:]*: ")

_TIMES: Final = ("lastTimestamp", "eventTime", "firstTimestamp")


class _Known(NamedTuple):
    """What was read of a job, and when."""

    read_at: datetime
    events: Mapping[str, ObjectEvent] | None


class ObjectEvents:
    """The Events of waiting objects."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: dict[JobKey, _Known] = {}

    def forget(self, key: JobKey) -> None:
        self._known.pop(key, None)

    async def read(
        self, key: JobKey, objects: Iterable[WaitingObject], now: datetime
    ) -> Mapping[str, ObjectEvent] | None:
        """Return the UID of each object of a job → the Event that says most about it.

        An object without such an Event is absent. If Events cannot be read, the last ones stay.
        None means that they could never be read.
        """
        stuck = waiting.needs_events(objects, now)
        if not stuck:
            self.forget(key)
            return {}
        known = self._known.get(key)
        if known is not None and now < known.read_at + INTERVAL:
            return known.events
        # The one of each role that waits longest: pods of one template wait alike.
        longest: dict[str, WaitingObject] = {}
        for item in sorted(stuck, key=lambda item: (str(item.since), item.name)):
            longest.setdefault(item.role, item)
        asked = list(longest.values())[:MAX_OBJECTS]
        events: Mapping[str, ObjectEvent] | None
        try:
            found = await asyncio.gather(*(self._about(key, item) for item in asked))
            pairs = zip(asked, found, strict=True)
            events = {item.uid: event for item, event in pairs if event is not None}
        except ApiError as error:
            LOGGER.warning("%s/%s: the Events of its pods cannot be read: %s", *key, error)
            events = None if known is None else known.events
        self._known[key] = _Known(now, events)
        return events

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
        newest = max(known, key=lambda event: (event.get("type") == "Warning", event_time(event)))
        spec = claim["spec"]
        storage_class = spec.get("storageClassName")
        facts = [
            f"StorageClass {storage_class}" if storage_class else "no StorageClass",
            *(spec.get("accessModes") or ()),
        ]
        described = f"PersistentVolumeClaim {claim['metadata']['name']} ({', '.join(facts)})"
        return ObjectEvent(newest["reason"], _message(newest), described)

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


def relevant_event(events: Iterable[Manifest]) -> ObjectEvent | None:
    """Return the Event that says why an object waits now; None if none does.

    The newest one counts, and of its kind a recent one that names what is missing: the kubelet also
    reports that it gave up waiting for it.
    """
    known = [event for event in events if event.get("reason") in waiting.EVENT_REASONS | _PROGRESS]
    if not known:
        return None
    newest = max(known, key=event_time)
    if newest["reason"] in _PROGRESS:
        return None
    alike = [
        event
        for event in known
        if event["reason"] == newest["reason"]
        and event_time(newest) - event_time(event) <= _STILL_MISSING
    ]
    best = max(alike, key=lambda event: (waiting.names_missing(_message(event)), event_time(event)))
    return ObjectEvent(best["reason"], _message(best))


def _message(event: Manifest) -> str:
    return str(event.get("message") or "")


def event_time(event: Manifest) -> datetime:
    """Return when an Event last happened."""
    series: Mapping[str, Any] = event.get("series") or {}
    texts = [series.get("lastObservedTime"), *(event.get(name) for name in _TIMES)]
    text = next(filter(None, texts), None)
    return datetime.min.replace(tzinfo=UTC) if text is None else datetime.fromisoformat(text)


def failed_member(before: Status, after: Status) -> MemberStatus | None:
    """Return the first failed member of an attempt that a new status ends, if there is one."""
    former, training = before.training, after.training
    if training is None or training.outcome is None:
        return None
    if former is not None and former.attempt == training.attempt and former.outcome is not None:
        return None
    failed = [
        member
        for member in training.members
        if member.phase == "Failed" and member.exit_code not in (None, 0)
    ]
    return min(failed, key=lambda member: (str(member.finished_at), member.name), default=None)


async def last_lines(client: Client, job: ImageNetJob, member: MemberStatus) -> Event | None:
    """Return an event with the last lines of a member's log; None if there are none."""
    path = f"{POD.path(job.metadata.namespace, member.name)}/log"
    query = {"container": names.CONTAINER, "tailLines": str(LINES), "limitBytes": str(_READ_BYTES)}
    try:
        async with asyncio.timeout(_LOG_SECONDS):
            text = await client.text(path, **query)
    except (ApiError, TimeoutError) as error:
        LOGGER.info(
            "the log of %s/%s cannot be read: %s", job.metadata.namespace, member.name, error
        )
        return None
    # A progress bar ends its lines with carriage returns.
    lines = [line.rstrip() for line in re.split(r"[\r\n]+", text) if line.strip()][-LINES:]
    if not lines:
        return None
    words = "\n".join(
        "".join(char if char.isprintable() else "�" for char in line) for line in lines
    )
    head = f"{member.name}, its last lines:\n"
    room = EVENT_MAXIMUM - len(head)
    return Event(
        "Warning", "LastLines", head + (words if len(words) <= room else "…" + words[1 - room :])
    )
