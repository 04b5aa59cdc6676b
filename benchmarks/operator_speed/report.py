"""The figures as a table in Markdown."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.operator_speed.jobs import PODS_PER_JOB
from benchmarks.operator_speed.measures import Scale, median


@dataclass
class Report:
    """All figures of a run.

    Attributes:
        count: How many jobs were created at once.
        jobs: How many were running.
        single: Seconds of each single job, by the bare loop and by the operator.
        floor: Seconds of each bare loop.
        burst: Seconds and processor seconds of each burst.
        scale: What was measured with many jobs running.
    """

    count: int
    jobs: int
    single: list[tuple[float, float]] = field(default_factory=list)
    floor: list[float] = field(default_factory=list)
    burst: list[tuple[float, float]] = field(default_factory=list)
    scale: Scale | None = None

    def markdown(self) -> str:
        """Return the report."""
        seconds = [wall for wall, _ in self.burst]
        bare, single = zip(*self.single, strict=True)
        cpu = median([spent for _, spent in self.burst])
        pods = self.count * PODS_PER_JOB
        rows = [
            (f"{self.count} jobs at once: all {pods:,} pods exist", _seconds(seconds)),
            ("… the same objects by a bare loop", _seconds(self.floor)),
            ("… CPU of the operator", f"{cpu:.1f} s"),
            ("one job, idle operator: all pods exist", _milliseconds(single)),
            ("… the same objects by a bare loop", _milliseconds(bare)),
        ]
        if self.scale is not None:
            rows += self._scale_rows(self.scale)
        lines = [
            f"{os.cpu_count()} cores ({platform.machine()}), medians, in brackets the range.",
            "",
            "| | |",
            "|---|---|",
            *(f"| {what} | {figure} |" for what, figure in rows),
        ]
        return "\n".join(lines)

    def _scale_rows(self, scale: Scale) -> list[tuple[str, str]]:
        now, most = scale.megabytes
        many = f"{self.jobs:,} jobs, {self.jobs * PODS_PER_JOB:,} pods"
        return [
            (f"{many}: all pods run", f"{scale.created_seconds:.0f} s"),
            ("… memory of the operator that created them", f"{scale.steady_megabytes:.0f} MB"),
            ("… restart to pods of the next new job", _seconds(scale.restart_seconds)),
            ("… restart to the reconcile of every job", _seconds(scale.looked_seconds)),
            ("… memory after a restart, at most", f"{now:.0f} MB, {most:.0f} MB"),
            ("… idle: writes to the API server in an hour", f"{scale.writes_per_hour:.0f}"),
            ("… idle: renewals of the lease in an hour", f"{scale.renewals_per_hour:.0f}"),
            ("… idle: other requests in an hour", f"{scale.reads_per_hour:.0f}"),
            ("… idle: CPU in an hour", f"{scale.cpu_per_hour:.0f} s"),
            (
                "… worker killed to all members of the next attempt running",
                _seconds(scale.recovery_seconds),
            ),
        ]


def _seconds(values: list[float]) -> str:
    return f"{median(values):.2f} s ({min(values):.2f} to {max(values):.2f})"


def _milliseconds(values: Sequence[float]) -> str:
    return f"{median(values) * 1e3:.0f} ms ({min(values) * 1e3:.0f} to {max(values) * 1e3:.0f})"
