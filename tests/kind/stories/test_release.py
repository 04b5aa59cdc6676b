"""The chart is upgraded and uninstalled while jobs run: they do not notice."""

from __future__ import annotations

import json

from kind.cluster import Cluster
from kind.stories.jobs import played
from kind.stories.place import Operator, Place
from kind.stories.release import Release

DEFINITION = "imagenetjobs.imagenet.dev"


def columns(cluster: Cluster) -> list[str]:
    """The columns that `kubectl get` shows of jobs, as the definition on the cluster has them."""
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{DEFINITION}"
    (version,) = json.loads(cluster.kubectl.raw(path))["spec"]["versions"]
    return [column["name"] for column in version["additionalPrinterColumns"]]


def test_upgrade_and_uninstall_keep_jobs(
    place: Place, operator: Operator, release: Release, cluster: Cluster
) -> None:
    place.kubectl.apply(played(prepared=True, behaviour={"worker": "hold"}))
    place.wait_for_attempt(0)
    before = {pod["metadata"]["uid"] for pod in place.pods()}

    # As the definition of an older version would lack something.
    shown = columns(cluster)
    removed = {"op": "remove", "path": "/spec/versions/0/additionalPrinterColumns/0"}
    patch = f"--patch={json.dumps([removed])}"
    cluster.kubectl("patch", "customresourcedefinition", DEFINITION, "--type=json", patch)
    assert columns(cluster) == shown[1:]

    release.upgrade("--set=pods.podDisruptionBudget=true")
    assert columns(cluster) == shown
    assert {pod["metadata"]["uid"] for pod in place.pods()} == before

    release.uninstall()
    operator.wait_until_gone()
    assert {pod["metadata"]["uid"] for pod in place.pods()} == before
    assert place.job()["status"]["phase"] == "Running"
    place.release()

    release.upgrade()
    status = place.wait_for_condition("Succeeded")
    assert (status["restarts"], status["disruptions"]) == (0, 0)
    assert {pod["metadata"]["uid"] for pod in place.pods(role="worker")} <= before
