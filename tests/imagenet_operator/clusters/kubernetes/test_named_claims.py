"""Claims that a job only names: read once, from the API server, when the job starts."""

from typing import Any

from support.asynchronous import asynchronous
from support.operator_harness import cluster_of_one, job

Manifest = dict[str, Any]


def claim(*modes: str) -> Manifest:
    """The claim that the harness's job names, as somebody made it."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": job()["spec"]["dataset"]["source"]["prepared"]["claimName"],
            "namespace": "vision",
        },
        "spec": {"accessModes": list(modes)},
    }


@asynchronous
async def test_workers_share_a_node_for_a_claim_that_one_node_can_mount() -> None:
    async with cluster_of_one() as harness:
        there = claim("ReadWriteOnce")
        await harness.server.add(there)
        await harness.server.add(job())
        await harness.settle()

        name = there["metadata"]["name"]
        assert harness.status()["singleNodeClaims"] == [name]
        worker = harness.server.get("Pod", "digits-r0-worker-0")
        assert worker is not None
        assert "podAffinity" in worker["spec"]["affinity"]
        assert harness.server.counts()["get", "PersistentVolumeClaim"] == 1


@asynchronous
async def test_a_claim_that_one_pod_can_mount_fails_a_job_of_two_workers() -> None:
    async with cluster_of_one() as harness:
        await harness.server.add(claim("ReadWriteOncePod"))
        await harness.server.add(job())
        await harness.settle()

        assert harness.status()["phase"] == "Failed"
        assert harness.events() == ["InvalidSpec"]
        assert harness.pods() == []


@asynchronous
async def test_a_claim_that_is_not_there_yet_stops_nobody() -> None:
    async with cluster_of_one() as harness:
        await harness.server.add(job())
        await harness.settle()

        assert len(harness.pods()) == 5
        assert "singleNodeClaims" not in harness.status()
