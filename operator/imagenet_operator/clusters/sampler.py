"""The sampler: scrapes the members beside the loop, and keeps the newest sample of each job.

A reconcile takes the newest sample and never waits for one; `reconcile.sample` builds it. Sampling
is bounded in every way. It scrapes one job at a time. All of it takes at most a small share of a
core. With thousands of jobs each job is sampled less often.

A pod is not trusted: its program answers whatever it likes. So the number of connections, the time
and the length of an answer are limited, redirects are not followed, and compressed answers are
refused (`untrusted_http`). All members of a job share a time; those whose turn does not come by
then are left out. One bounded sentence names them in the log and the status.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final, Protocol

from imagenet_operator.clusters import untrusted_http
from imagenet_operator.clusters.interface import JobKey
from imagenet_operator.clusters.untrusted_http import BadAnswer, LimitExceeded
from imagenet_operator.manifests import labels
from imagenet_operator.reconcile.policies import data_wait, reading, stragglers
from imagenet_operator.reconcile.sample import METRICS, Asked, Sample, sample_of
from imagenet_operator.reconcile.scrape import Scrape, ScrapeReader
from imagenet_spec.resource import Manifest, figures

LOGGER = logging.getLogger(__name__)

MAX_CONNECTIONS: Final = 32
"""Members that are scraped at a time."""

TIMEOUTS_OF_JOB: Final = 5
"""The time for all members of a job, in timeouts of one member."""

NO_TIME: Final = "no time left"
"""The limit of members whose turn does not come."""

METRICS_PORT_NAME: Final = "metrics"

_MAX_SHARE: Final = 0.2
"""The largest share of the time that is spent on reading answers."""

_MOST_NAMES: Final = 5

_SILENT: Final = frozenset({"scheduler", "server", "rendezvous"})
"""Roles whose metrics do not show progress."""


@dataclass(frozen=True)
class Target:
    """A member that serves metrics; its role and attempt are known even if it does not answer."""

    host: str
    port: int
    asked: Asked


@dataclass
class Scrapes:
    """What the members of a job answered.

    Attributes:
        heard: Pod name → its scrape, of those with a valid answer.
        left_out: Pod name → the limit that it exceeded.
        seconds: How long reading the answers took.
    """

    heard: dict[str, Scrape] = field(default_factory=dict)
    silent: set[str] = field(default_factory=set)
    left_out: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0


async def scrape(members: Mapping[str, Target], timeout: float) -> Scrapes:
    """Scrape all members of a job, each within `timeout` seconds, in a random order."""
    found = Scrapes()
    order = list(members.items())
    random.shuffle(order)
    turns = iter(order)
    try:
        async with asyncio.timeout(timeout * TIMEOUTS_OF_JOB), asyncio.TaskGroup() as tasks:
            for _ in range(min(MAX_CONNECTIONS, len(order))):
                tasks.create_task(_work(turns, timeout, found))
    except TimeoutError:
        late = members.keys() - found.heard.keys() - found.left_out.keys() - found.silent
        found.left_out |= dict.fromkeys(late, NO_TIME)
    return found


async def _work(turns: Iterator[tuple[str, Target]], timeout: float, scrapes: Scrapes) -> None:
    for pod, target in turns:
        try:
            async with asyncio.timeout(timeout):
                heard = await _scrape(target, scrapes)
        except LimitExceeded as error:
            scrapes.left_out[pod] = str(error)
            continue
        except (BadAnswer, TimeoutError):
            heard = None
        if heard is None:
            scrapes.silent.add(pod)
        else:
            scrapes.heard[pod] = heard


async def _scrape(target: Target, scrapes: Scrapes) -> Scrape | None:
    reader = ScrapeReader(METRICS)

    def feed(piece: bytes) -> None:
        began = time.monotonic()
        reader.feed(piece)
        scrapes.seconds += time.monotonic() - began

    await untrusted_http.get(target.host, target.port, "/metrics", feed)
    return reader.scrape()


@dataclass(frozen=True)
class LeftOut:
    """Members that are left out.

    Attributes:
        named: Pod name → the limit that it exceeds, of those in the sentence.
        sentence: All of it in words; empty if no member is left out.
    """

    limits: frozenset[str] = frozenset()
    named: Mapping[str, str] = field(default_factory=dict)
    sentence: str = ""

    def updated(self, left_out: Mapping[str, str], members: Collection[str]) -> LeftOut:
        """Return the next statement: the same, as long as it is true and complete."""
        limits = frozenset(left_out.values())
        is_true = limits == self.limits and all(
            pod in (members if limit == NO_TIME else left_out) for pod, limit in self.named.items()
        )
        own = {pod: limit for pod, limit in self.named.items() if limit != NO_TIME}
        lacks_none = len(own) == _MOST_NAMES or all(
            pod in own for pod, limit in left_out.items() if limit != NO_TIME
        )
        if is_true and lacks_none:
            return self
        known = {
            pod: own.get(pod, limit) if limit == NO_TIME else limit
            for pod, limit in left_out.items()
        }
        # Members that exceed their own limit first: they explain why others have no time.
        order = sorted(known, key=lambda pod: (known[pod] == NO_TIME, pod))
        named = {pod: known[pod] for pod in order[:_MOST_NAMES]}
        sentence = ", ".join(f"{pod} ({limit})" for pod, limit in named.items())
        others = len(left_out) - len(named)
        return LeftOut(limits, named, f"{sentence} and {others} more" if others else sentence)


class Members(Protocol):
    """The pods of jobs, as a cluster knows them now."""

    def jobs_with_pods(self) -> list[JobKey]:
        """Return the jobs that have pods."""

    def pods_of(self, key: JobKey) -> tuple[str, list[Manifest]] | None:
        """Return a job's UID and its pods; None if there is no such job."""


class Sampler:
    """Keeps the newest sample of each running job, while `run` runs.

    `interval` is the least time between two samples of a job, and a member may take `timeout` to
    answer, both in seconds. With `only_visible`, a sample is announced only if it changes the
    status visibly.
    """

    def __init__(
        self,
        members: Members,
        interval: float,
        timeout: float,
        announce: Callable[[JobKey], None],
        *,
        only_visible: bool = True,
    ) -> None:
        self._members = members
        self._interval = interval
        self._timeout = timeout
        self._announce = announce
        self._only_visible = only_visible
        self._samples: dict[JobKey, tuple[str, Sample]] = {}
        self._announced: dict[JobKey, Sample] = {}
        self._left_out: dict[JobKey, LeftOut] = {}

    def latest(self, key: JobKey, uid: str) -> Sample | None:
        """Return the newest sample of the job with this UID; None before the first."""
        found = self._samples.get(key)
        return found[1] if found is not None and found[0] == uid else None

    def forget(self, key: JobKey) -> None:
        self._samples.pop(key, None)
        self._announced.pop(key, None)
        self._left_out.pop(key, None)

    async def run(self) -> None:
        while True:
            began = time.monotonic()
            keys = self._members.jobs_with_pods()
            random.shuffle(keys)
            for key in keys:
                try:
                    spent = await self._sample(key)
                except Exception:  # a bad answer of one member must not stop the sampler
                    LOGGER.exception("%s/%s: cannot be sampled", *key)
                    spent = 0.0
                pause = self._interval / (len(keys) + 1) / 2
                await asyncio.sleep(max(spent / _MAX_SHARE, pause))
            rest = self._interval - (time.monotonic() - began)
            await asyncio.sleep(max(rest, 0.1) * random.uniform(1, 1.1))

    async def _sample(self, key: JobKey) -> float:
        """Take a sample of a job, and return the seconds that reading it took."""
        found = self._members.pods_of(key)
        members = {} if found is None else targets(found[1])
        if found is None or not members:
            return 0.0
        scrapes = await scrape(members, self._timeout)
        began = time.monotonic()
        asked = {name: target.asked for name, target in members.items()}
        sample = sample_of(scrapes.heard, self.latest(key, found[0]), datetime.now(UTC), asked)
        before = self._left_out.get(key, LeftOut())
        after = self._left_out[key] = before.updated(scrapes.left_out, members)
        if after.sentence and after != before:
            LOGGER.warning("%s/%s: left out of the sample: %s", *key, after.sentence)
        sample = replace(sample, left_out=after.sentence)
        self._samples[key] = (found[0], sample)
        is_news = bool(scrapes.heard) and not self._only_visible
        if is_news or _is_visible(self._announced.get(key), sample):
            self._announced[key] = sample
            self._announce(key)
        return scrapes.seconds + time.monotonic() - began


def targets(pods: Iterable[Manifest]) -> dict[str, Target]:
    """Return the running pods that serve metrics and may show progress, by name."""
    found = {}
    for pod in pods:
        metadata, status = pod["metadata"], pod.get("status", {})
        marks = metadata.get("labels", {})
        if "deletionTimestamp" in metadata or marks.get(labels.JOB_ROLE) in _SILENT:
            continue
        ports = (
            int(port["containerPort"])
            for container in pod["spec"]["containers"]
            for port in container.get("ports") or ()
            if port.get("name") == METRICS_PORT_NAME
        )
        port = next(ports, None)
        if status.get("phase") == "Running" and status.get("podIP") and port is not None:
            asked = Asked.of_labels(marks)
            found[str(metadata["name"])] = Target(str(status["podIP"]), port, asked)
    return found


def _is_visible(before: Sample | None, after: Sample) -> bool:
    """Whether a sample changes more of the status than figures that always move."""
    return (
        before is None
        or (before.attempt, before.left_out) != (after.attempt, after.left_out)
        or stragglers.is_visible(before.comparison, after.comparison)
        or figures.is_worth_a_write(before.figures, after.figures)
        or any(policy.is_visible(before, after) for policy in (data_wait, reading))
    )
