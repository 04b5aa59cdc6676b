"""The sampler: scrapes the members beside the loop, and keeps the newest sample of each job.

A reconcile takes the newest sample and never waits for one; `reconcile.sample` builds it. Sampling
is bounded in every way. It scrapes one job at a time; `scraper` limits each job and each member.
All of it takes at most a small share of a core. With thousands of jobs each job is sampled less
often.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final, Protocol

from imagenet_operator.api import Manifest, figures
from imagenet_operator.clusters.interface import JobKey
from imagenet_operator.clusters.left_out import LeftOut
from imagenet_operator.clusters.scraper import Target, scrape
from imagenet_operator.manifests import labels
from imagenet_operator.reconcile.policies import data_wait, reading, stragglers
from imagenet_operator.reconcile.sample import Asked, Sample, sample_of

LOGGER = logging.getLogger(__name__)

METRICS_PORT_NAME: Final = "metrics"
_MAX_SHARE: Final = 0.2
"""The largest share of the time that is spent on reading answers."""

_SILENT: Final = frozenset({"scheduler", "server", "rendezvous"})
"""Roles whose metrics do not show progress."""


class Members(Protocol):
    """The pods of jobs, as a cluster knows them now."""

    def jobs_with_pods(self) -> list[JobKey]:
        """Return the jobs that have pods."""

    def pods_of(self, key: JobKey) -> tuple[str, list[Manifest]] | None:
        """Return a job's UID and its pods; None if there is no such job."""


class Sampler:
    """Keeps the newest sample of each running job, while `run` runs.

    Args:
        members: The pods to sample.
        interval: The least seconds between two samples of a job.
        timeout: Seconds that one member may take to answer.
        announce: Called with a job after a new sample.
        only_visible: Whether only samples that change the status visibly are announced.
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
        """Drop the samples of a job."""
        self._samples.pop(key, None)
        self._announced.pop(key, None)
        self._left_out.pop(key, None)

    async def run(self) -> None:
        """Sample until cancelled."""
        while True:
            began = time.monotonic()
            keys = self._members.jobs_with_pods()
            random.shuffle(keys)
            for key in keys:
                spent = await self._sample_safely(key)
                pause = self._interval / (len(keys) + 1) / 2
                await asyncio.sleep(max(spent / _MAX_SHARE, pause))
            rest = self._interval - (time.monotonic() - began)
            await asyncio.sleep(max(rest, 0.1) * random.uniform(1, 1.1))

    async def _sample_safely(self, key: JobKey) -> float:
        """Take a sample; a bad answer of one member must not stop the sampler."""
        try:
            return await self._sample(key)
        except Exception:
            LOGGER.exception("%s/%s: cannot be sampled", *key)
            return 0.0

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
        sample = replace(sample, left_out=self._named(key, scrapes.left_out, members))
        self._samples[key] = (found[0], sample)
        is_news = bool(scrapes.heard) and not self._only_visible
        if is_news or _is_visible(self._announced.get(key), sample):
            self._announced[key] = sample
            self._announce(key)
        return scrapes.seconds + time.monotonic() - began

    def _named(self, key: JobKey, found: Mapping[str, str], members: Collection[str]) -> str:
        """Return the members that are left out in words, and log them when the words change."""
        before = self._left_out.get(key, LeftOut())
        after = self._left_out[key] = before.updated(found, members)
        if after.sentence and after != before:
            LOGGER.warning("%s/%s: left out of the sample: %s", *key, after.sentence)
        return after.sentence


def targets(pods: Iterable[Manifest]) -> dict[str, Target]:
    """Return the running pods that serve metrics and may show progress, by name."""
    found = {}
    for pod in pods:
        metadata, status = pod["metadata"], pod.get("status", {})
        marks = metadata.get("labels", {})
        if "deletionTimestamp" in metadata or marks.get(labels.JOB_ROLE) in _SILENT:
            continue
        port = _metrics_port(pod)
        if status.get("phase") == "Running" and status.get("podIP") and port is not None:
            asked = Asked.of_labels(marks)
            found[str(metadata["name"])] = Target(str(status["podIP"]), port, asked)
    return found


def _metrics_port(pod: Manifest) -> int | None:
    for container in pod["spec"]["containers"]:
        for port in container.get("ports") or ():
            if port.get("name") == METRICS_PORT_NAME:
                return int(port["containerPort"])
    return None


def _is_visible(before: Sample | None, after: Sample) -> bool:
    """Whether a sample changes more of the status than figures that always move."""
    if before is None:
        return True
    if (before.attempt, before.left_out) != (after.attempt, after.left_out):
        return True
    if stragglers.is_visible(before.comparison, after.comparison):
        return True
    if figures.is_worth_a_write(before.figures, after.figures):
        return True
    return any(policy.is_visible(before, after) for policy in (data_wait, reading))
