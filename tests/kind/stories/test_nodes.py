"""Nodes that are drained, and nodes that die."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kind.cluster import Cluster
from kind.stories.deployment import Operator
from kind.stories.jobs import played
from kind.stories.namespace import StoryNamespace, member_nodes


@pytest.mark.usefixtures("cordon")
def test_a_drained_node_costs_no_restart_of_the_job_s_own(
    story: StoryNamespace, cluster: Cluster
) -> None:
    story.kubectl.apply(played(prepared=True, behaviour={"worker@0": "hold"}))
    node = member_nodes(story.wait_for_attempt(0))["worker-0"]

    # The pods of some stories have no owner, and may still be terminating.
    options = ("--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=300s")
    cluster.kubectl("drain", node, *options)

    status = story.wait_for_condition("Succeeded")
    assert (status["restarts"], status["disruptions"]) == (0, 1)
    assert node not in member_nodes(status).values()


def test_a_dead_node_costs_no_restart_of_the_job_s_own(
    story: StoryNamespace,
    cluster: Cluster,
    operator: Operator,
    cordon: Callable[[str], None],
    stop_node: Callable[[str], None],
) -> None:
    # All members on one node, and the operator on the other.
    (home,) = {pod["spec"]["nodeName"] for pod in operator.pods()}
    dying = next(node for node in cluster.workers if node != home)
    cordon(home)
    at_once = [
        {
            "key": f"node.kubernetes.io/{taint}",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": 0,
        }
        for taint in ("unreachable", "not-ready")
    ]
    story.kubectl.apply(
        played(prepared=True, behaviour={"worker@0": "hold"}, template={"tolerations": at_once})
    )
    assert set(member_nodes(story.wait_for_attempt(0)).values()) == {dying}
    cluster.kubectl("uncordon", home)

    stop_node(dying)

    status = story.wait_for_condition("Succeeded")
    assert (status["restarts"], status["disruptions"]) == (0, 1)
    assert set(member_nodes(status).values()) == {home}
