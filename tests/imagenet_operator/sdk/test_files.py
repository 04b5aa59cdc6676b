"""Files to a claim and from it: by a pod that the client makes, and that is gone afterwards."""

from __future__ import annotations

import asyncio
import hashlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from imagenet_operator.clusters.interface import ClusterError
from imagenet_operator.manifests import names
from imagenet_operator.manifests.volumes import upload_folder
from imagenet_operator.sdk import door_pod
from imagenet_operator.sdk.cluster import AsyncClient
from imagenet_operator.sdk.errors import Forbidden, NotFound
from imagenet_operator.sdk.interface import Selection
from imagenet_spec.errors import ImageNetJobError
from imagenet_spec.resource import ImageNetJob
from support.api_requests import Refusal, Request
from support.asynchronous import asynchronous, until
from support.client_jobs import AT, RIGHTS, condition, manifest, set_status
from support.door_cluster import DoorKubelet, door_cluster
from support.s3_server import S3Server, serve_s3
from support.sentences import assert_says, says

Manifest = dict[str, Any]
CLAIM = "digits-dataset"


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """A folder with photographs."""
    folder = tmp_path / "photos"
    for name in ("cat/1.jpg", "dog/2.jpg"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(name.encode())
    return folder


@pytest.fixture
def volumes(tmp_path: Path) -> Path:
    """The folders of the claims."""
    folder = tmp_path / "volumes"
    folder.mkdir()
    return folder


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


def listed(contents: dict[str, bytes]) -> Manifest:
    """The part of result.json and of a checkpoint's manifest that lists files."""
    return {
        name: {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        for name, content in contents.items()
    }


def write(folder: Path, contents: dict[str, bytes]) -> None:
    for name, content in contents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


MODEL = {"model-0002.safetensors": b"weights", "labels.json": b"[]"}
CURVES = {"metrics.jsonl": b"{}\n", "train.log": b"epoch 1\n", "thumbnails/1.jpg": b"small"}
RESULT = json.dumps({"model": {}, "best": {"epoch": 2}, "files": listed(MODEL)}).encode()


async def trained(
    kubelet: DoorKubelet,
    client: AsyncClient,
    *,
    best: bool = False,
    output: Manifest | None = None,
    **status: Any,
) -> ImageNetJob:
    """Submit a job, and write what a training of three epochs over two attempts leaves."""
    changes: Manifest = {"checkpoint": {"best": {"metric": "top1"}}} if best else {}
    if output is not None:
        changes["output"] = output
    await client.submit(manifest(training=changes))
    await kubelet.claim(CLAIM)
    job = await client.get("digits")
    attempts = kubelet.folder / CLAIM / names.output_folder("digits", job.metadata.uid) / "attempts"
    for attempt, epoch, batch in ((0, 1, 0), (0, 2, 0), (0, 2, 7), (1, 3, 0)):
        state = {"validations": [validation(1, 5), validation(2, 9)]}
        contents = {
            "params": f"epoch {epoch}, batch {batch}".encode(),
            "training.json": json.dumps(state).encode(),
        }
        contents["manifest.json"] = json.dumps({"files": listed(contents)}).encode()
        name = f"r{attempt}/checkpoints/epoch-{epoch:04}-batch-{batch:08}"
        write(attempts / name, contents)
    # It is being written.
    write(attempts / "r1/checkpoints/epoch-0004-batch-00000000", {"params": b"half"})
    write(attempts / "r1", {**MODEL, **CURVES, "result.json": RESULT, "compiled/1.bin": b"code"})
    path = names.attempt_folder("digits", job.metadata.uid, 1)
    model = {"claimName": CLAIM, "path": path, "sha256": hashlib.sha256(RESULT).hexdigest()}
    training = {"attempt": 1}
    succeeded = [condition("Succeeded")]
    whole = {"phase": "Succeeded", "conditions": succeeded, "training": training, "model": model}
    await set_status(kubelet.server, **{**whole, **status})
    return await client.get("digits")


def validation(epoch: int, top1: int) -> Manifest:
    counts = {"images": 10, "top1": top1, "top5": 10, "loss_units": 1, "not_finite": 0}
    return {"epoch": epoch, "attempt": 0, "counts": counts}


def none_is_left(kubelet: DoorKubelet) -> bool:
    return kubelet.server.all("Pod") == []


@asynchronous
async def test_a_folder_is_sent_once_and_its_pod_is_gone(photos: Path, volumes: Path) -> None:
    async with door_cluster(volumes) as (kubelet, client):
        await kubelet.claim("raw")
        sent = await client.upload(photos, "raw", path="images")
        assert (sent.files, files(volumes / "raw" / "images")) == (2, files(photos))
        assert none_is_left(kubelet)
        again = await client.upload(photos, "raw", path="images")
        assert (again.files, again.unchanged) == (0, 2)


@asynchronous
async def test_a_claim_is_made_if_a_size_is_given(photos: Path, volumes: Path) -> None:
    async with door_cluster(volumes) as (kubelet, client):
        archive = photos.with_name("photos.tar")
        archive.write_bytes(b"tar")
        with pytest.raises(NotFound, match=says("no PersistentVolumeClaim 'raw'", "give its size")):
            await client.upload(archive, "raw")
        with pytest.raises(ImageNetJobError, match="'large' is no quantity"):
            await client.upload(archive, "raw", size="large")
        with pytest.raises(ImageNetJobError, match="no such folder or file"):
            await client.upload(photos / "x", "raw", size="1Gi")
        for path, said in (("/images", "a / at its beginning"), ("../x", "may not be . or ..")):
            with pytest.raises(ImageNetJobError, match=f"{path}: .*{said}"):
                await client.upload(archive, "raw", size="1Gi", path=path)
        assert kubelet.server.all("PersistentVolumeClaim") == []
        assert kubelet.created == []
        await client.upload(archive, "raw", size="1Gi")
        made = kubelet.server.get("PersistentVolumeClaim", "raw")
        assert made is not None and "storageClassName" not in made["spec"]
        assert made["spec"]["resources"] == {"requests": {"storage": "1Gi"}}
        assert files(volumes / "raw") == {"photos.tar": b"tar"}


@asynchronous
async def test_the_model_comes_with_its_curves_and_without_checkpoints(
    tmp_path: Path, volumes: Path
) -> None:
    async with door_cluster(volumes) as (kubelet, client):
        await trained(kubelet, client)
        found = await client.download("digits", tmp_path / "model")
        assert files(found) == {**MODEL, **CURVES, "result.json": RESULT}
        (pod,) = kubelet.created
        mounts = pod["spec"]["containers"][0]["volumeMounts"]
        assert next(mount for mount in mounts if mount["name"] == "claim")["readOnly"]
        assert none_is_left(kubelet)


@asynchronous
async def test_a_model_that_was_uploaded_to_a_bucket_comes_from_the_volume(
    tmp_path: Path, volumes: Path
) -> None:
    async with door_cluster(volumes) as (kubelet, client):
        digest = hashlib.sha256(RESULT).hexdigest()
        uploaded = {"bucket": "models", "path": "digits/r1", "sha256": digest}
        await trained(kubelet, client, model=uploaded)
        found = await client.download("digits", tmp_path / "model")
        assert (found / "result.json").read_bytes() == RESULT


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with serve_s3(tmp_path_factory.mktemp("s3")) as running:
        yield running


async def uploaded(
    kubelet: DoorKubelet, client: AsyncClient, bucket: S3Server, keys: Path
) -> ImageNetJob:
    """Upload what a job has trained, as its Job does after training, and delete its claim."""
    s3 = {"bucket": "datasets", "prefix": keys.name, "endpoint": bucket.endpoint}
    kubelet.secrets = {"keys": bucket.secret(keys)}
    output = {"upload": {"s3": {**s3, "secretName": "keys"}}}
    job = await trained(kubelet, client, output=output)
    folder = kubelet.folder / CLAIM / names.output_folder("digits", job.metadata.uid)
    place = upload_folder(job)
    left = files(folder).items()
    # These stay on the volume.
    kept = {"train.log", "thumbnails", "compiled"}
    sent = {f"{place}/{name}": one for name, one in left if not kept & {*Path(name).parts}}
    bucket.fill("datasets", sent)
    await set_status(
        kubelet.server,
        phase="Succeeded",
        conditions=[condition("Succeeded"), condition("ModelUploaded", "Uploaded")],
        training={"attempt": 1},
        model={
            "bucket": "datasets",
            "path": f"{place}/attempts/r1",
            "sha256": hashlib.sha256(RESULT).hexdigest(),
        },
    )
    await kubelet.server.remove("PersistentVolumeClaim", CLAIM)
    shutil.rmtree(kubelet.folder / CLAIM)
    return await client.get("digits")


@asynchronous
async def test_a_model_whose_claim_is_gone_comes_from_the_bucket(
    tmp_path: Path, volumes: Path, bucket: S3Server
) -> None:
    async with door_cluster(volumes) as (kubelet, client):
        job = await uploaded(kubelet, client, bucket, tmp_path / "whole")
        told: list[str] = []
        found = await client.download("digits", tmp_path / "model", say=told.append)
        assert files(found) == {**MODEL, "metrics.jsonl": CURVES["metrics.jsonl"]} | {
            "result.json": RESULT
        }
        assert_says(told[0], f"the claim {CLAIM} is gone", f"s3://datasets/{upload_folder(job)}")
        found = await client.download("digits", tmp_path / "last", checkpoint="last")
        assert (found / "params").read_text() == "epoch 3, batch 0"
        assert len(await client.metrics("digits")) == 1
        assert none_is_left(kubelet)
        damaged = f"{upload_folder(job)}/attempts/r1/result.json"
        bucket.fill("datasets", {damaged: RESULT + b" "})
        with pytest.raises(ClusterError, match=r"result\.json: its SHA-256 is"):
            await client.download("digits", tmp_path / "damaged")


@asynchronous
async def test_a_bucket_that_refuses_or_that_the_job_no_longer_names_is_said(
    tmp_path: Path, volumes: Path, bucket: S3Server
) -> None:
    async with door_cluster(volumes) as (kubelet, client):
        job = await uploaded(kubelet, client, bucket, tmp_path / "refused")
        (tmp_path / "refused" / "AWS_SECRET_ACCESS_KEY").write_text("wrong")
        with pytest.raises(ClusterError) as refused:
            await client.download("digits", tmp_path / "model")
        assert_says(str(refused.value), "exit code 3", "refuses the keys", "check the Secret")
        assert "--image" not in str(refused.value)
        await kubelet.server.change(
            "ImageNetJob", "digits", lambda job: job["spec"]["training"].pop("output")
        )
        with pytest.raises(NotFound) as missing:
            await client.download("digits", tmp_path / "model")
        command = f"aws s3 cp --recursive s3://datasets/{upload_folder(job)}"
        assert_says(str(missing.value), f"the claim {CLAIM} is gone", command)
        assert not (tmp_path / "model").exists() and none_is_left(kubelet)


@asynchronous
async def test_a_model_that_was_changed_after_the_training_is_refused(
    tmp_path: Path, volumes: Path
) -> None:
    async with door_cluster(volumes) as (kubelet, client):
        job = await trained(kubelet, client)
        folder = volumes / CLAIM / names.attempt_folder("digits", job.metadata.uid, 1)
        (folder / "model-0002.safetensors").write_bytes(b"WEIGHTS")
        with pytest.raises(ClusterError, match=r"model-0002\.safetensors"):
            await client.download("digits", tmp_path / "model")
        assert not (tmp_path / "model" / "model-0002.safetensors").exists()
        (folder / "result.json").write_bytes(RESULT + b"\n")
        with pytest.raises(ClusterError, match=r"result\.json: its SHA-256 is"):
            await client.download("digits", tmp_path / "other")
        assert none_is_left(kubelet)


@pytest.mark.parametrize(
    ("checkpoint", "params"),
    [
        ("last", "epoch 3, batch 0"),
        (1, "epoch 1, batch 0"),
        (2, "epoch 2, batch 0"),
        ("best", "epoch 2, batch 0"),
    ],
)
@pytest.mark.parametrize("is_finished", [True, False])
def test_which_checkpoint_is_brought(
    tmp_path: Path, volumes: Path, checkpoint: str | int, params: str, is_finished: bool
) -> None:
    @asynchronous
    async def story() -> None:
        async with door_cluster(volumes) as (kubelet, client):
            status: Manifest = {} if is_finished else {"phase": "Running", "model": None}
            await trained(kubelet, client, best=True, **status)
            found = await client.download("digits", tmp_path / "c", checkpoint=checkpoint)
            assert (found / "params").read_text() == params
            assert (found / "manifest.json").exists()

    story()


@pytest.mark.parametrize("listed", [["params"], {"params": 7}, {"params": {}}], ids=str)
def test_a_damaged_manifest_of_a_checkpoint_is_an_error(
    tmp_path: Path, volumes: Path, listed: object
) -> None:
    @asynchronous
    async def story() -> None:
        async with door_cluster(volumes) as (kubelet, client):
            await trained(kubelet, client)
            (file,) = (volumes / CLAIM).rglob("epoch-0003-*/manifest.json")
            file.write_text(json.dumps({"files": listed}))
            with pytest.raises(ClusterError, match="lists its files without sums"):
                await client.download("digits", tmp_path / "c", checkpoint="last")
            assert none_is_left(kubelet)

    story()


@asynchronous
async def test_what_a_job_does_not_have_is_said_before_a_pod_is_made(
    tmp_path: Path, volumes: Path
) -> None:
    async with door_cluster(volumes) as (kubelet, client):
        await trained(kubelet, client, phase="Running", model=None)
        for checkpoint, said in ((None, "has no model"), ("best", r"no spec\.training\.check")):
            with pytest.raises(NotFound, match=said):
                await client.download("digits", tmp_path / "x", checkpoint=checkpoint)
        with pytest.raises(ImageNetJobError, match="'newest' names no checkpoint; write best"):
            await client.download("digits", tmp_path / "x", checkpoint="newest")
        assert kubelet.created == []
        with pytest.raises(NotFound, match="after 9 epochs; it has those after 1, 2, 3"):
            await client.download("digits", tmp_path / "x", checkpoint=9)
        with pytest.raises(NotFound, match="no job 'other'"):
            await client.download("other", tmp_path / "x")


@asynchronous
async def test_a_claim_for_one_node_is_served_on_the_node_that_has_it(
    tmp_path: Path, volumes: Path
) -> None:
    async with door_cluster(volumes) as (kubelet, client):
        await trained(kubelet, client)
        await kubelet.server.remove("PersistentVolumeClaim", CLAIM)
        await kubelet.claim(CLAIM, "ReadWriteOnce")
        labels = {"training.imagenet.dev/job-name": "digits"}
        claim = {"name": "data", "persistentVolumeClaim": {"claimName": CLAIM}}
        spot = {"key": "spot", "operator": "Exists"}
        container = {"name": "main", "image": "own:1", "command": ["imagenet-pack"]}
        for name, phase in (("digits-pack-0", "Succeeded"), ("digits-pack-1", "Running")):
            spec = {"nodeName": f"of-{name}", "volumes": [claim], "tolerations": [spot]}
            await kubelet.server.add(
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {"name": name, "namespace": "vision", "labels": labels},
                    "spec": {**spec, "containers": [container]},
                    "status": {"phase": phase},
                }
            )
        await client.download("digits", tmp_path / "one")
        await client.download("digits", tmp_path / "two", image="mine:2")
        one, two = (pod["spec"] for pod in kubelet.created)
        assert "of-digits-pack-1" in str(one["affinity"])
        assert one["tolerations"] == [spot]
        assert one["containers"][0]["image"] == "own:1"
        assert two["containers"][0]["image"] == "mine:2"


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let errors and waits end at once."""
    monkeypatch.setattr(door_pod, "QUIET_SECONDS", 0)
    monkeypatch.setattr(door_pod, "ERROR_SECONDS", 0)
    yield


WAITS = {
    "the image cannot be pulled": {
        "phase": "Pending",
        "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": AT}],
        "containerStatuses": [
            {"name": "main", "state": {"waiting": {"reason": "ImagePullBackOff"}}}
        ],
    },
    "exit code 127: no imagenet-door": {
        "phase": "Failed",
        "containerStatuses": [
            {
                "name": "main",
                "state": {"terminated": {"exitCode": 127, "message": "no imagenet-door\n"}},
            }
        ],
    },
}


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("said", WAITS)
def test_a_pod_that_does_not_start_says_why(photos: Path, volumes: Path, said: str) -> None:
    @asynchronous
    async def story() -> None:
        async with door_cluster(volumes) as (kubelet, client):
            await kubelet.claim("raw")
            kubelet.starts = False
            sending = asyncio.create_task(client.upload(photos, "raw"))
            await until(lambda: kubelet.created, 0.01)
            name = kubelet.created[0]["metadata"]["name"]
            await kubelet.set_status(name, WAITS[said])
            with pytest.raises(ClusterError, match=said):
                await sending
            assert none_is_left(kubelet)

    story()


@pytest.mark.usefixtures("impatient")
@asynchronous
async def test_a_pod_that_waits_says_for_what_and_goes_on(photos: Path, volumes: Path) -> None:
    async with door_cluster(volumes) as (kubelet, client):
        await kubelet.claim("raw")
        kubelet.starts = False
        told: list[str] = []
        sending = asyncio.create_task(client.upload(photos, "raw", say=told.append))
        await until(lambda: kubelet.created, 0.01)
        pod = kubelet.created[0]
        unschedulable = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "0/3 nodes are available: 3 Insufficient cpu.",
            "lastTransitionTime": AT,
        }
        status = {"phase": "Pending", "conditions": [unschedulable]}
        await kubelet.set_status(pod["metadata"]["name"], status)
        await until(lambda: told and "no node fits the pod" in told[-1], 0.01)
        assert "3 Insufficient cpu" in told[-1]
        await kubelet.start(pod)
        assert (await sending).files == 2


@asynchronous
async def test_an_interrupt_deletes_the_pod_and_a_kill_leaves_it_for_the_next_call(
    photos: Path, volumes: Path
) -> None:
    async with door_cluster(volumes) as (kubelet, client):
        await kubelet.claim("raw")
        kubelet.starts = False
        sending = asyncio.create_task(client.upload(photos, "raw"))
        await until(lambda: kubelet.created, 0.01)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        assert none_is_left(kubelet)
        # As it is left if the client is killed.
        ended = {**kubelet.created[0], "status": {"phase": "Succeeded"}}
        await kubelet.server.add(ended)
        kubelet.starts = True
        await client.upload(photos, "raw")
        assert none_is_left(kubelet)


@pytest.mark.parametrize("follow", [False, True])
def test_the_log_of_an_attempt_whose_pods_are_gone_is_read_from_the_volume(
    volumes: Path, follow: bool
) -> None:
    @asynchronous
    async def story() -> None:
        async with door_cluster(volumes) as (kubelet, client):
            job = await trained(kubelet, client)
            folder = volumes / CLAIM / names.attempt_folder("digits", job.metadata.uid, 0)
            told: list[str] = []

            async def read(selection: Selection) -> list[str]:
                lines = client.logs("digits", selection, follow=follow, say=told.append)
                return [f"{line.pod} {line.text}" async for line in lines]

            with pytest.raises(NotFound, match="no pod digits-r0-worker-0 any more"):
                await read(Selection(attempt=0))
            write(folder, {"train.log.1": b"one\n", "train.log": "two\u2028\nthree\n".encode()})
            found = await read(Selection(attempt=0))
            texts = ("one", "two\u2028", "three")
            assert found == [f"digits-r0-worker-0 {text}" for text in texts]
            for tail, expected in ((0, ()), (2, texts[1:]), (9, texts)):
                lines = client.logs("digits", Selection(attempt=0), follow=follow, tail=tail)
                assert tuple([line.text async for line in lines]) == expected
            assert any("/r0/train.log from the claim" in said for said in told)
            assert await read(Selection()) == ["digits-r1-worker-0 epoch 1"]
            with pytest.raises(NotFound, match="no pod digits-r0-server-0 any more"):
                await read(Selection(role="server", attempt=0))
            assert none_is_left(kubelet)

    story()


@asynchronous
async def test_connections_that_are_cut_are_opened_again(photos: Path, volumes: Path) -> None:
    async with door_cluster(volumes) as (kubelet, client):
        await kubelet.claim("raw")
        (photos / "large.jpg").write_bytes(bytes(range(256)) * 20_000)
        kubelet.server.ports.cuts = [0, 0, 30, 500, 100]
        await client.upload(photos, "raw")
        assert files(volumes / "raw") == files(photos)


@asynchronous
async def test_a_pod_that_is_gone_is_said(photos: Path, volumes: Path) -> None:
    async with door_cluster(volumes) as (kubelet, client):
        await kubelet.claim("raw")

        async def evict(asked: Request) -> None:
            if asked.subresource == "portforward":
                await kubelet.stop(asked.name)
                await kubelet.server.remove("Pod", asked.name)

        kubelet.server.faults.append(evict)
        with pytest.raises(ClusterError, match="is gone; type the same command again"):
            await client.upload(photos, "raw")


@asynchronous
async def test_a_pod_that_ends_says_why_at_once(photos: Path, volumes: Path) -> None:
    async with door_cluster(volumes) as (kubelet, client):
        await kubelet.claim("raw")

        async def evict(asked: Request) -> None:
            # The first connection shows that it listens.
            if asked.subresource == "portforward" and kubelet.server.ports.opened:
                await kubelet.stop(asked.name)
                ended = {"exitCode": 137, "reason": "Error"}
                containers = [{"name": "main", "state": {"terminated": ended}}]
                evicted = {"reason": "Evicted", "message": "The node was low on resource: memory."}
                status = {"phase": "Failed", **evicted, "containerStatuses": containers}
                await kubelet.set_status(asked.name, status)

        (photos / "large.jpg").write_bytes(bytes(range(256)) * 20_000)
        kubelet.server.ports.cuts = [500]
        kubelet.server.faults.append(evict)
        with pytest.raises(ClusterError, match=r"low on resource: memory\.; type the same"):
            await client.upload(photos, "raw")
        assert none_is_left(kubelet)


@pytest.mark.parametrize(
    ("resource", "right"),
    [
        ("persistentvolumeclaims", "get persistentvolumeclaims"),
        ("pods", "list pods"),
        ("pods/portforward", "get and create pods/portforward"),
    ],
)
def test_a_right_that_is_missing_is_named(
    photos: Path, volumes: Path, resource: str, right: str
) -> None:
    @asynchronous
    async def story() -> None:
        async with door_cluster(volumes) as (kubelet, client):
            await kubelet.claim("raw")
            kubelet.server.verbs = {
                key: verbs for key, verbs in RIGHTS.items() if key != ("", resource)
            }
            with pytest.raises(Forbidden) as forbidden:
                await client.upload(photos, "raw")
            assert forbidden.value.right == right

    story()


@asynchronous
async def test_a_refusal_to_create_the_pod_says_what_to_change(photos: Path, volumes: Path) -> None:
    async with door_cluster(volumes) as (kubelet, client):
        await kubelet.claim("raw")
        lacks = 'User "ann" cannot create resource "pods" in API group ""'
        for message, said in (
            (lacks, "the right to create pods is missing"),
            ("exceeded quota: team", "raise the ResourceQuota"),
        ):
            answer = Refusal(403, "Forbidden", message)
            kubelet.server.refuse(answer, lambda asked: asked.verb == "create", times=1)
            with pytest.raises(ClusterError, match=said):
                await client.upload(photos, "raw")
