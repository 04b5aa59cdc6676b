"""The leader is killed: another replica acts in less than 20 s, in the median of three times.

The times of the lease are those of the chart. The clock is the API server's: when it stored a mark
right before the kill, and when it stored the first pods of a job that came right after.
"""

from __future__ import annotations

import statistics
from datetime import datetime

import pytest

from kind.cluster import Cluster
from kind.kubectl import Kubectl, Manifest
from kind.stories.deployment import Operator
from kind.stories.jobs import played
from kind.stories.namespace import OF_JOB, StoryNamespace

LEASE = "imagenet-operator"
LIMIT = 20.0
ROUNDS = 3


@pytest.mark.timed
def test_another_replica_acts_in_less_than_20_seconds(
    story: StoryNamespace, operator: Operator, cluster: Cluster
) -> None:
    leases = cluster.kubectl.within("kube-system")
    operator.start(replicas=2)
    took = []
    for number in range(ROUNDS):
        operator.kubectl.wait(f"pods -l {operator.selector}", "condition=Ready")
        before, pod = wait_for_leader(leases, operator)
        mark, name = f"mark-{number}", f"round-{number}"
        story.kubectl.create("configmaps", {"metadata": {"name": mark}})
        cluster.kill_program(pod)
        story.kubectl.apply(played(name, prepared=True))

        pods = story.kubectl.wait_until("pods", bool, selector=f"{OF_JOB}={name}")
        acted = min(map(created, pods.values()))
        took.append((acted - created(story.kubectl.get("configmaps", mark))).total_seconds())
        after, _ = wait_for_leader(leases, operator)
        print(f"round {number}: {after} acted {took[-1]:.0f} s after {before} was killed")
        assert after != before
        status = story.wait_for_condition("Succeeded", name)
        assert (status["restarts"], status["disruptions"]) == (0, 0)

    # Both times are cut to whole seconds: what seems to be 19 s is less than 20. One of the rounds
    # may have met a busy machine.
    assert statistics.median(took) < LIMIT


def wait_for_leader(leases: Kubectl, operator: Operator) -> tuple[str, Manifest]:
    """Wait until one of the replicas holds the lease; return its identity and its pod."""
    pods = {pod["metadata"]["name"]: pod for pod in operator.pods()}

    def holder(found: dict[str, Manifest]) -> str:
        return str(found[LEASE]["spec"].get("holderIdentity", "")) if LEASE in found else ""

    def pod_of(identity: str) -> str:
        return identity.rpartition("_")[0]

    identity = holder(leases.wait_until("leases", lambda found: pod_of(holder(found)) in pods))
    return identity, pods[pod_of(identity)]


def created(item: Manifest) -> datetime:
    """When the API server stored an object."""
    return datetime.fromisoformat(item["metadata"]["creationTimestamp"])
