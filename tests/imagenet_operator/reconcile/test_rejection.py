"""Jobs that cannot be built fail before anything is created."""

from __future__ import annotations

import pytest

from imagenet_operator.manifests import dataset
from imagenet_spec.errors import InvalidJob, Problem
from support.job_stories import (
    ROOMY,
    condition_of,
    ended_well,
    is_running,
    make,
    names,
    play,
    reasons,
    running,
)
from support.job_table import manifest
from support.simulated_cluster import SimulatedCluster


def test_a_template_that_cannot_be_merged_fails_the_job_before_anything_is_made() -> None:
    template = {"spec": {"restartPolicy": "Always"}}
    document = manifest(training={"workers": {"replicas": 2, "template": template}})
    cluster = SimulatedCluster(document, ROOMY)
    decision = cluster.reconcile()
    assert decision.create == ()
    status, reason, message = condition_of(cluster.status, "Failed")
    assert (status, reason) == ("True", "InvalidTemplate")
    assert message.startswith("spec.training.workers.template.spec.restartPolicy")
    cluster.settle()
    assert reasons(cluster) == ["InvalidTemplate"]


def test_a_template_that_went_wrong_during_a_suspension_fails_the_job() -> None:
    cluster = running()
    cluster.suspend(True)
    play(cluster, lambda found: found.status.phase == "Suspended")
    workers = cluster.document["spec"]["training"]["workers"]
    workers["template"] = {"spec": {"restartPolicy": "Always"}}
    cluster.suspend(False)
    cluster.settle()
    assert condition_of(cluster.status, "Failed")[:2] == ("True", "InvalidTemplate")
    assert names(cluster, "Pod") == [name for name in names(cluster, "Pod") if "-r" not in name]


def test_a_job_that_cannot_be_built_is_an_invalid_spec(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise InvalidJob([Problem("spec.dataset", "cannot be listed")])

    monkeypatch.setattr(dataset, "index_job", refuse)
    cluster = make()
    cluster.settle()
    assert condition_of(cluster.status, "Failed")[:2] == ("True", "InvalidSpec")


def with_claim(*modes: str) -> SimulatedCluster:
    """A job whose source is on a foreign claim."""
    cluster = make()
    cluster.occupy("PersistentVolumeClaim", "raw")
    cluster.objects["PersistentVolumeClaim", "raw"]["spec"] = {"accessModes": list(modes)}
    return cluster


def test_a_claim_for_one_pod_that_several_would_use_fails_the_job_before_anything_is_made() -> None:
    cluster = with_claim("ReadWriteOncePod")
    assert cluster.reconcile().create == ()
    status, reason, message = condition_of(cluster.status, "Failed")
    assert (status, reason) == ("True", "InvalidSpec")
    assert message.startswith("spec.dataset.source.volume.claimName: raw allows ReadWriteOncePod")
    assert "ReadWriteMany" in message


def test_more_workers_after_a_suspension_than_a_claim_admits_fail_the_job() -> None:
    document = manifest(
        training={"workers": {"replicas": 1}, "output": {"volume": {"claimName": "results"}}}
    )
    cluster = play(SimulatedCluster(document, ROOMY), is_running)
    cluster.occupy("PersistentVolumeClaim", "results")
    cluster.objects["PersistentVolumeClaim", "results"]["spec"] = {
        "accessModes": ["ReadWriteOncePod"]
    }
    cluster.suspend(True)
    play(cluster, lambda found: found.status.phase == "Suspended")
    cluster.edit(lambda spec: spec["training"]["workers"].update(replicas=2))
    cluster.suspend(False)
    cluster.settle()
    status, reason, message = condition_of(cluster.status, "Failed")
    assert (status, reason) == ("True", "InvalidSpec")
    assert message.startswith("spec.training.output.volume.claimName: results allows")
    assert cluster.members() == []


def test_a_claim_for_one_node_keeps_the_pods_that_use_it_together() -> None:
    cluster = with_claim("ReadWriteOnce")
    cluster.reconcile()
    assert cluster.status.single_node_claims == ("raw",)
    # It is not looked at again: what a claim allows never changes.
    cluster.vacate()
    play(cluster, lambda found: "digits-pack" in names(found, "Job"))
    template = cluster.objects["Job", "digits-pack"]["spec"]["template"]
    assert "podAffinity" in template["spec"]["affinity"]
    cluster.settle()
    assert ended_well(cluster)
