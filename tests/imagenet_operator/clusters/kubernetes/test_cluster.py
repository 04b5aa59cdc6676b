"""Requests to a Kubernetes cluster: the objects that they change, and what the caches hold then."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from imagenet_operator.clusters.interface import AlreadyExists, Conflict
from imagenet_operator.clusters.kubernetes import stored_jobs
from imagenet_operator.clusters.kubernetes.client import ApiError, Client
from imagenet_operator.clusters.kubernetes.cluster import Invalid, KubernetesCluster
from imagenet_operator.clusters.kubernetes.login import Connection
from imagenet_operator.clusters.kubernetes.recorder import Recorder
from imagenet_operator.manifests import labels
from imagenet_operator.reconcile.types import Patch, Reference
from imagenet_spec.resource import ImageNetJob
from imagenet_spec.resource.status import Status
from support.api_requests import Refusal
from support.asynchronous import asynchronous
from support.fake_api_server import FakeApiServer
from support.operator_harness import job

Manifest = dict[str, Any]
KEY = ("vision", "digits")
OURS = "the-job"
JOB = ImageNetJob.model_validate({**job(), "metadata": {**job()["metadata"], "uid": OURS}})


@contextlib.asynccontextmanager
async def connected() -> AsyncIterator[tuple[FakeApiServer, KubernetesCluster]]:
    async with FakeApiServer() as server, Client(Connection(server.url)) as client:
        whole = job()
        whole["metadata"]["uid"] = OURS
        await server.add(whole)
        cluster = KubernetesCluster(client, Recorder(client), lambda key, debounce: None)
        await cluster.refresh_job(KEY)
        yield server, cluster


def child(kind: str = "Pod", owner: str | None = OURS, **metadata: Any) -> Manifest:
    owners = [{"kind": "ImageNetJob", "name": "digits", "uid": owner, "controller": True}]
    return {
        "kind": kind,
        "metadata": {
            "name": "a",
            "namespace": "vision",
            "labels": {labels.JOB_NAME: "digits", labels.MANAGED_BY: "imagenet-operator"},
            **({"ownerReferences": owners} if owner else {}),
            **metadata,
        },
        "spec": {"containers": [{"name": "main"}], "nodeName": "n1"},
    }


async def seen(cluster: KubernetesCluster) -> list[str]:
    return [item["metadata"]["uid"] for item in await cluster.observe(JOB)]


@asynchronous
async def test_what_was_made_is_seen_at_once() -> None:
    async with connected() as (server, cluster):
        await cluster.create(JOB, child())

        made = server.get("Pod", "a")
        assert made is not None
        assert await seen(cluster) == [made["metadata"]["uid"]]


@asynchronous
async def test_what_is_ours_already_is_what_was_wanted() -> None:
    async with connected() as (server, cluster):
        there = await server.add(child())
        await cluster.create(JOB, child())

        assert await seen(cluster) == [there["metadata"]["uid"]]


@pytest.mark.parametrize(
    "there",
    [
        child(owner="a-former-job"),
        child(owner=None),
        child(deletionTimestamp="2026-01-02T03:04:05Z"),
        child(labels={}, owner="strange"),
    ],
)
@asynchronous
async def test_what_is_not_ours_to_have_is_seen_before_anything_else(there: Manifest) -> None:
    async with connected() as (server, cluster):
        stored = await server.add(there)
        with pytest.raises(AlreadyExists):
            await cluster.create(JOB, child())

        assert await seen(cluster) == [stored["metadata"]["uid"]]
        await server.remove("Pod", "a")
        await cluster.refresh(KEY)
        assert await seen(cluster) == []


@asynchronous
async def test_a_claim_that_nobody_owns_is_taken_over() -> None:
    async with connected() as (server, cluster):
        await server.add(child("PersistentVolumeClaim", owner=None))

        await cluster.create(JOB, child("PersistentVolumeClaim"))

        assert len(await seen(cluster)) == 1


@asynchronous
async def test_a_delete_is_of_one_object_and_its_dependents() -> None:
    async with connected() as (server, cluster):
        await cluster.create(JOB, child())
        (uid,) = await seen(cluster)

        await cluster.delete(JOB, Reference("Pod", "a", "another"))
        assert "deletionTimestamp" not in (server.get("Pod", "a") or {})["metadata"]
        await cluster.delete(JOB, Reference("Pod", "a", uid))

        (deleted,) = await cluster.observe(JOB)
        assert "deletionTimestamp" in deleted["metadata"]


@asynchronous
async def test_a_patch_is_of_one_object() -> None:
    async with connected() as (server, cluster):
        await cluster.create(JOB, child())
        (uid,) = await seen(cluster)

        await cluster.patch(JOB, Patch("Pod", "a", "another", {"spec": {"hit": True}}))
        await cluster.patch(JOB, Patch("Pod", "a", uid, {"spec": {"nodeName": "n2"}}))

        found = server.get("Pod", "a")
        assert found is not None
        assert found["spec"] == {"containers": [{"name": "main"}], "nodeName": "n2"}
        (patched,) = await cluster.observe(JOB)
        assert patched["spec"]["nodeName"] == "n2"


@pytest.mark.parametrize("there", [None, child(), child(labels={})])
@asynchronous
async def test_a_delete_or_patch_of_an_object_that_is_gone_changes_nothing(
    there: Manifest | None,
) -> None:
    async with connected() as (server, cluster):
        if there is not None:
            await server.add(there)
        before = server.get("Pod", "a")

        await cluster.delete(JOB, Reference("Pod", "a", "gone"))
        await cluster.patch(JOB, Patch("Pod", "a", "gone", {"spec": {"hit": True}}))

        assert server.get("Pod", "a") == before
        assert await seen(cluster) == []
        assert [request.verb for request in server.writes()] == ["delete", "patch"]


async def stored(cluster: KubernetesCluster, restarts: int) -> ImageNetJob:
    found = cluster.jobs.get(*KEY)
    assert found is not None
    return stored_jobs.read(found).job.model_copy(update={"status": Status(restarts=restarts)})


@asynchronous
async def test_a_status_is_written_over_what_was_read_or_not_at_all() -> None:
    async with connected() as (server, cluster):
        first, second = await stored(cluster, 1), await stored(cluster, 2)
        await cluster.write_status(first)
        with pytest.raises(Conflict):
            await cluster.write_status(second)

        assert (server.get("ImageNetJob", "digits") or {})["status"]["restarts"] == 1


@asynchronous
async def test_a_status_is_not_written_over_a_change_that_no_cache_knows() -> None:
    async with connected() as (server, cluster):
        read = await stored(cluster, 1)
        await server.change("ImageNetJob", "digits", lambda item: item.update(spec={}))
        with pytest.raises(Conflict):
            await cluster.write_status(read)

        assert "restarts" not in (server.get("ImageNetJob", "digits") or {})["status"]


@asynchronous
async def test_fields_that_the_model_does_not_know_are_written_back() -> None:
    async with connected() as (server, cluster):
        await server.change("ImageNetJob", "digits", lambda item: item.update(extra={"a": 1}))
        await cluster.refresh_job(KEY)

        manifest = cluster.jobs.get(*KEY)
        assert manifest is not None
        job = JOB.model_copy(
            update={
                "metadata": JOB.metadata.model_copy(
                    update={"resource_version": str(manifest.version)}
                )
            }
        )
        await cluster.write_status(job)

        (written,) = server.writes()
        assert written.body["extra"] == {"a": 1}


@asynchronous
async def test_a_job_that_is_gone_is_known_to_be() -> None:
    async with connected() as (server, cluster):
        await server.remove("ImageNetJob", "digits")
        await cluster.refresh(KEY)

        assert cluster.jobs.get(*KEY) is None


IS_INVALID = 'Pod "a" is invalid: spec.priority: Invalid value, because'
POLICY = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: because"
WEBHOOK = f'admission webhook "w.example.com" denied the request: {IS_INVALID}'
A_FIELD = {"causes": [{"field": "spec.priority", "message": "Invalid value"}]}
NO_FIELD = {"causes": [{"message": POLICY}]}


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Refusal(422, "Invalid", IS_INVALID, details=A_FIELD), Invalid),
        (Refusal(422, "Invalid", f"Job.batch{IS_INVALID[3:]}", details=A_FIELD), Invalid),
        (Refusal(400, "BadRequest", "because"), Invalid),
        # Who denies it may be persuaded, by whichever code he says so.
        (Refusal(422, "Invalid", POLICY, details=NO_FIELD), ApiError),
        (Refusal(422, "Invalid", f'pods "a" is forbidden: {POLICY}', details=NO_FIELD), ApiError),
        (Refusal(422, "Invalid", WEBHOOK, details=A_FIELD), ApiError),
        (Refusal(422, "Invalid", "because", details={}), ApiError),
        # A webhook that gives no code, or a proxy.
        (Refusal(400, "", "because"), ApiError),
        (Refusal(403, "Forbidden", "because"), ApiError),
        (Refusal(500, "InternalError", "because"), ApiError),
    ],
)
@asynchronous
async def test_refusals_say_whether_it_is_worth_another_try(
    answer: Refusal, error: type[ApiError]
) -> None:
    async with connected() as (server, cluster):
        server.refuse(answer)
        with pytest.raises(ApiError, match="because") as caught:
            await cluster.create(JOB, child())

        assert type(caught.value) is error


@asynchronous
async def test_an_api_server_that_is_away_is_an_error_of_its_own() -> None:
    async with connected() as (server, cluster):
        await server.__aexit__()
        with pytest.raises(ApiError) as caught:
            await cluster.refresh_job(KEY)

        assert (caught.value.code, caught.value.reason) == (0, "Unreachable")
