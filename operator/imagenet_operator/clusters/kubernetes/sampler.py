"""Beside the loop: asks the members of running jobs for their metrics, one job after the other.

Bounded in every way: one job at a time, its members at once but each with a short time to answer
and a limited length; a job is asked at most once in an interval, and all of it never takes more
than a small share of the processor, so that thousands of jobs are sampled more seldom instead. A
pass takes the newest sample and never waits for one.
"""

import asyncio
import logging
import random
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Final

import aiohttp

from imagenet_operator.api.base import Manifest
from imagenet_operator.clusters.kubernetes.cache import Cache, JobKey
from imagenet_operator.clusters.sampler import Target, targets
from imagenet_operator.manifests import labels
from imagenet_operator.reconcile.sample import Sample, parse_sample
from imagenet_operator.reconcile.status import VISIBLE_ACCURACY, VISIBLE_SPEED

LOGGER = logging.getLogger(__name__)

_LARGEST_BYTES: Final = 1 << 20
_AT_ONCE: Final = 32
_SHARE: Final = 0.2
"""The most of the time that is spent on reading samples."""

_SILENT: Final = frozenset({"scheduler", "server", "rendezvous"})
"""Roles whose metrics say nothing of progress."""


class Sampler:
    """Keeps the newest sample of each running job, while `run` runs.

    Args:
        jobs: All jobs.
        pods: All members.
        interval: The least seconds between two samples of a job.
        timeout: Seconds that one member may take to answer.
        announce: Called with a job whose sample says something worth a look.
    """

    def __init__(
        self,
        jobs: Cache,
        pods: Cache,
        interval: float,
        timeout: float,
        announce: Callable[[JobKey], None],
    ) -> None:
        self._jobs = jobs
        self._pods = pods
        self._interval = interval
        self._timeout = timeout
        self._announce = announce
        self._samples: dict[JobKey, tuple[str, Sample]] = {}
        self._told: dict[JobKey, Sample] = {}

    def latest(self, key: JobKey, uid: str) -> Sample | None:
        """Return the newest sample of a job, if there is one of the job with this UID."""
        found = self._samples.get(key)
        return found[1] if found is not None and found[0] == uid else None

    def forget(self, key: JobKey) -> None:
        """Drop what is known of a job."""
        self._samples.pop(key, None)
        self._told.pop(key, None)

    async def run(self) -> None:
        """Sample until cancelled."""
        timeout = aiohttp.ClientTimeout(total=self._timeout)
        connector = aiohttp.TCPConnector(limit=_AT_ONCE, force_close=True)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
            while True:
                began = time.monotonic()
                keys = self._pods.jobs()
                random.shuffle(keys)
                for key in keys:
                    spent = await self._look_safely(session, key)
                    await asyncio.sleep(max(spent / _SHARE, self._interval / (len(keys) + 1) / 2))
                rest = self._interval - (time.monotonic() - began)
                await asyncio.sleep(max(rest, 0.1) * random.uniform(1, 1.1))

    async def _look_safely(self, session: aiohttp.ClientSession, key: JobKey) -> float:
        """Take a sample; whatever a member may answer, the others are asked."""
        try:
            return await self._look(session, key)
        except Exception:
            LOGGER.exception("%s/%s: cannot be sampled", *key)
            return 0.0

    async def _look(self, session: aiohttp.ClientSession, key: JobKey) -> float:
        """Take a sample of a job, and return the seconds that reading it took."""
        job = self._jobs.get(*key)
        members = _talkers(stored.manifest() for stored in self._pods.of_job(key))
        if job is None or not members:
            return 0.0
        answers = await asyncio.gather(*(_fetch(session, item) for item in members.values()))
        texts = {
            name: text for name, text in zip(members, answers, strict=True) if text is not None
        }
        began = time.monotonic()
        asked = {name: target.asked for name, target in members.items()}
        sample = parse_sample(texts, self.latest(key, job.uid), datetime.now(UTC), asked)
        self._samples[key] = (job.uid, sample)
        if _says_something(self._told.get(key), sample):
            self._told[key] = sample
            self._announce(key)
        return time.monotonic() - began


def _talkers(pods: Iterable[Manifest]) -> dict[str, Target]:
    """Return the pods that may tell of progress, by name."""
    return targets(
        pod for pod in pods if pod["metadata"]["labels"].get(labels.JOB_ROLE) not in _SILENT
    )


async def _fetch(session: aiohttp.ClientSession, target: Target) -> str | None:
    """Return the metrics of one member; None if it does not answer properly in time."""
    host = f"[{target.host}]" if ":" in target.host else target.host
    try:
        async with session.get(f"http://{host}:{target.port}/metrics") as response:
            if response.status != 200:
                return None
            content = bytearray()
            async for block in response.content.iter_any():
                content += block
                if len(content) > _LARGEST_BYTES:
                    return None
            return content.decode()
    except (aiohttp.ClientError, TimeoutError, OSError, UnicodeDecodeError):
        return None


def _says_something(before: Sample | None, after: Sample) -> bool:
    """Whether a sample may change what a status says by more than figures that always move."""
    if before is None or (before.attempt, before.epoch) != (after.attempt, after.epoch):
        return True
    return (
        _moved(before.images_per_second, after.images_per_second, VISIBLE_SPEED, relative=True)
        or _moved(before.accuracy, after.accuracy, VISIBLE_ACCURACY)
        or _moved(before.validation_accuracy, after.validation_accuracy, VISIBLE_ACCURACY)
    )


def _moved(
    before: float | None, after: float | None, threshold: float, *, relative: bool = False
) -> bool:
    if before is None or after is None:
        return before is not after
    return abs(after - before) >= threshold * (before if relative else 1.0)
