"""A short chaos run: a few jobs, and each kind of fault that takes seconds, by a fixed seed.

`make chaos-kind` is the long run, with all kinds and all strategies.
"""

from __future__ import annotations

import pytest

from kind.chaos import report
from kind.chaos.faults import FAULTS
from kind.chaos.jobs import all_jobs
from kind.chaos.run import Plan, run
from kind.cluster import Cluster

QUICK = ("Member killed", "Quota flaps", "A webhook fails closed", "Operator killed")
JOBS = ("plays-0", "waits-0", "prepares-0", "crashes")


@pytest.mark.alone
def test_quick_faults_violate_no_invariant(cluster: Cluster) -> None:
    plan = Plan(
        each=1,
        total=6,
        # On a quiet machine each kind is observed much earlier, which ends it.
        seconds=300,
        seed=1,
        faults=[fault for fault in FAULTS if fault.name in QUICK],
        jobs=[job for job in all_jobs(epochs=1) if job.name in JOBS],
    )
    outcome = run(cluster, plan)
    print(report.tables(outcome))
    assert outcome.violations == {name: [] for name in outcome.violations}
    assert min(outcome.observed[name] for name in QUICK) >= 1
