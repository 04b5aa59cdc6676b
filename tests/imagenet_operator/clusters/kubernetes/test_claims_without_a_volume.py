"""A pod that waits for a claim: the condition names the claim, its class and its access modes."""

from __future__ import annotations

from typing import Any

import pytest

from support.asynchronous import asynchronous
from support.operator_harness import Harness, claim, cluster_of_one, job
from support.sentences import assert_says

Manifest = dict[str, Any]
ONLY_ONCE = (
    'failed to provision volume with StorageClass "standard": NodePath only supports ReadWriteOnce'
)
KIND = "PersistentVolumeClaim"


async def report(harness: Harness, name: str, reason: str, message: str, kind: str) -> None:
    """Record an Event of a claim, as its provisioner does."""
    about = harness.server.get(KIND, name)
    assert about is not None
    await harness.server.add(
        {
            "kind": "Event",
            "apiVersion": "v1",
            "metadata": {"name": f"{name}.{reason}", "namespace": "vision"},
            "involvedObject": {"kind": KIND, "name": name, "uid": about["metadata"]["uid"]},
            "type": kind,
            "reason": reason,
            "message": message,
            "lastTimestamp": "2026-01-02T03:04:05Z",
        }
    )


async def set_spec(harness: Harness, name: str, **fields: Any) -> None:
    await harness.server.change(KIND, name, lambda item: item["spec"].update(fields))


@pytest.mark.parametrize("name", ["digits-output", "results"])
@asynchronous
async def test_the_condition_says_why_a_claim_gets_no_volume(name: str) -> None:
    async with cluster_of_one(claims=[claim(), claim(name="results")]) as harness:
        volume = {"size": "1Gi"} if name == "digits-output" else {"claimName": name}
        await harness.server.add(job(training={"output": {"volume": volume}}))
        await harness.settle()
        await set_spec(harness, name, storageClassName="standard")
        await report(harness, name, "ProvisioningFailed", ONLY_ONCE, "Warning")
        await report(harness, name, "Provisioning", "External provisioner is working", "Normal")
        await harness.let_pass(40)

        found = harness.condition("Running")
        assert found["reason"] == "ProvisioningFailed"
        claimed = f"PersistentVolumeClaim {name} (StorageClass standard, ReadWriteMany)"
        assert f"{claimed} cannot be provisioned: {ONLY_ONCE}; delete the job" in found["message"]

        def bind(item: Manifest) -> None:
            item["status"] = {"phase": "Bound"}

        await harness.server.change(KIND, name, bind)
        await harness.let_pass(40)
        assert harness.condition("Running")["reason"] == "NotScheduled"


@asynchronous
async def test_a_pending_claim_of_a_former_job_is_named_until_it_is_deleted() -> None:
    async with cluster_of_one() as harness:
        former = claim("ReadWriteMany", name="digits-output")
        former["metadata"]["labels"] = {
            "app.kubernetes.io/managed-by": "imagenet-operator",
            "training.imagenet.dev/job-name": "digits",
        }
        await harness.server.add(former)
        await harness.server.change(
            KIND,
            "digits-output",
            lambda item: item["metadata"].update(creationTimestamp="2026-01-01T00:00:00Z"),
        )
        once = {"size": "1Gi", "accessModes": ["ReadWriteOnce"]}
        await harness.server.add(job(training={"output": {"volume": once}}))
        await harness.settle()

        found = harness.condition("DatasetReady")
        assert found["reason"] == "ClaimDiffers"
        assert_says(found["message"], "PersistentVolumeClaim digits-output", "former job")
        assert_says(found["message"], "ReadWriteMany; ", "job asks for ReadWriteOnce; ", "delete")
        assert harness.pods() == []

        await harness.server.remove(KIND, "digits-output")
        await harness.settle()
        made = harness.server.get(KIND, "digits-output")
        assert made is not None
        assert made["spec"]["accessModes"] == ["ReadWriteOnce"]
        assert len(harness.pods()) == 5
