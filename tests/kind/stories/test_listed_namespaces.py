"""An operator that is limited to a list of namespaces, with roles only in those."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kind.cluster import Cluster
from kind.conftest import fresh_namespace
from kind.kubectl import Kubectl
from kind.stories.deployment import Operator
from kind.stories.jobs import Manifest, played
from kind.stories.namespace import CHILDREN, StoryNamespace
from kind.stories.release import Release
from support import chart

ACCOUNT = f"system:serviceaccount:{chart.NAMESPACE}:{chart.RELEASE}"


@pytest.fixture
def elsewhere(cluster: Cluster, story: StoryNamespace) -> Iterator[Kubectl]:
    """A namespace beside the story's own."""
    with fresh_namespace(cluster, f"{story.name}-elsewhere") as kubectl:
        yield kubectl


def test_only_jobs_of_listed_namespaces_are_run(
    story: StoryNamespace, elsewhere: Kubectl, cluster: Cluster, release: Release
) -> None:
    story.volume("story-dataset", "standard")
    # A restart and a budget: the more it makes and deletes, the more rights it needs.
    release.upgrade(
        f"--set=watchNamespaces={{{story.name}}}", "--set=pods.podDisruptionBudget=true"
    )
    job = played(volume={"size": "1Gi"}, behaviour={"worker@0": "exit 1"})
    elsewhere.apply(job)
    story.kubectl.apply(job)

    status = story.wait_for_condition("Succeeded")

    assert (status["restarts"], status["disruptions"]) == (1, 0)
    assert refused(cluster) == []
    assert may_list_pods(story.kubectl) and not may_list_pods(elsewhere)
    # A whole job later than it could have been seen, the other is as it was applied.
    assert "status" not in elsewhere.get("imagenetjobs", "story")
    made = (*CHILDREN, "persistentvolumeclaims")
    assert [item for kind in made for item in elsewhere.all(kind)] == []

    # It is not seen for its place alone.
    release.upgrade()
    elsewhere.wait_until("imagenetjobs", is_seen)


def test_a_namespace_that_comes_back_is_watched_again(
    story: StoryNamespace, cluster: Cluster, operator: Operator, release: Release
) -> None:
    name = f"{story.name}-elsewhere"
    both = f"--set=watchNamespaces={{{story.name},{name}}}"
    with fresh_namespace(cluster, name) as elsewhere:
        release.upgrade(both)
        elsewhere.apply(played())
        elsewhere.wait_until("imagenetjobs", is_seen)
        operator.kubectl.wait_until("pods", lambda pods: len(pods) == 1, selector=operator.selector)
        (before,) = operator.pods()

    elsewhere.wait_until("namespaces", lambda namespaces: name not in namespaces)
    story.kubectl.apply(played())
    story.wait_for_condition("Succeeded")

    with fresh_namespace(cluster, name) as elsewhere:
        # The Role comes back with it, and nothing else changes.
        release.upgrade(both)
        elsewhere.apply(played())
        elsewhere.wait_until("imagenetjobs", is_seen)
        (after,) = operator.pods()
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    (container,) = after["status"]["containerStatuses"]
    assert container["restartCount"] == 0


def refused(cluster: Cluster) -> list[str]:
    """The series of requests that the API server has refused to the operator for lack of a right.

    Those of its present process alone, which has begun with the roles that it has.
    """
    path = f"/api/v1/namespaces/{chart.NAMESPACE}/services/{chart.RELEASE}:http/proxy/metrics"
    exported = cluster.kubectl.raw(path).splitlines()
    requests = [line for line in exported if line.startswith("imagenet_operator_api_requests")]
    assert requests
    return [line for line in requests if 'code="403"' in line]


def may_list_pods(kubectl: Kubectl) -> bool:
    """Whether the operator may list the pods of a namespace."""
    question = ("auth", "can-i", "list", "pods", f"--as={ACCOUNT}")
    return kubectl(*question, check=False).startswith("yes")


def is_seen(jobs: dict[str, Manifest]) -> bool:
    """Whether the operator has looked at the job."""
    return bool(jobs["story"].get("status"))
