"""Stories of one job in a simulated cluster: make it, play it to a point, and read what it says."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from imagenet_operator.manifests import settings as manifests
from imagenet_operator.reconcile.decide import decide
from imagenet_operator.reconcile.observe import sort
from imagenet_operator.reconcile.types import Decision, Observed, ReconcileSettings
from imagenet_spec.resource.status import Status
from support.asynchronous import run_now
from support.job_table import manifest
from support.simulated_cluster import SimulatedCluster
from support.simulated_objects import condition

ROOMY = {"a": 3, "b": 3}
EVERYTHING = manifests.Settings(pod_disruption_budget=True)
Stop = Callable[[SimulatedCluster], bool]


def make(
    nodes: dict[str, int] | None = None, *, tells_capacity: bool = False, **run_policy: Any
) -> SimulatedCluster:
    """A new job: 2 workers, 2 servers, 1 scheduler."""
    document = manifest(run_policy=run_policy)
    settings = ReconcileSettings(disruption_limit=2, manifests=EVERYTHING)
    return SimulatedCluster(document, nodes or ROOMY, settings, tells_capacity=tells_capacity)


def play(cluster: SimulatedCluster, until: Stop) -> SimulatedCluster:
    """Let everything go well, with reconciles, until a condition holds."""
    for _ in range(300):
        if until(cluster):
            return cluster
        cluster.turn()
        cluster.reconcile()
        if cluster.next_reconcile is None or cluster.next_reconcile > cluster.now:
            cluster.now += timedelta(seconds=5)
    raise AssertionError(f"this does not come: {cluster.status!r}")


def is_running(cluster: SimulatedCluster) -> bool:
    return cluster.status.phase == "Running"


def is_over(cluster: SimulatedCluster) -> bool:
    return cluster.status.completion_time is not None


def is_in_attempt(number: int) -> Stop:
    return lambda cluster: (
        is_running(cluster)
        and cluster.status.training is not None
        and cluster.status.training.attempt == number
    )


def running(nodes: dict[str, int] | None = None, **run_policy: Any) -> SimulatedCluster:
    return play(make(nodes, **run_policy), is_running)


def pod(cluster: SimulatedCluster, name: str) -> dict[str, Any]:
    return cluster.objects["Pod", name]


def worker_arguments(cluster: SimulatedCluster, name: str) -> dict[str, str]:
    arguments = pod(cluster, name)["spec"]["containers"][0]["args"]
    return dict(zip(arguments[::2], arguments[1::2], strict=False))


def names(cluster: SimulatedCluster, kind: str) -> list[str]:
    return [item["metadata"]["name"] for item in cluster.of_kind(kind)]


def reasons(cluster: SimulatedCluster) -> list[str]:
    return [event.reason for event in cluster.events]


def ended_well(cluster: SimulatedCluster) -> bool:
    return condition_of(cluster.status, "Succeeded")[0] == "True"


def condition_of(status: Status, kind: str) -> tuple[str, str, str]:
    found = condition(status, kind)
    assert found is not None, f"{kind} was never set"
    return found.status, found.reason, found.message


def creating(**run_policy: Any) -> SimulatedCluster:
    """A job whose next pass creates its first attempt."""

    def is_ready(found: SimulatedCluster) -> bool:
        said_so = condition(found.status, "DatasetReady")
        return said_so is not None and said_so.status == "True"

    return play(make(**run_policy), is_ready)


def observed(cluster: SimulatedCluster) -> Observed:
    """What a reconcile sees now."""
    return sort(cluster.job, run_now(cluster.observe(cluster.job)))


def decided(cluster: SimulatedCluster, seen: Observed) -> Decision:
    """What the operator decides about what it has seen."""
    return decide(cluster.job, seen, None, cluster.now, cluster.settings)
