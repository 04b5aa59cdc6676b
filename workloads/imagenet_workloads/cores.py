"""The cores of a process."""

import math
import os
from pathlib import Path

from imagenet_workloads.environment import Environment

CGROUP = Path("/sys/fs/cgroup")


def available_cores(cgroup: Path = CGROUP, at_most: int | None = None) -> int:
    """How many cores this process may use, at least 1; a limit of 1.5 counts as 2.

    A pod sees all cores of its node. Threads beyond its CPU limit would only be throttled. Without
    a limit, those beyond its request would take time from the other pods of the node. Without
    both, the pods of one Job on a node divide its cores, and `at_most` so many are taken.
    """
    allowed = len(os.sched_getaffinity(0))
    environment = Environment.from_mapping(os.environ)
    bounds = [one for one in (_cpu_limit(cgroup), environment.cpus) if one is not None]
    if not bounds:
        share = math.ceil(allowed / max(1, environment.pods_on_node or 1))
        return share if at_most is None else min(share, at_most)
    return max(1, min([allowed, *map(math.ceil, bounds)]))


def throttled_seconds(cgroup: Path = CGROUP) -> float | None:
    """For how long the CPU limit has stopped this pod's threads; None if no cgroup says it."""
    versions = (("cpu.stat", "throttled_usec", 1e6), ("cpu/cpu.stat", "throttled_time", 1e9))
    for file, key, unit in versions:
        try:
            lines = (cgroup / file).read_text().splitlines()
            return int(dict(line.split(maxsplit=1) for line in lines)[key]) / unit
        except (OSError, ValueError, KeyError):
            continue
    return None


def _cpu_limit(cgroup: Path) -> float | None:
    """The CPU limit in cores by cgroup v2 (cpu.max) or v1 (cpu.cfs_*); None without one."""
    try:
        quota, period = (cgroup / "cpu.max").read_text().split()
    except (OSError, ValueError):
        try:
            quota = (cgroup / "cpu" / "cpu.cfs_quota_us").read_text().strip()
            period = (cgroup / "cpu" / "cpu.cfs_period_us").read_text().strip()
        except OSError:
            return None
    if not (quota.isdigit() and period.isdigit() and int(period)):
        return None  # "max", or -1: no limit
    return int(quota) / int(period)
