"""Measure the largest job: bytes of its status, and seconds of one reconcile without a change.

A reconcile reads the job and its pods from JSON, as from the operator's cache, decides, and
compares the status. No cluster is needed: make bench-large-job
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import orjson

from imagenet_operator.clusters.kubernetes import objects
from support.large_attempt import LargeAttempt

_SIZES = ((400, 99), (1_000, 0), (4_000, 1_000))
"""Workers and servers of the jobs."""

_REPEATS = 5
_WORDS = "Traceback (most recent call last):\n" + "x" * 4_000


def main() -> None:
    """Print the table."""
    print("| workers + servers | bytes, all run | bytes, all workers failed | reconcile, s |")
    print("|---|---|---|---|")
    for workers, servers in _SIZES:
        attempt = LargeAttempt(workers, servers)
        attempt.begin()
        all_run, seconds = _bytes(attempt), _fastest(_reconcile(attempt))
        for index in range(workers):
            attempt.end(f"worker-{index}", code=1, message=f"{_WORDS} {index}")
        attempt.reconcile()
        print(
            f"| {workers:,} + {servers:,} | {all_run:,} | {_bytes(attempt):,} | {seconds:.2f} |",
            flush=True,
        )


def _bytes(attempt: LargeAttempt) -> int:
    return len(json.dumps(attempt.job["status"], separators=(",", ":")).encode())


def _reconcile(attempt: LargeAttempt) -> Callable[[], None]:
    """Return a reconcile of what the operator's cache holds."""
    cached = {
        name: orjson.dumps({"kind": "Pod", "apiVersion": "v1", **objects.project_pod(pod)})
        for name, pod in attempt.pods.items()
    }
    job = orjson.dumps(attempt.job)

    def reconcile() -> None:
        attempt.job = orjson.loads(job)
        attempt.pods = {name: orjson.loads(text) for name, text in cached.items()}
        attempt.reconcile()

    return reconcile


def _fastest(work: Callable[[], None]) -> float:
    """Return the seconds of the fastest of some runs, by the processor's clock of this process."""
    durations = []
    for _ in range(_REPEATS):
        began = time.process_time()
        work()
        durations.append(time.process_time() - began)
    return min(durations)


if __name__ == "__main__":
    main()
