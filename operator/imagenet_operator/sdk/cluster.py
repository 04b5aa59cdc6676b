"""The client of the jobs of one namespace of a cluster.

docs/jobs.md has the Role that it needs. Before a job is submitted, the claims, Secrets and quotas
that it needs are looked at as far as the user may read them. Files go to and come from a claim
through a door: a pod that serves it (`door_pod`, `transfer`).
"""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any, Final, Self, TypeVar

from imagenet_operator.clusters.interface import ClusterError
from imagenet_operator.clusters.kubernetes import login, objects
from imagenet_operator.clusters.kubernetes.client import (
    CONFLICT,
    FORBIDDEN,
    NOT_FOUND,
    TOO_MANY_REQUESTS,
    UNAUTHORIZED,
    ApiError,
    Client,
)
from imagenet_operator.clusters.kubernetes.diagnostics import event_time
from imagenet_operator.clusters.kubernetes.login import Connection
from imagenet_operator.clusters.kubernetes.objects import BY_NAME, EVENT, JOB, POD, Kind
from imagenet_operator.manifests import labels, names, volumes
from imagenet_operator.manifests.door import Uploaded
from imagenet_operator.reconcile.decide import is_finished
from imagenet_operator.sdk import logs, metrics, pod_log, results, submission, transfer
from imagenet_operator.sdk.door_pod import DoorPods, random_suffix
from imagenet_operator.sdk.door_requests import Door, Policy, TransferError
from imagenet_operator.sdk.errors import Forbidden, NotFound, Rejected
from imagenet_operator.sdk.interface import (
    JobEvent,
    JobList,
    Jobs,
    LogLine,
    Outage,
    Progress,
    Removal,
    Selection,
    Transferred,
    in_words,
)
from imagenet_operator.sdk.local import AsyncLocalClient
from imagenet_operator.sdk.metrics import Rows
from imagenet_spec import stored, tree
from imagenet_spec.errors import ImageNetJobError, Problem
from imagenet_spec.names import READABLE_LOG, TENSORBOARD_FOLDER
from imagenet_spec.resource import ImageNetJob, Manifest, quantities

_CLAIM: Final = BY_NAME["PersistentVolumeClaim"]
_INVALID: Final = (400, 413, 422)
_BACKGROUND: Final = {"kind": "DeleteOptions", "apiVersion": "v1"}

_BASE_LENGTH: Final = 58
"""The characters that the API server keeps of `generateName`."""

_PASSING: Final = frozenset({0, UNAUTHORIZED, TOO_MANY_REQUESTS})
"""Codes of failures that may pass, beside those of the server: no answer, an expired token that
the client renews, and too many requests."""

_VERBS: Final = {
    **{"POST": "create", "PATCH": "patch", "DELETE": "delete", "WATCH": "watch"},
    # A websocket is a get, and since Kubernetes 1.35 also a create.
    "CONNECT": "get and create",
}
_LACKS: Final = re.compile(r' cannot [a-z]+ resource "')
"""What only the authorizer says. Quotas, webhooks and policies also answer 403."""

_NAMESPACE: Final = re.compile(r'namespaces "[^"]*" not found')

Answer = TypeVar("Answer")


class AsyncClient(Jobs):
    """Jobs of one namespace of a cluster, for programs that await.

    Without arguments it logs in as kubectl does: with the current context of KUBECONFIG, or, where
    there is no kubeconfig, with the service account of the pod that it runs in.

    Args:
        context: A context of KUBECONFIG; None is the current one.
        namespace: The namespace; None is that of the context, or of the pod.
        connection: The login, in place of a context.
        poll_seconds: The time between two looks at a job that is waited for; 2 if it is None.

    Raises:
        NoConnection: There is no login that can be used.

    Example:
        >>> async with AsyncClient(namespace="vision") as client:
        ...     job = await client.submit("job.yaml")
        ...     await client.wait(job.metadata.name, timeout=3600)
    """

    def __init__(
        self,
        *,
        context: str | None = None,
        namespace: str | None = None,
        connection: Connection | None = None,
        poll_seconds: float | None = None,
    ) -> None:
        self._connection = connection or login.of_user(context)
        self.namespace = namespace or self._connection.namespace
        if poll_seconds is not None:
            self.poll_seconds = poll_seconds
        where = f"the cluster {self._connection.server}"
        if context is not None:
            where = f"the context {context!r}"
        self.place = f"the namespace {self.namespace!r} of {where}"
        chosen = "" if context is None else f" --context {shlex.quote(context)}"
        self.options = f"{chosen} -n {self.namespace}"
        self._client = Client(self._connection)

    @staticmethod
    def local(workdir: Path | str = "imagenet-work") -> AsyncLocalClient:
        """Return a client of the jobs of a working directory of this machine.

        Args:
            workdir: What `imagenetctl run` has as --workdir.
        """
        return AsyncLocalClient(workdir)

    async def __aenter__(self) -> Self:
        await self._client.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.__aexit__(None, None, None)

    def is_passing(self, error: ClusterError) -> bool:
        return is_passing(error)

    async def submit(
        self, job: ImageNetJob | Manifest | Path | str, *, dry_run: bool = False
    ) -> ImageNetJob:
        wanted = submission.read(job)
        written = wanted.metadata.namespace
        if "namespace" in wanted.metadata.model_fields_set and written != self.namespace:
            hint = f"leave it out, or use a client of {written!r}"
            said = f"is {written!r}, and this is a client of {self.namespace!r}"
            raise Rejected([Problem("metadata.namespace", said, hint)])
        manifest = wanted.to_manifest()
        manifest.pop("status", None)
        metadata = {
            name: manifest["metadata"][name]
            for name in ("name", "generateName", "labels", "annotations")
            if manifest["metadata"].get(name)
        }
        manifest["metadata"] = {**metadata, "namespace": self.namespace}
        if (base := wanted.metadata.generate_name) and not wanted.metadata.name:
            # Not by the API server: a create is sent again if its answer was lost.
            wanted = submission.named(wanted, f"{base[:_BASE_LENGTH]}{random_suffix()}")
            manifest["metadata"]["name"] = wanted.metadata.name
        query = {"fieldValidation": "Strict", **({"dryRun": "All"} if dry_run else {})}
        try:
            return _read(await self._client.create(JOB.path(self.namespace), manifest, **query))
        except ApiError as error:
            if error.code != CONFLICT:
                raise self._explained(error, wanted.metadata.name) from error
        name = wanted.metadata.name
        found = await self.get(name)
        if found.metadata.deletion_timestamp is not None:
            hint = f"submit it again when imagenetctl status {name}{self.options} finds no job"
            raise Rejected([Problem("metadata.name", f"the job {name!r} is being deleted", hint)])
        if submission.is_same(wanted, found):
            return found
        raise Rejected(
            submission.differences(wanted, found),
            f"{self.place} has another job {name!r}",
            "write another metadata.name, or delete the job that is there: "
            f"imagenetctl delete {name}{self.options}",
        )

    async def check(self, job: ImageNetJob, beside: Path | None = None) -> tuple[str, ...]:
        """Return what a job lacks in its namespace, each in words: claims, Secrets and quota.

        What the user may not read is said to be unchecked. If the claim of the images is missing,
        and the manifest says where they are on this machine, the command that sends them is named.
        """
        said = []
        for claim, path in submission.claims(job).items():
            is_absent, text = await self._absent(_CLAIM, claim)
            if text:
                folder = beside or Path()
                command = submission.upload_command(job, claim, folder) if is_absent else None
                send = f"; send the images with {command}{self.options}" if command else ""
                said.append(f"{path}: {text}{send}")
        for secret, user in submission.secrets(job).items():
            _, text = await self._absent(objects.SECRET, secret)
            if text:
                said.append(f"{user}: {text}")
        try:
            quotas = (await self._client.get(objects.QUOTA.path(self.namespace)))["items"]
        except ApiError as error:
            if error.code != FORBIDDEN:
                raise
            return (*said, "quotas are not checked: the right to list resourcequotas is missing")
        for quota in quotas:
            if short := submission.lack(job, quota):
                name = quota["metadata"]["name"]
                said.append(f"the ResourceQuota {name!r} has too little: {'; '.join(short)}")
        return tuple(said)

    async def _absent(self, kind: Kind, name: str) -> tuple[bool, str]:
        """Return whether an object is absent, and that it is or cannot be read in words."""
        try:
            await self._client.get(
                kind.path(self.namespace, name),
                "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
            )
        except ApiError as error:
            if error.code == NOT_FOUND:
                return True, f"the namespace {self.namespace!r} has no {kind.name} {name!r}"
            if error.code == FORBIDDEN:
                right = f"get {kind.plural}"
                unchecked = f"the {kind.name} {name!r} is not checked"
                return False, f"{unchecked}: the right to {right} is missing"
            raise
        return False, ""

    async def list(self) -> JobList:
        found: list[ImageNetJob] = []
        try:
            async for page in self._client.pages(JOB.path(self.namespace)):
                # A list's items have no type of their own.
                typed = {"apiVersion": JOB.api_version, "kind": JOB.name}
                found += (_read({**typed, **item}) for item in page["items"])
        except ApiError as error:
            raise self._explained(error) from error
        return JobList(sorted(found, key=lambda job: job.metadata.name))

    async def get(self, name: str) -> ImageNetJob:
        return _read(await self._asked(lambda: self._client.get(self._path(name)), name))

    async def events(self, name: str) -> tuple[JobEvent, ...]:
        uid = (await self.get(name)).metadata.uid
        found = await self._asked(
            lambda: self._client.get(
                EVENT.path(self.namespace), fieldSelector=f"involvedObject.uid={uid}"
            ),
            name,
        )
        events = [
            JobEvent(
                event_time(item),
                item.get("type") or "Normal",
                item.get("reason") or "",
                item.get("message") or "",
                (item.get("series") or {}).get("count") or item.get("count") or 1,
            )
            for item in found.get("items") or ()
        ]
        return tuple(sorted(events, key=lambda event: event.time))

    def logs(
        self,
        name: str,
        selection: Selection = Selection(),  # noqa: B008 - it is immutable
        *,
        follow: bool = False,
        tail: int | None = None,
        image: str | None = None,
        say: Callable[[str], None] = lambda said: None,
    ) -> AsyncIterator[LogLine]:
        source = _PodLogs(self, name, image, say)
        return logs.follow(source, selection, to_the_end=follow, tail=tail, say=say)

    async def metrics(
        self,
        name: str,
        *,
        from_volume: bool = True,
        image: str | None = None,
        say: Callable[[str], None] = lambda said: None,
    ) -> Any:
        job = await self.get(name)
        rows: Rows = []
        if not from_volume:
            pods = [pod["metadata"]["name"] for pod in await self.pods(name)]
            rows = await metrics.of_logs(self, job, pods)
        elif job.status.training is not None:
            folder = names.output_folder(name, job.metadata.uid)
            with TemporaryDirectory() as temporary:
                to = Path(temporary)
                served = await self._results(job, say)
                await self.fetch(
                    job, folder, to, metrics.is_file, served=served, image=image, say=say
                )
                rows = metrics.of_files(to)
        if not rows:
            raise NotFound(f"{name} has not trained yet: {in_words(job)}")
        return metrics.table(rows)

    async def suspend(self, name: str) -> None:
        await self._suspend(name, True)

    async def resume(self, name: str) -> None:
        await self._suspend(name, False)

    async def _suspend(self, name: str, value: bool) -> None:
        patch = {"spec": {"runPolicy": {"suspend": value}}}
        await self._asked(lambda: self._client.merge(self._path(name), patch), name)

    async def delete(self, name: str) -> None:
        uid = (await self.get(name)).metadata.uid
        options = {
            **_BACKGROUND,
            "propagationPolicy": "Background",
            "preconditions": {"uid": uid},
        }
        await self._asked(lambda: self._client.delete(self._path(name), options), name)

    async def removal(self, name: str) -> Removal:
        job = await self.get(name)
        own = [item["metadata"]["name"] for item in volumes.claims(job)]
        goes = [f"the job {name}, its pods, their logs and its events"]
        stays: list[str] = []
        is_kept = job.spec.run_policy.retention_policy == "Retain"
        (stays if is_kept else goes).extend(f"the claim {claim} with its data" for claim in own)
        model = job.status.model
        if model is not None and (is_kept or model.claim_name not in own):
            stays.append(f"the model: {model.place}")
        return Removal(tuple(goes), tuple(stays))

    async def upload(
        self,
        source: Path | str,
        claim: str,
        *,
        size: str | None = None,
        path: str = "",
        image: str | None = None,
        progress: Callable[[Progress], None] = lambda progress: None,
        say: Callable[[str], None] = lambda said: None,
    ) -> Transferred:
        if not Path(source).exists():
            raise ImageNetJobError(f"{source}: there is no such folder or file")
        tree.parts_of(path)
        await self._provide(claim, size)
        async with self.door(claim, writable=True, image=image, say=say) as door:
            policy = Policy(self.poll_seconds, say=say)
            return await transfer.upload(door, Path(source), path, progress=progress, policy=policy)

    async def _provide(self, claim: str, size: str | None) -> None:
        try:
            await self._client.get(_CLAIM.path(self.namespace, claim))
            return
        except ApiError as error:
            if error.code != NOT_FOUND:
                raise self._explained(error) from error
        if size is None:
            raise NotFound(
                f"{self.place} has no PersistentVolumeClaim {claim!r}; to create it, give "
                "its size: --size 10Gi"
            )
        try:
            quantities.parse(size)
        except ValueError as error:
            raise ImageNetJobError(f"the size {size!r} is no quantity; write 10Gi") from error
        manifest = {
            "apiVersion": _CLAIM.api_version,
            "kind": _CLAIM.name,
            "metadata": {"name": claim, "namespace": self.namespace},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": size}},
            },
        }
        await self._asked(lambda: self._client.create(_CLAIM.path(self.namespace), manifest), claim)

    async def download(
        self,
        name: str,
        to: Path | str,
        *,
        checkpoint: str | int | None = None,
        image: str | None = None,
        progress: Callable[[Progress], None] = lambda progress: None,
        say: Callable[[str], None] = lambda said: None,
    ) -> Path:
        job = await self.get(name)
        results.require(job, checkpoint)
        served = await self._results(job, say, checkpoints=checkpoint is not None)
        async with self.door(served, job=job, image=image, say=say) as door:
            policy = Policy(self.poll_seconds, say=say)
            await results.fetch(job, _Volume(door, Path(to), progress, policy), checkpoint)
        return Path(to)

    async def event_files(
        self,
        name: str,
        received: Path,
        shown: Path,
        *,
        image: str | None = None,
        say: Callable[[str], None] = lambda said: None,
    ) -> bool:
        """Bring the event files of a job that have grown; return whether no more will come.

        Event files only grow. TensorBoard may keep a file open, so its copy in `shown` grows too,
        and is not replaced. `received` has what has arrived, between two calls. The claim is served
        during a call alone: if only one node can mount it, a pod that holds it longer could keep
        the next attempt from its node.
        """
        job = await self.get(name)
        tracking = job.spec.training.tracking
        if tracking is None or tracking.tensor_board is None:
            raise NotFound(
                f"{name} writes no files for TensorBoard; a job writes them with "
                "spec.training.tracking: {tensorBoard: {}}"
            )
        folder = f"{names.output_folder(name, job.metadata.uid)}/{TENSORBOARD_FOLDER}"
        await self.fetch(job, folder, received, image=image, say=say)
        for file in received.rglob("*"):
            # Names with a dot are of files that have arrived in part.
            if file.is_file() and not file.name.startswith("."):
                copy = shown / file.relative_to(received)
                copy.parent.mkdir(parents=True, exist_ok=True)
                with file.open("rb") as new, copy.open("ab") as old:
                    new.seek(old.tell())
                    shutil.copyfileobj(new, old)
        return is_finished(job.status)

    async def fetch(
        self,
        job: ImageNetJob,
        folder: str,
        to: Path,
        wanted: Callable[[str], bool] = lambda name: True,
        *,
        served: str | Uploaded | None = None,
        image: str | None = None,
        say: Callable[[str], None] = lambda said: None,
    ) -> None:
        """Bring the wanted files of a folder of a job's results; none if there is no folder.

        They come from the claim, unless `served` says from where.
        """
        policy = Policy(self.poll_seconds, say=say)
        async with self.door(served or _claim(job), job=job, image=image, say=say) as door:
            try:
                await transfer.download(door, folder, to, wanted=wanted, policy=policy)
            except TransferError as error:
                if error.reason != "NotFound":
                    raise

    async def _results(
        self, job: ImageNetJob, say: Callable[[str], None], *, checkpoints: bool = False
    ) -> str | Uploaded:
        """Return the claim of a job's results or, if it is gone, what the job has uploaded."""
        claim, model, bucket = _claim(job), job.status.model, job.spec.training.upload
        if model is None or model.bucket is None or not (await self._absent(_CLAIM, claim))[0]:
            return claim
        folder = str(PurePosixPath(model.path).parents[1])
        url = f"s3://{model.bucket}/{folder}"
        if bucket is None or bucket.bucket != model.bucket:
            raise NotFound(
                f"the claim {claim} is gone, and spec.training.output.upload does not name the "
                f"bucket of the model; fetch it with: aws s3 cp --recursive {url} DIR"
            )
        say(f"the claim {claim} is gone; a pod first fetches {url}")
        return Uploaded(url, checkpoints)

    @asynccontextmanager
    async def door(
        self,
        served: str | Uploaded,
        *,
        writable: bool = False,
        job: ImageNetJob | None = None,
        image: str | None = None,
        say: Callable[[str], None] = lambda said: None,
    ) -> AsyncIterator[Door]:
        """Serve files during a block; the arguments are those of `DoorPods.opened`."""
        pods = DoorPods(self._client, self.namespace, self.poll_seconds, say)
        try:
            async with pods.opened(served, writable=writable, job=job, image=image) as door:
                yield door
        except ApiError as error:
            raise self._explained(error) from error

    def _path(self, name: str) -> str:
        return JOB.path(self.namespace, name)

    async def pods(self, name: str) -> tuple[Manifest, ...]:
        found: list[Manifest] = []
        selector = f"{labels.JOB_NAME}={name}"
        try:
            async for page in self._client.pages(POD.path(self.namespace), labelSelector=selector):
                found += page["items"]
        except ApiError as error:
            raise self._explained(error, name) from error
        return tuple(found)

    async def read_log(
        self,
        pod: str,
        *,
        follow: bool,
        tail: int | None = None,
        say: Callable[[str], None] = lambda said: None,
    ) -> AsyncIterator[LogLine]:
        reader = pod_log.Reader(
            self._client, POD.path(self.namespace, pod), pod, self.new_outage(), say
        )
        try:
            async for line in reader.lines(follow=follow, tail=tail):
                yield line
        except ApiError as error:
            raise self._explained(error, pod) from error

    def new_outage(self, say: Callable[[str], None] = lambda said: None) -> Outage:
        return Outage(self.poll_seconds, self.is_passing, say=say)

    async def _asked(self, request: Callable[[], Awaitable[Answer]], name: str) -> Answer:
        try:
            return await request()
        except ApiError as error:
            raise self._explained(error, name) from error

    def _explained(self, error: ApiError, name: str = "") -> Exception:
        """Return what an answer means for a user; the error itself if it has no meaning here."""
        if error.code == NOT_FOUND and _NAMESPACE.match(error.message):
            return NotFound(f"{self.place} does not exist: {error.message}")
        if error.code == NOT_FOUND and name and f'"{name}" not found' in error.message:
            shown = f"imagenetctl list{self.options} shows the jobs"
            return NotFound(f"{self.place} has no job {name!r}; {shown}")
        if error.code == NOT_FOUND:
            return NotFound(
                f"{self.place} has no resource {JOB.plural}: the operator is not installed there"
            )
        verb, _, path = error.request.partition(" ")
        is_read = verb in ("GET", "CONNECT")
        if error.code == FORBIDDEN and (is_read or _LACKS.search(error.message)):
            return Forbidden(_right(verb, path), self.namespace, error.message)
        if error.code in (FORBIDDEN, *_INVALID):
            fields = sorted(error.fields) or [""]
            return Rejected([Problem(field, error.message or error.reason) for field in fields])
        return error


def is_passing(error: ClusterError) -> bool:
    """Whether a failure of an API server may pass by itself."""
    return isinstance(error, ApiError) and (error.code in _PASSING or error.code >= 500)


@dataclass(frozen=True)
class _Volume:
    """The volume of a job's results, for `results.fetch`."""

    door: Door
    to: Path
    progress: Callable[[Progress], None]
    policy: Policy

    async def names(self, folder: str) -> Sequence[str]:
        return await transfer.names(self.door, folder, policy=self.policy)

    async def read(self, path: str) -> bytes:
        return await transfer.read(self.door, path, policy=self.policy)

    async def fetch(
        self, folder: str, sums: Mapping[str, str], wanted: Callable[[str], bool]
    ) -> None:
        await transfer.download(
            self.door,
            folder,
            self.to,
            sums=sums,
            wanted=wanted,
            progress=self.progress,
            policy=self.policy,
        )


class _PodLogs:
    """The logs of a job's pods, for `logs.follow`."""

    def __init__(
        self, client: AsyncClient, name: str, image: str | None, say: Callable[[str], None]
    ) -> None:
        self.poll_seconds = client.poll_seconds
        self._client = client
        self._name = name
        self._image = image
        self._say = say
        self._outage = client.new_outage(say)
        self._job: ImageNetJob | None = None

    async def job(self) -> ImageNetJob:
        if self._job is None:
            # A login or a server that does not work is no outage, but said at once.
            self._job = await self._client.get(self._name)
            return self._job
        job = await self._outage.ask(lambda: self._client.get(self._name))
        if job.metadata.uid != self._job.metadata.uid:
            raise NotFound(f"{self._name} was deleted, and another job has its name now")
        return job

    async def started(self) -> set[str]:
        pods = await self._outage.ask(lambda: self._client.pods(self._name))
        return {
            pod["metadata"]["name"]
            for pod in pods
            if pod_log.has_started(pod) and not self._is_of_another_job(pod)
        }

    def _is_of_another_job(self, pod: Manifest) -> bool:
        """Whether a pod is left from a deleted job of the same name.

        Pods of the preparation belong to their Jobs, which do not say so, but are older.
        """
        assert self._job is not None
        job, metadata = self._job.metadata, pod["metadata"]
        created = datetime.fromisoformat(metadata["creationTimestamp"])
        if job.creation_timestamp is not None and created < job.creation_timestamp:
            return True
        owners = metadata.get("ownerReferences") or ()
        return any(item["kind"] == JOB.name and item["uid"] != job.uid for item in owners)

    async def is_over(self, job: ImageNetJob) -> bool:
        return is_finished(job.status)

    def read(self, pod: str, *, follow: bool, tail: int | None = None) -> AsyncIterator[LogLine]:
        return self._client.read_log(pod, follow=follow, tail=tail, say=self._say)

    async def kept(self, job: ImageNetJob, attempt: int) -> AsyncIterator[LogLine]:
        folder = names.attempt_folder(self._name, job.metadata.uid, attempt)
        self._say(f"its pod is gone; reading {folder}/{READABLE_LOG} from the claim")
        with TemporaryDirectory() as temporary:
            await self._client.fetch(
                job,
                folder,
                Path(temporary),
                lambda name: name in (READABLE_LOG, f"{READABLE_LOG}.1"),
                image=self._image,
                say=self._say,
            )
            pod = names.member(self._name, attempt, "worker", 0)
            for line in logs.kept_lines(Path(temporary), pod):
                yield line


def _claim(job: ImageNetJob) -> str:
    """Return the claim with a job's results, which may be gone."""
    model, claim = job.status.model, volumes.output_claim(job)
    if model is not None and model.claim_name is not None:
        claim = model.claim_name
    if claim is None:
        raise NotFound(f"{job.metadata.name} has no volume of results")
    return claim


def _read(manifest: Manifest) -> ImageNetJob:
    # A newer operator may have written it.
    return stored.read(manifest).job


def _right(verb: str, path: str) -> str:
    parts = path.split("/")
    # /api/v1/namespaces/N/RESOURCE/NAME/SUBRESOURCE, and one more before for a group.
    rest = parts[parts.index("namespaces") + 2 :]
    resource = rest[0] if len(rest) < 3 else f"{rest[0]}/{rest[2]}"
    read = "get" if len(rest) > 1 else "list"
    return f"{_VERBS.get(verb, read)} {resource}"
