"""Measures the operator on a real API server: many jobs at once, one job, many jobs running.

    make bench-operator                            # about 20 minutes on 2 cores
    PYTHONPATH=tests .venv/bin/python -m benchmarks.operator_speed --burst 20 --jobs 20 --idle 10

Prints Markdown; docs/benchmarks.md holds a run's output. The cluster is made for the run by
tests/kind's harness and deleted after it; its nodes are KWOK's, which run nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from pathlib import Path

from benchmarks.operator_speed import jobs, kwok_cluster, measures, report

from imagenet_operator.clusters.kubernetes.client import Client
from imagenet_operator.clusters.kubernetes.login import from_kubeconfig
from kind.cluster import Cluster


def main() -> int:
    """Measure and print."""
    options = parser().parse_args()
    # The cluster is deleted on SIGTERM too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with kwok_cluster.scratch() as folder, kwok_cluster.cluster(folder) as cluster:
        try:
            print(asyncio.run(measure(cluster, folder, options)))
        except BaseException:
            print((folder / "operator.log").read_text()[-5000:], file=sys.stderr)
            raise
    return 0


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--burst", type=int, default=200, help="jobs created at once")
    made.add_argument("--jobs", type=int, default=2000, help="jobs running; 0 leaves that out")
    made.add_argument("--runs", type=int, default=3, help="of each measurement, for its median")
    made.add_argument("--single", type=int, default=15, help="jobs created one at a time")
    # A job that nothing happens to is looked at every five minutes.
    made.add_argument("--idle", type=float, default=330, help="seconds of doing nothing")
    return made


async def measure(cluster: Cluster, folder: Path, options: argparse.Namespace) -> str:
    """Return the report of all measurements."""
    cluster.kubectl.within(jobs.NAMESPACE).apply(*jobs.prerequisites())
    async with Client(from_kubeconfig(cluster.kubeconfig)) as client:
        bench = measures.Bench(cluster, client, folder)
        found = report.Report(options.burst, options.jobs)
        found.single = await measures.single(bench, options.single)
        log("single", found.single)
        for _ in range(options.runs):
            found.floor.append(await measures.floor(bench, options.burst))
            found.burst.append(await measures.burst(bench, options.burst))
            log("floor, burst", found.floor[-1], found.burst[-1])
        if options.jobs:
            found.scale = await measures.at_scale(bench, options.jobs, options.runs, options.idle)
            log("scale", found.scale)
    return found.markdown()


def log(*what: object) -> None:
    """Say how far it is."""
    print(*what, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
