"""A Kubernetes cluster as a pass sees it: what is observed of a job, and how actions reach it.

Reads come from caches, or from the API server itself where a decision needs that (`certainty`).
Writes go to the API server, and its answers into the caches at once, so that the next pass never
sees less than this one did.
"""

import asyncio
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from imagenet_operator.api import ImageNetJob
from imagenet_operator.api.base import Manifest
from imagenet_operator.clusters.errors import NameTaken
from imagenet_operator.clusters.kubernetes import haste, kinds, nodes, trim
from imagenet_operator.clusters.kubernetes.cache import Cache, Entry, JobKey, Stored
from imagenet_operator.clusters.kubernetes.client import ApiError, Client
from imagenet_operator.clusters.kubernetes.gang_room import GangRoom
from imagenet_operator.clusters.kubernetes.recorder import Recorder
from imagenet_operator.manifests import labels
from imagenet_operator.reconcile.types import Capacity, Event, Patch, Reference

MANAGED: Final = f"{labels.MANAGED_BY}=imagenet-operator"
"""The label selector of everything that the operator has made."""

BAD_REQUEST: Final = 400
NOT_FOUND: Final = 404
CONFLICT: Final = 409
FORBIDDEN: Final = 403
UNPROCESSABLE: Final = 422
_CLAIM: Final = "PersistentVolumeClaim"
_IS_INVALID: Final = re.compile(r'[\w.-]+ "[^"]*" is invalid')


class Refused(ApiError):  # noqa: N818 - says what became of an object
    """An object is invalid, and will be whenever it is sent."""

    def __init__(self, error: ApiError) -> None:
        said = error.code, error.reason, error.message, error.fields
        super().__init__("the API server refuses it", *said)


@dataclass(frozen=True)
class View:
    """What is known of one job at one moment.

    Attributes:
        job: As it is stored.
        children: What it may own, and whoever holds a name that it needs.
        unreachable: Nodes of its pods from which nothing will be heard again.
        absent: Claims that it names, and that were looked for in vain.
    """

    job: Stored
    children: list[Manifest]
    unreachable: frozenset[str]
    absent: frozenset[str] = frozenset()


class KubernetesCluster:
    """The caches of a cluster, and the requests that keep them true.

    Args:
        client: Of its API server.
        recorder: Sends events.
        wish: Called with a job that something has happened to, and whether that may wait.
    """

    def __init__(
        self, client: Client, recorder: Recorder, wish: Callable[[JobKey, bool], None]
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._wish = wish
        self.jobs = Cache(kinds.JOB, _itself, trim.job, lambda key, can_wait: None)
        pods = Cache(kinds.POD, job_of_child, trim.pod, wish, haste.can_wait)
        self.children = {
            kind.name: pods if kind is kinds.POD else Cache(kind, job_of_child, trim.child, wish)
            for kind in kinds.CHILDREN
        }
        self.nodes = Cache(
            kinds.NODE, _itself, trim.node, lambda key, can_wait: self._node_changed(key[1])
        )
        self.knows_nodes = False
        self.gang_room = GangRoom(client, pods, self.nodes, wish)
        self._reachable: set[str] = set()
        self._foreign: dict[JobKey, dict[tuple[str, str], Manifest]] = {}

    # ------------------------------------------------------------------ what is seen

    def view(self, key: JobKey) -> View | None:
        """Return what the caches know of a job; None if there is no such job."""
        job = self.jobs.get(*key)
        if job is None:
            return None
        children = [
            stored.manifest() for cache in self.children.values() for stored in cache.of_job(key)
        ]
        children += self._foreign.get(key, {}).values()
        return View(job, children, self._lost_nodes(children))

    async def refresh_job(self, key: JobKey) -> None:
        """Read a job from the API server into the cache.

        Raises:
            ApiError: It cannot be read.
        """
        known = self.jobs.get(*key)
        try:
            self.jobs.put(await self._client.get(kinds.JOB.path(*key)), silently=True)
        except ApiError as error:
            if error.code != NOT_FOUND:
                raise
            if known is not None:
                self.jobs.drop(key, known.uid)

    async def refresh(self, key: JobKey) -> None:
        """Read a job, and after it everything around it, from the API server into the caches.

        Raises:
            ApiError: It cannot be read.
        """
        await self.refresh_job(key)
        await asyncio.gather(
            *(self._refresh_children(key, cache) for cache in self.children.values())
        )
        await self.recheck_foreign(key)

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

    async def claims(self, namespace: str, names: Iterable[str]) -> list[Manifest]:
        """Read claims, whosoever they are; those that are not there are left out.

        Raises:
            ApiError: One cannot be read.
        """
        found = await asyncio.gather(*(self._claim(namespace, name) for name in sorted(set(names))))
        return [claim for claim in found if claim is not None]

    async def _claim(self, namespace: str, name: str) -> Manifest | None:
        try:
            return await self._client.get(self.children[_CLAIM].kind.path(namespace, name))
        except ApiError as error:
            if error.code != NOT_FOUND:
                raise
            return None

    async def recheck_foreign(self, key: JobKey) -> None:
        """Look whether those who hold names that a job needs still do.

        Raises:
            ApiError: It cannot be read.
        """
        for kind, name in list(self._foreign.get(key, ())):
            await self._look_at_holder(key, kind, name)

    async def _look_at_holder(self, key: JobKey, kind: str, name: str) -> Manifest | None:
        """Read the object that holds a name, and remember it if no cache can."""
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
        """Drop what is known of a job that is gone."""
        self._foreign.pop(key, None)
        self.gang_room.forget(key)

    def _lost_nodes(self, children: Iterable[Manifest]) -> frozenset[str]:
        if not self.knows_nodes:
            return frozenset()
        places = {item["spec"].get("nodeName") for item in children if item["kind"] == "Pod"}
        return frozenset(name for name in places if name and name not in self._reachable)

    def _node_changed(self, name: str) -> None:
        node = self.nodes.get("", name)
        was_reachable = name in self._reachable
        if node is not None and nodes.is_reachable(node.manifest()):
            self._reachable.add(name)
        else:
            self._reachable.discard(name)
        if self.knows_nodes and was_reachable != (name in self._reachable):
            for job in self.children["Pod"].jobs_on(name):
                self._wish(job, False)

    async def free_capacity(self) -> Capacity | None:
        """Return what each node has left for pods; None if that may not be known.

        Raises:
            ApiError: It cannot be read.
        """
        if not self.knows_nodes:
            return None
        try:
            return await self.gang_room.free()
        except ApiError as error:
            if error.code != FORBIDDEN:
                raise
            return None

    # ------------------------------------------------------------------ what is done

    async def create(self, key: JobKey, uid: str, manifest: Manifest) -> None:
        """Make an object of a job; nothing happens if the job has it already.

        Raises:
            NameTaken: One of this kind and name is there that is not the job's, or that is ending.
            Refused: No API server would ever store it.
            ApiError: It is refused for now.
        """
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        cache = self.children[kind]
        try:
            made = await self._client.create(cache.kind.path(key[0]), manifest)
        except ApiError as error:
            if _is_final(error):
                raise Refused(error) from error
            if error.code != CONFLICT:
                raise
            found = await self._look_at_holder(key, kind, name)
            if found is None or not is_ours(found, uid):
                raise NameTaken(kind, name) from error
        else:
            cache.put(made, silently=True)

    async def delete(self, key: JobKey, reference: Reference) -> None:
        """Ask for an object's end, its dependents' after it.

        Raises:
            ApiError: It is refused.
        """
        kind = kinds.BY_NAME[reference.kind]
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Background",
            "preconditions": {"uid": reference.uid},
        }
        try:
            answer = await self._client.delete(kind.path(key[0], reference.name), options)
        except ApiError as error:
            if error.code not in (NOT_FOUND, CONFLICT):
                raise
            return
        if answer.get("kind") == kind.name and kind.name in self.children:
            self.children[kind.name].put(answer, silently=True)

    async def patch(self, key: JobKey, patch: Patch) -> None:
        """Merge a patch into an object.

        Raises:
            ApiError: It is refused.
        """
        cache = self.children[patch.kind]
        if patch.kind == kinds.POD.name:
            # Nothing of a pod is ever patched but its gate.
            self.gang_room.is_given()
        metadata = {**patch.merge.get("metadata", {}), "uid": patch.uid}
        path = cache.kind.path(key[0], patch.name)
        try:
            answer = await self._client.merge(path, {**patch.merge, "metadata": metadata})
        except ApiError as error:
            # A UID cannot be changed: that is how a successor refuses what was meant for another.
            is_successor = error.code == UNPROCESSABLE and "metadata.uid" in error.message
            if error.code not in (NOT_FOUND, CONFLICT) and not is_successor:
                raise
            return
        cache.put(answer, silently=True)

    async def write_status(self, key: JobKey, read: Stored, status: Manifest) -> None:
        """Store a job's status, unless the job has changed since it was read.

        Raises:
            ApiError: It has changed (code 409), is gone, or the status is refused.
        """
        namespace, name = key
        manifest = {
            **read.manifest(),
            "status": status,
        }
        path = f"{kinds.JOB.path(namespace, name)}/status"
        self.jobs.put(await self._client.replace(path, manifest), silently=True)

    def acting_for(self, key: JobKey, read: Stored) -> "Actions":
        """Return the actions of one pass over a job, as it was read."""
        return Actions(self, key, read, self._recorder)


class Actions:
    """What a decision about one job asks for: `interface.AsyncActions`.

    Attributes:
        refused: What the API server said to changes that nothing else waits for.
    """

    def __init__(
        self, cluster: KubernetesCluster, key: JobKey, read: Stored, recorder: Recorder
    ) -> None:
        self._cluster = cluster
        self._key = key
        self._read = read
        self._recorder = recorder
        self.refused: list[ApiError] = []

    async def create(self, manifest: Manifest) -> None:
        """Make an object; nothing happens if the job has it already."""
        await self._cluster.create(self._key, self._read.uid, manifest)

    async def delete(self, reference: Reference) -> None:
        """Ask for an object's end, its dependents' after it."""
        await self._cluster.delete(self._key, reference)

    async def patch(self, patch: Patch) -> None:
        """Merge a patch into an object.

        Whom a claim belongs to says only whether it goes with the job; an API server that wants
        this as it is must not keep the status from being written. It is taken note of instead.
        """
        try:
            await self._cluster.patch(self._key, patch)
        except ApiError as error:
            if patch.kind != _CLAIM:
                raise
            self.refused.append(error)

    async def write_status(self, job: ImageNetJob) -> None:
        """Store the status that the job carries, unless the job has changed since it was read."""
        await self._cluster.write_status(self._key, self._read, job.status.to_manifest())

    async def record_event(self, job: ImageNetJob, event: Event) -> None:
        """Have an event sent beside the passes."""
        self._recorder.record(job, event)


def is_ours(item: Manifest, uid: str) -> bool:
    """Whether an object is the job's with this UID, and will stay."""
    metadata = item["metadata"]
    owners = metadata.get("ownerReferences") or ()
    owned = any(owner["uid"] == uid and owner.get("controller") for owner in owners)
    # A claim that outlived a former job of this name has no owner, and is taken over.
    kept = item["kind"] == "PersistentVolumeClaim" and not owners and _is_managed(item)
    return (owned or kept) and "deletionTimestamp" not in metadata


def job_of_child(item: Manifest) -> JobKey | None:
    """Return the job that an object names in its labels."""
    metadata = item["metadata"]
    name = (metadata.get("labels") or {}).get(labels.JOB_NAME)
    return None if name is None else (metadata["namespace"], name)


def _is_final(error: ApiError) -> bool:
    """Whether the API server refuses an object for what it is.

    What it cannot read is a bad request. So says a webhook of what it may take tomorrow, but by the
    code alone. Of what is invalid it says so first, and in which field; a policy that denies an
    object today has the same code and reason, but no field, and a webhook's own name goes first.
    """
    if error.code == BAD_REQUEST:
        return error.reason == "BadRequest"
    is_its_own = _IS_INVALID.match(error.message) is not None
    return error.code == UNPROCESSABLE and is_its_own and bool(error.fields)


def _itself(item: Manifest) -> JobKey:
    metadata = item["metadata"]
    return (metadata.get("namespace", ""), metadata["name"])


def _is_managed(item: Manifest) -> bool:
    return (item["metadata"].get("labels") or {}).get(labels.MANAGED_BY) == "imagenet-operator"
