"""How many cores this process may use: what its affinity and its cgroup's CPU limit leave.

A pod sees all of its node's cores; threads beyond its limit would only be throttled.
"""

import math
import os
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")


def available(cgroup: Path = CGROUP) -> int:
    """The number of cores, at least 1; a limit of 1.5 counts as 2."""
    allowed = len(os.sched_getaffinity(0))
    limit = _limit(cgroup)
    return allowed if limit is None else max(1, min(allowed, math.ceil(limit)))


def _limit(cgroup: Path) -> float | None:
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
