"""The client of a cluster: what it asks of the API server, and how it explains its answers."""

import asyncio
import re
from pathlib import Path

import pytest

from imagenet_operator.clusters.interface import ClusterError
from imagenet_operator.clusters.kubernetes import login, objects
from imagenet_operator.sdk.cluster import AsyncClient
from imagenet_operator.sdk.errors import Forbidden, JobEnded, NotFound, Rejected, Timeout
from imagenet_spec.errors import ImageNetJobError
from imagenet_spec.resource.job import LOCAL_PATH
from imagenet_spec.validate import parse
from support.api_requests import Lost, Refusal, Request
from support.asynchronous import asynchronous
from support.certificates import Authority
from support.client_jobs import AT, condition, kubeconfig, manifest, set_status, user_client
from support.fake_api_server import FakeApiServer
from support.sentences import assert_says, says

JOB = objects.JOB.name
RBAC = 'User "ann" cannot {verb} resource "imagenetjobs" in API group "imagenet.dev"'


@asynchronous
async def test_a_job_is_submitted_read_suspended_and_deleted() -> None:
    async with user_client() as (server, client):
        job = await client.submit(manifest())
        assert job.metadata.uid
        (listed,) = await client.list()
        assert listed == await client.get("digits") == job
        await client.suspend("digits")
        assert (await client.get("digits")).spec.run_policy.suspend
        await client.resume("digits")
        assert not (await client.get("digits")).spec.run_policy.suspend
        await client.delete("digits")
        assert await client.list() == ()
        deleted = server.requests[-2].body
        assert deleted["preconditions"] == {"uid": job.metadata.uid}


@asynchronous
async def test_a_dry_run_creates_nothing() -> None:
    async with user_client() as (server, client):
        await client.submit(manifest(), dry_run=True)
        assert server.requests[-1].dry_run == "All"
        assert server.requests[-1].field_validation == "Strict"
        assert await client.list() == ()


@asynchronous
async def test_the_same_spec_is_the_same_job_and_another_is_refused_with_the_difference() -> None:
    async with user_client() as (_, client):
        job = await client.submit(manifest())
        again = await client.submit(manifest(run_policy={"backoffLimit": 9}))
        assert again == job
        with pytest.raises(Rejected) as refused:
            await client.submit(manifest(training={"epochs": 20}))
        assert [problem.path for problem in refused.value.problems] == ["spec.training.epochs"]
        assert "spec.training.epochs: is 20 here, and 90 there" in str(refused.value)
        assert "imagenetctl delete digits -n vision" in str(refused.value)
        container = {"name": "main", "env": [{"name": "TOKEN", "value": "secret-1"}]}
        template = {"spec": {"containers": [container]}}
        with pytest.raises(Rejected, match=r"env\[0\].value: is not the same") as refused:
            await client.submit(
                manifest(training={"workers": {"replicas": 2, "template": template}})
            )
        assert "secret-1" not in str(refused.value)


@asynchronous
async def test_a_job_that_is_being_deleted_is_not_the_same_job() -> None:
    async with user_client() as (server, client):
        await client.submit(manifest())
        await server.change(JOB, "digits", lambda job: job["metadata"].update(deletionTimestamp=AT))
        with pytest.raises(Rejected, match="the job 'digits' is being deleted"):
            await client.submit(manifest())


@asynchronous
async def test_a_generated_name_makes_one_job_even_if_an_answer_is_lost() -> None:
    async with user_client() as (server, client):

        async def lose(asked: Request, answer: object) -> None:
            del answer
            if asked.verb == "create":
                server.effects.clear()
                raise Lost

        server.effects.append(lose)
        unnamed = manifest()
        unnamed["metadata"] = {"generateName": "digits-"}
        job = await client.submit(unnamed)
        assert re.fullmatch("digits-[a-z0-9]{5}", job.metadata.name)
        assert await client.list() == (job,)
        assert (await client.submit(unnamed)).metadata.name != job.metadata.name


@asynchronous
async def test_an_invalid_job_is_rejected_with_path_and_hint_before_it_is_sent() -> None:
    async with user_client() as (server, client):
        wrong = manifest()
        wrong["spec"]["training"]["epoch"] = 3
        with pytest.raises(Rejected) as rejected:
            await client.submit(wrong)
        (problem,) = rejected.value.problems
        assert problem.path == "spec.training.epoch"
        assert problem.hint is not None and "epochs" in problem.hint
        assert server.requests == []


@asynchronous
async def test_what_the_api_server_refuses_is_a_rejection_unless_a_right_is_missing() -> None:
    async with user_client() as (server, client):
        details = {"causes": [{"field": "spec.training.epochs"}]}
        server.refuse(Refusal(422, "Invalid", 'x "y" is invalid', details=details), times=1)
        with pytest.raises(Rejected) as rejected:
            await client.submit(manifest())
        assert rejected.value.problems[0].path == "spec.training.epochs"
        server.refuse(Refusal(403, "Forbidden", "exceeded quota: jobs"), times=1)
        with pytest.raises(Rejected, match="exceeded quota"):
            await client.submit(manifest())


@asynchronous
async def test_a_missing_right_is_named() -> None:
    async with user_client() as (server, client):
        await client.submit(manifest())
        server.verbs = {}
        for ask, right in (
            (client.list(), "list imagenetjobs"),
            (client.get("digits"), "get imagenetjobs"),
            (client.pods("digits"), "list pods"),
        ):
            with pytest.raises(Forbidden) as forbidden:
                await ask
            assert (forbidden.value.right, forbidden.value.namespace) == (right, "vision")


@asynchronous
async def test_a_missing_right_to_write_is_told_from_other_refusals_by_its_words() -> None:
    async with user_client() as (server, client):
        await client.submit(manifest())
        for verb, ask in (
            ("create", client.submit(manifest())),
            ("patch", client.suspend("digits")),
        ):
            server.refuse(Refusal(403, "Forbidden", RBAC.format(verb=verb)), times=1)
            with pytest.raises(Forbidden, match=f"the right to {verb} imagenetjobs is missing"):
                await ask


@asynchronous
async def test_a_job_that_is_not_there_and_a_cluster_without_the_resource() -> None:
    async with user_client() as (server, client):
        for ask in (client.get("x"), client.delete("x"), client.suspend("x"), client.events("x")):
            with pytest.raises(NotFound, match=r"the namespace 'vision' of the cluster .* no job"):
                await ask
        absent = Refusal(404, "NotFound", 'namespaces "vision" not found')
        server.refuse(absent, lambda asked: asked.verb == "create")
        with pytest.raises(NotFound, match=r"the namespace 'vision' of .* does not exist"):
            await client.submit(manifest())
        server.is_defined = False
        for asked in (client.list(), client.get("x"), client.submit(manifest())):
            with pytest.raises(NotFound, match="the operator is not installed there"):
                await asked


@asynchronous
async def test_a_namespace_in_the_manifest_is_that_of_the_client() -> None:
    async with user_client() as (_, client):
        other = manifest()
        other["metadata"]["namespace"] = "speech"
        with pytest.raises(Rejected, match=r"metadata.namespace: is 'speech'.*leave it out"):
            await client.submit(other)


@asynchronous
async def test_events_of_a_job_by_time() -> None:
    async with user_client() as (server, client):
        job = await client.submit(manifest())
        for number, uid in ((2, job.metadata.uid), (1, job.metadata.uid), (3, "another")):
            await server.add(
                {
                    "kind": "Event",
                    "metadata": {"name": f"e{number}", "namespace": "vision"},
                    "involvedObject": {"uid": uid},
                    "type": "Normal",
                    "reason": f"R{number}",
                    "message": "said",
                    "count": number,
                    "lastTimestamp": f"2026-01-01T00:00:0{number}Z",
                }
            )
        found = await client.events("digits")
        assert [(item.reason, item.count) for item in found] == [("R1", 1), ("R2", 2)]


@asynchronous
async def test_a_wait_ends_with_the_state_or_with_the_reason_of_another_end() -> None:
    async with user_client() as (server, client):
        await client.submit(manifest())
        waiting = asyncio.create_task(client.wait("digits", "Running"))
        await set_status(server, phase="Running", conditions=[condition("Running")])
        assert (await waiting).status.phase == "Running"
        waiting = asyncio.create_task(client.wait("digits"))
        failed = condition("Failed", "BackoffLimitExceeded", "worker 0 ended with 1")
        await set_status(server, phase="Failed", reason=failed["reason"], conditions=[failed])
        with pytest.raises(JobEnded, match="worker 0 ended with 1") as ended:
            await waiting
        assert ended.value.reason == "BackoffLimitExceeded"
        assert (await client.wait("digits", "Failed")).status.phase == "Failed"


@asynchronous
async def test_a_wait_for_an_upload_goes_on_after_the_end_of_the_job() -> None:
    bucket = {"bucket": "models", "prefix": "digits"}
    document = manifest(training={"output": {"upload": {"s3": bucket}}})
    ended = {
        "phase": "Succeeded",
        "model": {"claimName": "data", "path": "jobs/digits-0123abcd/attempts/r0"},
    }
    failed = {**condition("ModelUploaded", "UploadFailed", "no such bucket"), "status": "False"}
    given_up = {**failed, "reason": "UploadLimitExceeded", "observedGeneration": 1}
    async with user_client() as (server, client):
        await client.submit(document)
        await set_status(server, **ended, conditions=[condition("Succeeded"), failed])
        with pytest.raises(Timeout):
            await client.wait("digits", "ModelUploaded", timeout=0)
        waiting = asyncio.create_task(client.wait("digits", "ModelUploaded"))
        done = condition("ModelUploaded")
        await set_status(server, **ended, conditions=[condition("Succeeded"), done])
        assert (await waiting).status.phase == "Succeeded"
        await set_status(server, **ended, conditions=[condition("Succeeded"), given_up])
        with pytest.raises(JobEnded):
            await client.wait("digits", "ModelUploaded", timeout=60)


@asynchronous
async def test_a_wait_outlasts_an_outage_that_it_names_and_has_a_limit(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with user_client() as (server, client):
        await client.submit(manifest())
        looks = client.watch("digits")
        await anext(looks)
        refused = server.refuse(Refusal(503, "ServiceUnavailable"), times=3)
        await anext(looks)
        assert len(refused) == 3
        (outage,) = (item.getMessage() for item in caplog.records)
        assert_says(outage, "no answer", "may pass", "300 seconds")
        with pytest.raises(
            Timeout, match=says("digits is not Succeeded after 2 seconds", "it is not")
        ):
            await client.wait("digits", timeout=2)
        assert issubclass(Timeout, TimeoutError)
        with pytest.raises(TimeoutError, match="it is not seen by an operator yet"):
            await client.wait("digits", timeout=0)
        await set_status(server, phase="Succeeded", conditions=[condition("Succeeded")])
        assert (await client.wait("digits", timeout=0)).status.phase == "Succeeded"
        with pytest.raises(JobEnded):
            await client.wait("digits", "Failed", timeout=0)


@asynchronous
async def test_a_wait_and_a_log_of_a_server_that_does_not_answer_fail_at_once() -> None:
    async with user_client() as (server, client):
        await client.submit(manifest())
        for code in (401, 503):
            for follow in (False, True):
                refused = server.refuse(Refusal(code, "Off"), times=1)
                with pytest.raises(ClusterError, match="Off"):
                    await anext(client.logs("digits", follow=follow))
                assert len(refused) == 1
            server.refuse(Refusal(code, "Off"), times=1)
            with pytest.raises(ClusterError, match="Off"):
                await client.wait("digits")


@asynchronous
async def test_a_wait_ends_if_another_job_has_the_name() -> None:
    async with user_client() as (server, client):
        await client.submit(manifest())
        looks = client.watch("digits")
        await anext(looks)
        await server.remove(JOB, "digits")
        await client.submit(manifest())
        with pytest.raises(
            NotFound, match=says("digits was deleted", "and another job has its name now")
        ):
            await anext(looks)


@asynchronous
async def test_what_a_job_lacks_is_said_before_it_is_submitted() -> None:
    async with user_client() as (server, client):
        wanted = manifest(training={"imagePullSecrets": [{"name": "registry"}]})
        job = parse(wanted)
        quota = {
            "kind": "ResourceQuota",
            "metadata": {"name": "team", "namespace": "vision"},
            "status": {"hard": {"pods": "3", "requests.cpu": "1k"}, "used": {"pods": "1"}},
        }
        await server.add(quota)
        said = await client.check(job)
        assert_says(said[0], "spec.dataset.source.volume.claimName: ", "namespace 'vision'")
        assert said[0].endswith("has no PersistentVolumeClaim 'raw'")
        unchecked_secret = says("Secret 'registry'", "not checked", "right to get")
        assert any(re.search(unchecked_secret, text) for text in said)
        assert any("'team' has too little: pods: " in text for text in said)
        server.verbs["", "secrets"] = frozenset({"get"})
        for kind, name in (("PersistentVolumeClaim", "raw"), ("Secret", "registry")):
            await server.add({"kind": kind, "metadata": {"name": name, "namespace": "vision"}})
        server.verbs.pop(("", "resourcequotas"))
        (unchecked,) = await client.check(job)
        assert_says(unchecked, "quotas are not checked", "right to list resourcequotas", "missing")


@pytest.mark.parametrize(
    ("inside", "sent", "path"),
    [
        (".", "photos", ""),
        ("photos", "photos", " --path photos"),
        ("photos/1.jpg", "photos/1.jpg", " --path photos"),
    ],
)
def test_the_upload_of_images_of_this_machine_is_named_if_their_claim_is_missing(
    tmp_path: Path, inside: str, sent: str, path: str
) -> None:
    @asynchronous
    async def story() -> None:
        (tmp_path / "photos").mkdir()
        (tmp_path / "photos" / "1.jpg").write_bytes(b"image")
        wanted = manifest(dataset={"source": {"volume": {"claimName": "raw", "path": inside}}})
        of_claim = "../photos" if inside == "." else ".."
        wanted["metadata"]["annotations"] = {LOCAL_PATH: of_claim}
        job = parse(wanted)
        async with user_client() as (server, client):
            (said,) = await client.check(job, tmp_path / "jobs")
            command = f"imagenetctl upload {tmp_path / sent} --claim raw --size 1Gi{path}"
            assert said.endswith(f"; send the images with {command} -n vision")
            (said,) = await client.check(job, tmp_path)
            assert "send the images" not in said
            server.verbs.pop(("", "persistentvolumeclaims"))
            (said,) = await client.check(job, tmp_path / "jobs")
            assert "is not checked" in said and "send the images" not in said

    story()


@asynchronous
async def test_a_deletion_says_what_goes_and_what_stays() -> None:
    async with user_client() as (server, client):
        await client.submit(manifest())
        found = await client.removal("digits")
        assert found.stays == ("the claim digits-dataset with its data",)
        await server.remove(JOB, "digits")
        await client.submit(manifest(run_policy={"retentionPolicy": "Delete"}))
        found = await client.removal("digits")
        assert "the claim digits-dataset with its data" in found.goes
        assert found.stays == ()


@asynchronous
async def test_the_login_is_the_kubeconfig_then_the_pod(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with FakeApiServer() as server:
        account = tmp_path / "account"
        account.mkdir()
        (account / "token").write_text("of the pod")
        (account / "ca.crt").write_bytes(Authority().pem)
        (account / "namespace").write_text("of-the-pod\n")
        monkeypatch.setattr(login, "SERVICE_ACCOUNT", account)
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path, server)))
        assert AsyncClient().place == f"the namespace 'vision' of the cluster {server.url}"
        assert AsyncClient(context="here").place == "the namespace 'vision' of the context 'here'"
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
        assert AsyncClient().namespace == "of-the-pod"
        assert AsyncClient(namespace="speech").namespace == "speech"
        monkeypatch.delenv("KUBERNETES_SERVICE_HOST")
        with pytest.raises(ImageNetJobError, match="no API server is known"):
            AsyncClient()
