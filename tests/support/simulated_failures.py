"""Which failures of a job a simulated world gives a reason for."""

from __future__ import annotations

import math

from imagenet_operator.manifests.dataset import PUBLISH
from imagenet_operator.reconcile.types import ReconcileSettings
from imagenet_spec.resource.job import RunPolicy
from support.simulated_world import START, SimulatedWorld


def deserves(
    world: SimulatedWorld, policy: RunPolicy, settings: ReconcileSettings, hangs: int
) -> dict[str, bool]:
    """Return for each reason of the condition Failed whether the job may fail by it now.

    Args:
        world: What has happened.
        policy: The job's limits.
        settings: The operator's.
        hangs: How many attempts made no progress.
    """
    passed = (world.now - START).total_seconds()
    codes = [set(exits.values()) for exits in world.exits.values()]
    at_fault = sum(bool(found) for found in codes) + hangs
    of_preparation = [name for name in world.failed_jobs if not name.endswith(f"-{PUBLISH}")]
    return {
        "InvalidSpec": True,  # as is a template: the builders' own tests judge them
        "InvalidTemplate": True,
        "PreparationFailed": bool(of_preparation) or "classes" not in world.index_result,
        "PermanentFailure": any({2, 3} & found for found in codes),
        "NoResult": world.everybody_succeeded(with_result=False),
        "VolumeFull": sum(4 in found for found in codes) > settings.full_volume_limit,
        "BackoffLimitExceeded": at_fault > policy.backoff_limit,
        "DisruptionLimitExceeded": world.disruptions > settings.disruption_limit,
        # 128 is the code of containerd for a program that cannot be executed.
        "StartDeadlineExceeded": bool(world.blocked) or any(128 in found for found in codes),
        "DeadlineExceeded": passed >= (policy.active_deadline_seconds or math.inf),
        "PreparationDeadlineExceeded": passed >= (policy.preparation_deadline_seconds or math.inf),
    }
