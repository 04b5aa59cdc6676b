"""The operator's own metrics; docs/telemetry.md lists them.

One registry for the process, without prometheus-client's global one, so that nothing a library
registers there is exported by accident.
"""

import asyncio
from collections import Counter as Count
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, Final, get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from imagenet_spec.resource.status import Phase

REGISTRY = CollectorRegistry()
ProcessCollector(registry=REGISTRY)
PlatformCollector(registry=REGISTRY)

PREFIX = "imagenet_operator_"

SEEN_SECONDS: Final = 90.0
"""How long a new series stays at 0: longer than a scrape interval."""

MOST_SERIES: Final = 1000
"""How many waiting jobs, jobs with a time, and stragglers have series."""

NO_PHASE = "New"
"""The phase of a job that was not reconciled yet."""

JOBS = Gauge(
    f"{PREFIX}jobs",
    "ImageNetJobs by namespace and phase.",
    ["namespace", "phase"],
    registry=REGISTRY,
)
WAITING = Gauge(
    f"{PREFIX}job_waiting",
    "1 for each ImageNetJob that does not start, by the reason in its condition; for 1,000 jobs at "
    "most.",
    ["namespace", "imagenet_job", "reason"],
    registry=REGISTRY,
)
SECONDS = Gauge(
    f"{PREFIX}job_seconds",
    "Time of an ImageNetJob by phase, as its status has it; for 1,000 jobs at most.",
    ["namespace", "imagenet_job", "phase"],
    registry=REGISTRY,
)
GOODPUT = Gauge(
    f"{PREFIX}job_goodput_ratio",
    "Fraction of the time of an ImageNetJob, without suspensions, that went to steps which are not "
    "redone; for 1,000 jobs at most.",
    ["namespace", "imagenet_job"],
    registry=REGISTRY,
)
GPU_HOURS = Gauge(
    f"{PREFIX}job_gpu_hours",
    "Hours in which members of an ImageNetJob had nodes, times their GPUs; for 1,000 jobs at most.",
    ["namespace", "imagenet_job"],
    registry=REGISTRY,
)
STRAGGLERS = Gauge(
    f"{PREFIX}job_straggler_ratio",
    "How many times the median a straggler takes before each exchange of gradients; a series for "
    "each straggler in the status of an ImageNetJob, for 1,000 at most.",
    ["namespace", "imagenet_job", "pod", "slot"],
    registry=REGISTRY,
)
RECONCILES = Counter(
    f"{PREFIX}passes",
    "Reconciles of a job, by result: success, again (the job or a child has changed), error.",
    ["result"],
    registry=REGISTRY,
)
# They exist from the start, since rate() does not see the first increment of a new series.
for _result in ("success", "again", "error"):
    RECONCILES.labels(_result)
RECONCILE_SECONDS = Histogram(
    f"{PREFIX}pass_seconds",
    "Duration of a reconcile of one job, in seconds.",
    buckets=(0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30),
    registry=REGISTRY,
)
QUEUE_DEPTH = Gauge(f"{PREFIX}queue_depth", "Jobs that wait to be reconciled.", registry=REGISTRY)
RESTARTS = Counter(
    f"{PREFIX}restarts",
    "Restarts of a job's training, charged or not, by reason. The series starts at 0; the count "
    "follows 90 s later, so increase() sees the first restart.",
    ["namespace", "imagenet_job", "reason"],
    registry=REGISTRY,
)
REQUESTS = Counter(
    f"{PREFIX}api_requests",
    "Requests to the API server by verb and HTTP status; none without an answer.",
    ["verb", "code"],
    registry=REGISTRY,
)
WATCH_UP = Gauge(
    f"{PREFIX}watch_up",
    "Whether a kind was listed and its watch is alive.",
    ["kind", "namespace"],
    registry=REGISTRY,
)
LEADER = Gauge(
    f"{PREFIX}leader",
    "Whether this operator leads, by each of its leases. Only a leader exports the jobs' series.",
    ["lease"],
    registry=REGISTRY,
)
LEASE_HOLDER = Gauge(
    f"{PREFIX}lease_holder",
    "1 for the holder of each lease that this operator needs, as it has last seen it.",
    ["lease", "holder"],
    registry=REGISTRY,
)
LEASE_WRITES = Counter(
    f"{PREFIX}lease_writes",
    "Writes of leases, mostly renewals. imagenet_operator_api_requests_total includes them.",
    registry=REGISTRY,
)


def measure_reconcile(result: str, seconds: float) -> None:
    """Count a reconcile whose result is success, again or error."""
    RECONCILES.labels(result).inc()
    RECONCILE_SECONDS.observe(seconds)


def count_jobs(jobs: Iterable[tuple[str, str]]) -> None:
    """Set the number of jobs in each phase."""
    counted = Count(jobs)
    # A namespace without jobs has no series any more.
    JOBS.clear()
    for namespace in {namespace for namespace, _ in counted}:
        for phase in (NO_PHASE, *get_args(Phase)):
            JOBS.labels(namespace, phase).set(counted[namespace, phase])


def set_waiting(jobs: Iterable[tuple[str, str, str]]) -> None:
    """Set the jobs that do not start."""
    WAITING.clear()
    for labels in islice(jobs, MOST_SERIES):
        WAITING.labels(*labels).set(1)


def set_time(jobs: Iterable[tuple[str, str, Mapping[str, Any]]]) -> None:
    """Set the time of jobs."""
    for gauge in (SECONDS, GOODPUT, GPU_HOURS):
        gauge.clear()
    for namespace, name, time in islice(jobs, MOST_SERIES):
        for phase, seconds in time.get("phases", {}).items():
            SECONDS.labels(namespace, name, phase).set(seconds)
        if "goodput" in time:
            GOODPUT.labels(namespace, name).set(time["goodput"])
        if "gpuHours" in time:
            GPU_HOURS.labels(namespace, name).set(time["gpuHours"])


def set_stragglers(stragglers: Iterable[tuple[str, str, Mapping[str, Any]]]) -> None:
    """Set the stragglers of jobs."""
    STRAGGLERS.clear()
    for namespace, name, item in islice(stragglers, MOST_SERIES):
        STRAGGLERS.labels(namespace, name, item["name"], item.get("slot", "")).set(item["factor"])


def report_holders(holders: Mapping[str, str]) -> None:
    """Export the holder of each lease."""
    LEASE_HOLDER.clear()
    for lease, holder in holders.items():
        LEASE_HOLDER.labels(lease, holder).set(1)


def count_restart(namespace: str, name: str, reason: str) -> None:
    """Count a restart of a job after `SEEN_SECONDS`; to be called in an event loop.

    increase() does not see the first increment of a series that begins with 1. A series for every
    job and reason from the start would be too many.
    """
    restarts = RESTARTS.labels(namespace, name, reason)
    asyncio.get_running_loop().call_later(SEEN_SECONDS, restarts.inc)


def forget_job(namespace: str, name: str) -> None:
    """Drop what is counted for one job, which is gone."""
    RESTARTS.remove_by_labels({"namespace": namespace, "imagenet_job": name})
