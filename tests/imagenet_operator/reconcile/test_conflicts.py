"""Names that objects of others hold."""

from __future__ import annotations

import pytest

from imagenet_operator.reconcile.types import ReconcileSettings
from support.job_stories import (
    condition_of,
    ended_well,
    make,
    play,
    reasons,
)
from support.sentences import assert_says
from support.simulated_cluster import SimulatedCluster
from support.simulated_objects import condition


@pytest.mark.parametrize(
    ("kind", "name", "spoken_of"),
    [
        ("PersistentVolumeClaim", "digits-dataset", "DatasetReady"),
        ("Job", "digits-pack", "DatasetReady"),
        ("Service", "digits-r0", "Running"),
        ("Pod", "digits-r0-worker-1", "Running"),
    ],
)
def test_a_name_that_another_object_holds_is_waited_for(
    kind: str, name: str, spoken_of: str
) -> None:
    cluster = make()
    cluster.occupy(kind, name)

    def is_in_conflict(found: SimulatedCluster) -> bool:
        said_so = condition(found.status, spoken_of)
        return said_so is not None and said_so.reason == "NameConflict"

    play(cluster, is_in_conflict)
    message = condition_of(cluster.status, spoken_of)[2]
    assert_says(message, f"{kind} {name}", "Other theirs (UID other)", "waiting")
    for _ in range(3):
        assert cluster.reconcile().requeue_after == ReconcileSettings().requeue_interval
    assert reasons(cluster).count("NameConflict") == 1
    assert (kind, name) in cluster.objects
    assert not cluster.created_pods
    cluster.vacate()
    cluster.settle()
    assert ended_well(cluster)
