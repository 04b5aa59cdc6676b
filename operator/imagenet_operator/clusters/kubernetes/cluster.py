"""A Kubernetes cluster: the caches that a reconcile reads, and the requests that it sends.

Reads come from the caches, or from the API server if a decision needs that (`reconciler`).
Writes go to the API server. Their answers go into the caches at once, so the next reconcile never
sees less than this one did.
"""

import asyncio
import logging
import re
from collections.abc import Callable
from typing import Final

from imagenet_operator.clusters.interface import AlreadyExists, Conflict, JobKey, key_of
from imagenet_operator.clusters.kubernetes import capacity, diagnostics, objects
from imagenet_operator.clusters.kubernetes.capacity import CapacityLock
from imagenet_operator.clusters.kubernetes.client import (
    CONFLICT,
    FORBIDDEN,
    NOT_FOUND,
    UNPROCESSABLE,
    ApiError,
    Client,
)
from imagenet_operator.clusters.kubernetes.diagnostics import ObjectEvents
from imagenet_operator.clusters.kubernetes.dry_run import DryRuns
from imagenet_operator.clusters.kubernetes.objects import Cache, Entry, NamedClaims
from imagenet_operator.clusters.kubernetes.recorder import Recorder
from imagenet_operator.clusters.kubernetes.stored_jobs import Sharers
from imagenet_operator.manifests import labels
from imagenet_operator.reconcile.types import Capacity, Event, Patch, Reference
from imagenet_spec import stored
from imagenet_spec.resource import ImageNetJob
from imagenet_spec.resource.base import Manifest
from imagenet_spec.resource.status import Status

LOGGER = logging.getLogger(__name__)

MANAGED: Final = f"{labels.MANAGED_BY}=imagenet-operator"
"""The label selector of everything that the operator has created."""

CHILD_BYTES: Final = 131072
"""The limit of the kept parts of a child: a pod of the operator takes one or two KiB."""

TOO_LARGE: Final = 413
_CLAIM: Final = "PersistentVolumeClaim"


class Invalid(ApiError):  # noqa: N818 - the API server's reason of the same name
    """The API server never accepts this object."""

    def __init__(self, error: ApiError) -> None:
        said = error.code, error.reason, error.message, error.fields
        super().__init__("the API server refuses it", *said)


class KubernetesCluster:
    """The `Cluster` of a Kubernetes API server.

    Beside the interface it has what only this cluster needs: live reads (`refresh`, `refresh_job`,
    `named_claims`, `recheck_foreign`), since the caches lag. A request that is refused, or has no
    answer, is an `ApiError`.

    Attributes:
        knows_nodes: Whether the nodes are known; the operator may lack the right to list them.
    """

    def __init__(
        self, client: Client, recorder: Recorder, enqueue: Callable[[JobKey, bool], None]
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._enqueue = enqueue
        self.jobs = Cache(objects.JOB, _itself, objects.project_job, lambda key, debounce: None)
        pods = Cache(
            objects.POD,
            job_of_child,
            objects.project_pod,
            enqueue,
            objects.may_debounce,
            limit=CHILD_BYTES,
        )
        self.children = {
            kind.name: pods
            if kind is objects.POD
            else Cache(kind, job_of_child, objects.project_child, enqueue, limit=CHILD_BYTES)
            for kind in objects.CHILDREN
        }
        self.nodes = Cache(
            objects.NODE,
            _itself,
            objects.project_node,
            lambda key, debounce: self._node_changed(key[1]),
        )
        self.knows_nodes = False
        self.capacity_lock = CapacityLock(client, pods, self.nodes, enqueue)
        self.named_claims = NamedClaims(client, self.children[_CLAIM])
        self.object_events = ObjectEvents(client)
        self.dry_runs = DryRuns(client)
        self.sharers = Sharers(self.jobs, self.children["Job"])
        self._reachable: set[str] = set()
        self._foreign: dict[JobKey, dict[tuple[str, str], Manifest]] = {}

    # ------------------------------------------------------------------ reads

    async def observe(self, job: ImageNetJob) -> list[Manifest]:
        key = key_of(job)
        caches = self.children.values()
        return [stored.manifest() for cache in caches for stored in cache.of_job(key)] + [
            *self._foreign.get(key, {}).values()
        ]

    async def unreachable_nodes(self, job: ImageNetJob) -> frozenset[str]:
        training = job.status.training
        recorded = () if training is None else training.members
        # A pod may have vanished from its node before the node is known to be lost.
        nodes = {member.node for member in recorded if member.node is not None}
        found = self._unreachable_nodes(key_of(job))
        return found if not self.knows_nodes else found | (nodes - self._reachable)

    def _unreachable_nodes(self, key: JobKey) -> frozenset[str]:
        if not self.knows_nodes:
            return frozenset()
        pods = self.children[objects.POD.name].of_job(key)
        return frozenset(pod.node for pod in pods if pod.node and pod.node not in self._reachable)

    async def refresh_job(self, key: JobKey) -> None:
        known = self.jobs.get(*key)
        try:
            self.jobs.put(await self._client.get(objects.JOB.path(*key)), silently=True)
        except ApiError as error:
            if error.code != NOT_FOUND:
                raise
            if known is not None:
                self.jobs.drop(key, known.uid)

    async def refresh(self, key: JobKey) -> None:
        """Read a job, and after it everything around it, from the API server into the caches."""
        await self.refresh_job(key)
        await asyncio.gather(
            self.recheck_foreign(key),
            *(self._refresh_children(key, cache) for cache in self.children.values()),
        )
        # On a node that is back, a pod that counts as gone still runs.
        await asyncio.gather(*map(self._refresh_node, self._unreachable_nodes(key)))

    async def _refresh_node(self, name: str) -> None:
        selector = f"metadata.name={name}"
        async for page in self._client.pages(objects.NODE.path(), fieldSelector=selector):
            for node in page["items"]:
                self.nodes.put(node)

    async def _refresh_children(self, key: JobKey, cache: Cache) -> None:
        namespace, name = key
        known = cache.keys_of_job(key)
        entries: list[Entry] = []
        version = ""
        selector = f"{MANAGED},{labels.JOB_NAME}={name}"
        path = cache.kind.path(namespace)
        async for page in self._client.pages(path, labelSelector=selector):
            version = page["metadata"]["resourceVersion"]
            entries += [cache.entry(item) for item in page["items"]]
        cache.replace(entries, int(version), known, silently=True)

    async def recheck_foreign(self, key: JobKey) -> None:
        """Read again the objects of other owners that have names that a job needs."""
        held = list(self._foreign.get(key, ()))
        await asyncio.gather(*(self._read_holder(key, kind, name) for kind, name in held))

    async def _read_holder(self, key: JobKey, kind: str, name: str) -> Manifest | None:
        """Read the object that has a name; keep it here if no cache selects it."""
        cache = self.children[kind]
        holders = self._foreign.setdefault(key, {})
        holders.pop((kind, name), None)
        try:
            found = await self._client.get(cache.kind.path(key[0], name))
        except ApiError as error:
            if error.code != NOT_FOUND:
                raise
            return None
        if _is_managed(found) and job_of_child(found) == key:
            cache.put(found, silently=True)
        else:
            holders[kind, name] = found
        return found

    def forget(self, key: JobKey) -> None:
        self._foreign.pop(key, None)
        self.capacity_lock.forget(key)
        self.capacity_lock.release(key)
        self.object_events.forget(key)
        self.dry_runs.forget(key)

    def jobs_with_pods(self) -> list[JobKey]:
        return self.children[objects.POD.name].jobs()

    def pods_of(self, key: JobKey) -> tuple[str, list[Manifest]] | None:
        job = self.jobs.get(*key)
        if job is None:
            return None
        return job.uid, [pod.manifest() for pod in self.children[objects.POD.name].of_job(key)]

    def _node_changed(self, name: str) -> None:
        node = self.nodes.get("", name)
        was_reachable = name in self._reachable
        if node is not None and capacity.is_reachable(node.manifest()):
            self._reachable.add(name)
        else:
            self._reachable.discard(name)
        if self.knows_nodes and was_reachable != (name in self._reachable):
            for job in self.children["Pod"].jobs_on(name):
                self._enqueue(job, False)

    async def free_capacity(self, job: ImageNetJob) -> Capacity | None:
        """Return the free capacity of each node; None without the right to list nodes or pods."""
        if not self.knows_nodes:
            return None
        try:
            return await self.capacity_lock.free(key_of(job))
        except ApiError as error:
            if error.code != FORBIDDEN:
                raise
            return None

    async def last_lines(self, job: ImageNetJob, after: Status) -> Event | None:
        """Return an event with the last lines of the member that failed first, if one did."""
        member = diagnostics.failed_member(job.status, after)
        return None if member is None else await diagnostics.last_lines(self._client, job, member)

    # ------------------------------------------------------------------ writes

    async def create(self, job: ImageNetJob, manifest: Manifest) -> None:
        """Create an object; raise Invalid if no API server would ever store it."""
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        cache, key = self.children[kind], key_of(job)
        try:
            made = await self._client.create(cache.kind.path(key[0]), manifest)
        except ApiError as error:
            if error.is_final:
                raise Invalid(error) from error
            if error.code != CONFLICT:
                raise
            found = await self._read_holder(key, kind, name)
            if found is None or not is_ours(found, job.metadata.uid):
                raise AlreadyExists(kind, name) from error
        else:
            cache.put(made, silently=True)

    async def delete(self, job: ImageNetJob, reference: Reference) -> None:
        kind = objects.BY_NAME[reference.kind]
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Background",
            "preconditions": {"uid": reference.uid},
        }
        try:
            answer = await self._client.delete(
                kind.path(job.metadata.namespace, reference.name), options
            )
        except ApiError as error:
            if error.code not in (NOT_FOUND, CONFLICT):
                raise
            return
        if answer.get("kind") == kind.name and kind.name in self.children:
            self.children[kind.name].put(answer, silently=True)

    async def patch(self, job: ImageNetJob, patch: Patch) -> None:
        cache = self.children[patch.kind]
        if patch.kind == objects.POD.name:
            # The only patch of a pod removes its scheduling gate.
            self.capacity_lock.invalidate()
        metadata = {**patch.merge.get("metadata", {}), "uid": patch.uid}
        path = cache.kind.path(job.metadata.namespace, patch.name)
        try:
            answer = await self._client.merge(path, {**patch.merge, "metadata": metadata})
        except ApiError as error:
            # The UID is immutable, so a successor of the same name refuses the patch.
            is_successor = error.code == UNPROCESSABLE and "metadata.uid" in error.message
            if error.code not in (NOT_FOUND, CONFLICT) and not is_successor:
                raise
            return
        cache.put(answer, silently=True)

    async def write_status(self, job: ImageNetJob) -> None:
        read = self.jobs.get(*key_of(job))
        if read is None or (read.uid, str(read.version)) != (
            job.metadata.uid,
            job.metadata.resource_version,
        ):
            raise Conflict(f"{job.metadata.name} has changed since it was read")
        try:
            answer = await self._replace_status(read.manifest(), job.status)
        except ApiError as error:
            # A status is refused for its size or its values. The API server limits a request, and
            # etcd an object, each with another answer.
            is_too_large = re.search(r"too (large|long)|larger than max", error.message) is not None
            if not is_too_large and error.code not in (TOO_LARGE, UNPROCESSABLE):
                raise
            LOGGER.warning("%s/%s: %s; writing the status without messages", *key_of(job), error)
            answer = await self._replace_status(read.manifest(), stored.reduced(job.status))
        self.jobs.put(answer, silently=True)

    async def _replace_status(self, manifest: Manifest, status: Status) -> Manifest:
        # The stored job may have fields that the model does not know.
        manifest["status"] = stored.carried(manifest.get("status") or {}, status)
        metadata = manifest["metadata"]
        path = objects.JOB.path(metadata["namespace"], metadata["name"])
        try:
            return await self._client.replace(f"{path}/status", manifest)
        except ApiError as error:
            if error.code not in (CONFLICT, NOT_FOUND):
                raise
            raise Conflict(str(error)) from error

    async def record_event(self, job: ImageNetJob, event: Event) -> None:
        self._recorder.record(job, event)


def is_ours(item: Manifest, uid: str) -> bool:
    """Whether an object belongs to the job with this UID, and is not being deleted."""
    metadata = item["metadata"]
    owners = metadata.get("ownerReferences") or ()
    owned = any(owner["uid"] == uid and owner.get("controller") for owner in owners)
    # A claim that an earlier job of this name left has no owner; the job adopts it.
    kept = item["kind"] == "PersistentVolumeClaim" and not owners and _is_managed(item)
    return (owned or kept) and "deletionTimestamp" not in metadata


def job_of_child(item: Manifest) -> JobKey | None:
    """Return the job that an object names in its labels."""
    metadata = item["metadata"]
    name = (metadata.get("labels") or {}).get(labels.JOB_NAME)
    return None if name is None else (metadata["namespace"], name)


def _itself(item: Manifest) -> JobKey:
    metadata = item["metadata"]
    return (metadata.get("namespace", ""), metadata["name"])


def _is_managed(item: Manifest) -> bool:
    return (item["metadata"].get("labels") or {}).get(labels.MANAGED_BY) == "imagenet-operator"
