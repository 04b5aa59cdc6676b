"""The operator's own metrics: names, labels and units stand here and in docs/telemetry.md.

One registry for the process, without prometheus-client's global one, so that nothing a library
registers there is exported by accident.
"""

import asyncio
from collections import Counter as Count
from collections.abc import Iterable
from typing import Final, get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from imagenet_operator.api.status import Phase

REGISTRY = CollectorRegistry()
ProcessCollector(registry=REGISTRY)
PlatformCollector(registry=REGISTRY)

PREFIX = "imagenet_operator_"

SEEN_SECONDS: Final = 90.0
"""How long a series that begins is there before it grows: longer than between two scrapes."""

NO_PHASE = "New"
"""The phase of a job that the operator has not looked at yet."""

JOBS = Gauge(
    f"{PREFIX}jobs",
    "ImageNetJobs by namespace and phase.",
    ["namespace", "phase"],
    registry=REGISTRY,
)
PASSES = Counter(
    f"{PREFIX}passes",
    "Passes over a job, by result: success, again (something has changed under it), error.",
    ["result"],
    registry=REGISTRY,
)
# There from the start: a rate does not notice what begins with the first of them.
for _result in ("success", "again", "error"):
    PASSES.labels(_result)
PASS_SECONDS = Histogram(
    f"{PREFIX}pass_seconds",
    "Seconds that a pass over a job takes.",
    buckets=(0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30),
    registry=REGISTRY,
)
QUEUE_DEPTH = Gauge(f"{PREFIX}queue_depth", "Jobs that wait for a pass.", registry=REGISTRY)
RESTARTS = Counter(
    f"{PREFIX}restarts",
    "Restarts of a job's training, charged or not, by reason; each is told 90 seconds late, so "
    "that an increase shows the first as well.",
    ["namespace", "imagenet_job", "reason"],
    registry=REGISTRY,
)
REQUESTS = Counter(
    f"{PREFIX}api_requests",
    "Requests to the API server by verb and HTTP status; none where there was no answer.",
    ["verb", "code"],
    registry=REGISTRY,
)
WATCH_UP = Gauge(
    f"{PREFIX}watch_up",
    "Whether a kind was listed and its watch is alive.",
    ["kind", "namespace"],
    registry=REGISTRY,
)


def count_jobs(jobs: Iterable[tuple[str, str]]) -> None:
    """Set the number of jobs in each phase.

    Args:
        jobs: The namespace and the phase of every job.
    """
    counted = Count(jobs)
    # A namespace without jobs is not told of any more.
    JOBS.clear()
    for namespace in {namespace for namespace, _ in counted}:
        for phase in (NO_PHASE, *get_args(Phase)):
            JOBS.labels(namespace, phase).set(counted[namespace, phase])


def count_restart(namespace: str, name: str, reason: str) -> None:
    """Count a restart of a job, in a while: to be called in an event loop.

    An increase does not notice what begins with 1, and nobody could say beforehand for which of
    thousands of jobs, and for which of many reasons, a series has to begin with 0.
    """
    restarts = RESTARTS.labels(namespace, name, reason)
    asyncio.get_running_loop().call_later(SEEN_SECONDS, restarts.inc)


def forget_job(namespace: str, name: str) -> None:
    """Drop what is counted for one job, which is gone."""
    RESTARTS.remove_by_labels({"namespace": namespace, "imagenet_job": name})
