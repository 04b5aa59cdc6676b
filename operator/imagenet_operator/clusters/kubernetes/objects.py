"""The objects that the operator uses: their kinds, what is kept of them, and a cache of each kind.

The chart's roles grant only `VERBS`. A test compares them, and the tests' API server rejects all
other requests.

A cache has the newest known state of each object. `reflector` fills it from lists and watches,
`cluster` from the answers to its own requests, in any order. The resource version says which of two
states is newer: the API server orders the versions of one kind, and since Kubernetes 1.35 they
compare as numbers. A deleted object leaves a tombstone, so an older state that arrives late does
not bring it back.

Objects are kept as JSON text, which takes a tenth of the memory of dictionaries, and each reader
gets a copy. A pod's JSON is 8 KB, most of it managed fields, environment and probes. With ten
thousand pods only a tenth of that fits into memory. So only the parts are kept that `observe`,
sampler and capacity read. A change outside them starts no reconcile.
"""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

import orjson

from imagenet_operator.clusters.interface import JobKey
from imagenet_operator.clusters.kubernetes.client import NOT_FOUND, ApiError, Client
from imagenet_spec.resource.base import Manifest
from imagenet_spec.resource.job import GROUP, KIND, PLURAL, VERSION

LOGGER = logging.getLogger(__name__)

_POD_SPEC = ("nodeName", "schedulingGates", "overhead", "resources")
_POD_STATUS = ("phase", "reason", "message", "podIP", "conditions")
_CHILD_SPEC = ("suspend", "completions", "accessModes", "storageClassName")
_CHILD_STATUS = ("active", "succeeded", "failed", "conditions", "phase")
_CONTAINER = ("name", "resources", "ports", "restartPolicy")
_CONTAINER_STATUS = ("name", "state")
_STATUSES = ("containerStatuses", "initContainerStatuses")
_ANNOTATIONS = "annotations"
_IDENTITY = (
    *("name", "namespace", "uid", "resourceVersion"),
    *("generation", "creationTimestamp", "deletionTimestamp"),
)

JOB_BYTES: Final = 262_144
"""The limit of a job without its status, which is that of `kubectl apply`."""

OMITTED_BYTES: Final = "omittedBytes"
"""The field of a job that is too large: its size. No job of the API server has such a field."""

_NOT_KEPT = frozenset({"managedFields", "resourceVersion", "selfLink"})
_NEWEST = 2**64
"""A resource version beyond all others."""

_MAX_TOMBSTONES = 20_000
"""How many deleted objects are remembered."""


@dataclass(frozen=True)
class Kind:
    """A kind of the API: the names in manifests and in paths."""

    name: str
    group: str
    version: str
    plural: str
    is_namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None = None, name: str | None = None) -> str:
        """Return the URL's path of a collection, or of one object in it."""
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if namespace is not None and self.is_namespaced:
            parts += ["namespaces", namespace]
        parts += [self.plural] if name is None else [self.plural, name]
        return "/" + "/".join(parts)


JOB = Kind(KIND, GROUP, VERSION, PLURAL)
NODE = Kind("Node", "", "v1", "nodes", is_namespaced=False)
POD = Kind("Pod", "", "v1", "pods")
EVENT = Kind("Event", "", "v1", "events")
WORKLOAD = Kind("Workload", "kueue.x-k8s.io", "v1beta2", "workloads")
LEASE = Kind("Lease", "coordination.k8s.io", "v1", "leases")

CHILDREN = (
    POD,
    Kind("Job", "batch", "v1", "jobs"),
    Kind("Service", "", "v1", "services"),
    Kind("PersistentVolumeClaim", "", "v1", "persistentvolumeclaims"),
    Kind("NetworkPolicy", "networking.k8s.io", "v1", "networkpolicies"),
    Kind("PodDisruptionBudget", "policy", "v1", "poddisruptionbudgets"),
)
"""The kinds of a job's children."""

SECRET = Kind("Secret", "", "v1", "secrets")
QUOTA = Kind("ResourceQuota", "", "v1", "resourcequotas")
"""Kinds that only a user's client reads, before it submits a job."""

BY_NAME = {kind.name: kind for kind in (JOB, NODE, EVENT, WORKLOAD, LEASE, *CHILDREN)}
"""Every kind by its name."""

_ALL = frozenset({"get", "list", "watch", "create", "delete"})

VERBS = {
    (JOB.group, JOB.plural): frozenset({"get", "list", "watch", "delete"}),
    (JOB.group, f"{JOB.plural}/status"): frozenset({"update"}),
    ("", "pods"): _ALL | {"patch"},
    ("", "pods/log"): frozenset({"get"}),
    ("batch", "jobs"): _ALL | {"patch"},
    ("", "services"): _ALL,
    ("", "persistentvolumeclaims"): _ALL - {"delete"} | {"patch"},
    ("networking.k8s.io", "networkpolicies"): _ALL,
    ("policy", "poddisruptionbudgets"): _ALL,
    ("", "events"): frozenset({"create", "list", "patch"}),
    (WORKLOAD.group, WORKLOAD.plural): frozenset({"get", "list"}),
    ("", "nodes"): frozenset({"list", "watch"}),
    (LEASE.group, LEASE.plural): frozenset({"list", "create", "update"}),
}
"""The requests that the operator sends: (group, resource) → RBAC verbs."""


def project_pod(manifest: Manifest) -> Manifest:
    """Return the parts of a pod that a reconcile reads."""
    spec, status = manifest["spec"], manifest.get("status", {})
    # What an init container waits for is read only before the others start.
    statuses = _STATUSES if status.get("phase") == "Pending" else _STATUSES[:1]
    return {
        "metadata": _metadata(manifest),
        "spec": {
            **_some(spec, _POD_SPEC),
            # Only pods without a node need these fields, and such pods are few at any time.
            **({} if spec.get("nodeName") else _unbound(spec)),
            **{
                field: [_some(item, _CONTAINER) for item in spec[field]]
                for field in ("containers", "initContainers")
                if field in spec
            },
        },
        "status": {
            **_some(status, _POD_STATUS),
            **{
                field: [_some(item, _CONTAINER_STATUS) for item in status[field]]
                for field in statuses
                if status.get(field)
            },
        },
    }


def _unbound(spec: Manifest) -> Manifest:
    """Return what decides about a pod's node: its tolerations, and the volumes with claims."""
    volumes = [
        {"name": item["name"], **_some(item, ("persistentVolumeClaim",))}
        | ({"ephemeral": {}} if "ephemeral" in item else {})
        for item in spec.get("volumes") or ()
        if "persistentVolumeClaim" in item or "ephemeral" in item
    ]
    return {**_some(spec, ("tolerations",)), **({"volumes": volumes} if volumes else {})}


def may_debounce(manifest: Manifest) -> bool:
    """Return whether an event of a pod may be debounced.

    A starting pod changes several times, and the pods of a gang start together. A reconcile for
    every change would write a status each time, which is expensive: the API server validates the
    whole job. A pod that ends, is deleted or is gated is reconciled at once, and so is one with a
    container that has failed: the kubelet reports the end of its pod a second later.
    """
    status = manifest.get("status", {})
    return (
        status.get("phase") in ("Pending", "Running")
        and not any(
            (item.get("state", {}).get("terminated") or {}).get("exitCode")
            for item in status.get("containerStatuses") or ()
        )
        and "deletionTimestamp" not in manifest["metadata"]
        and not manifest["spec"].get("schedulingGates")
    )


def project_child(manifest: Manifest) -> Manifest:
    """Return the parts of any other child that a reconcile reads: its identity and its state."""
    return {
        "metadata": _metadata(manifest),
        "spec": _some(manifest.get("spec") or {}, _CHILD_SPEC),
        "status": _some(manifest.get("status") or {}, _CHILD_STATUS),
    }


def project_job(manifest: Manifest) -> Manifest:
    """Return an ImageNetJob without annotations and managed fields.

    A user may create many that are too large, so of their spec only `runPolicy` is kept.
    """
    kept = {**manifest, "metadata": _metadata(manifest)}
    size = len(orjson.dumps([kept["metadata"], manifest.get("spec")]))
    if size <= JOB_BYTES:
        return kept
    return {
        **kept,
        "metadata": _some(manifest["metadata"], _IDENTITY),
        "spec": _some(manifest["spec"], ("runPolicy",)),
        OMITTED_BYTES: size,
    }


def project_node(manifest: Manifest) -> Manifest:
    """Return a node's readiness, taints and allocatable resources."""
    spec, status = manifest.get("spec", {}), manifest.get("status", {})
    ready = [
        _some(item, ("type", "status"))
        for item in status.get("conditions") or ()
        if item["type"] == "Ready"
    ]
    return {
        "metadata": {
            name: manifest["metadata"][name] for name in ("name", "uid", "resourceVersion")
        },
        "spec": _some(spec, ("unschedulable", "taints")),
        "status": {"conditions": ready, **_some(status, ("allocatable",))},
    }


def _metadata(manifest: Manifest) -> Manifest:
    kept = {name: value for name, value in manifest["metadata"].items() if name != _ANNOTATIONS}
    kept.pop("managedFields", None)
    return kept


def _some(fields: Manifest, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: fields[name] for name in names if name in fields}


@dataclass(frozen=True, slots=True)
class Stored:
    """The kept parts of one object, as JSON without its resource version.

    Its job is the one that its label names.
    """

    uid: str
    version: int
    job: JobKey | None
    node: str | None
    text: bytes
    debounce: bool

    def manifest(self) -> Manifest:
        found: Manifest = orjson.loads(self.text)
        found["metadata"]["resourceVersion"] = str(self.version)
        return found


Entry = tuple[JobKey, Stored]
"""Namespace and name of an object, and its kept parts."""


class Cache:
    """The known objects of one kind.

    `project` returns the parts of an object to keep. `announce` gets the job of each object whose
    kept parts changed, and whether that may be debounced, which `debounce` judges by the object as
    it was sent. One whose kept parts exceed `limit` bytes belongs to no job: none that the operator
    creates is so large, and users may create many.

    Attributes:
        revision: Grows with every change of what is kept.
    """

    def __init__(
        self,
        kind: Kind,
        job_of: Callable[[Manifest], JobKey | None],
        project: Callable[[Manifest], Manifest],
        announce: Callable[[JobKey, bool], None],
        debounce: Callable[[Manifest], bool] = lambda manifest: False,
        limit: int | None = None,
    ) -> None:
        self.kind = kind
        self._limit = limit
        self._job_of = job_of
        self._project = project
        self._announce = announce
        self._may_debounce = debounce
        self._objects: dict[JobKey, Stored] = {}
        self._by_job: dict[JobKey, set[JobKey]] = {}
        self._tombstones: OrderedDict[str, int] = OrderedDict()
        self.revision = 0

    def __len__(self) -> int:
        return len(self._objects)

    def get(self, namespace: str, name: str) -> Stored | None:
        return self._objects.get((namespace, name))

    def of_job(self, job: JobKey) -> list[Stored]:
        return [self._objects[key] for key in self.keys_of_job(job)]

    def all(self) -> list[Stored]:
        return list(self._objects.values())

    def keys(self, namespace: str | None = None) -> list[JobKey]:
        return [key for key in self._objects if namespace is None or key[0] == namespace]

    def jobs(self) -> list[JobKey]:
        return list(self._by_job)

    def jobs_on(self, node: str) -> set[JobKey]:
        return {
            stored.job
            for stored in self._objects.values()
            if stored.node == node and stored.job is not None
        }

    def keys_of_job(self, job: JobKey) -> list[JobKey]:
        return sorted(self._by_job.get(job, ()))

    def put(self, manifest: Manifest, *, silently: bool = False) -> bool:
        """Store an object, unless a newer state is known; return whether its kept parts changed.

        `silently` is for the answer to our own request, which is not announced.
        """
        metadata = manifest["metadata"]
        if not self._is_newer(_key(metadata), str(metadata["uid"]), _version(metadata)):
            return False
        return self._take(*self.entry(manifest), silently)

    def entry(self, manifest: Manifest) -> Entry:
        """Return what `put` would store of an object."""
        metadata = manifest["metadata"]
        kept = self._project(manifest)
        described = {
            name: value for name, value in kept["metadata"].items() if name not in _NOT_KEPT
        }
        typed = {"apiVersion": self.kind.api_version, "kind": self.kind.name}
        # orjson leaves what it returns in a buffer of several times its size; a copy fits.
        text = bytes(memoryview(orjson.dumps({**typed, **kept, "metadata": described})))
        job = self._job_of(manifest)
        if self._limit is not None and len(text) > self._limit:
            name = "/".join(_key(metadata))
            LOGGER.warning("%s %s is left out: it has %d bytes", self.kind.name, name, len(text))
            identity = {field: metadata[field] for field in ("name", "namespace", "uid")}
            text = orjson.dumps({"metadata": identity, "spec": {}, "status": {}})
            job = None
        stored = Stored(
            uid=str(metadata["uid"]),
            version=_version(metadata),
            job=job,
            node=manifest.get("spec", {}).get("nodeName"),
            text=text,
            debounce=self._may_debounce(manifest),
        )
        return _key(metadata), stored

    def _is_newer(self, key: JobKey, uid: str, version: int) -> bool:
        known = self._objects.get(key)
        return version > self._tombstones.get(uid, -1) and (
            known is None or known.version < version
        )

    def _take(self, key: JobKey, stored: Stored, silently: bool) -> bool:
        known = self._objects.get(key)
        left = None if known is None or known.job == stored.job else known.job
        if left is not None:
            self._remove_from_job(left, key)
        if known is not None and known.uid != stored.uid:
            self._add_tombstone(known.uid, stored.version)
        self._objects[key] = stored
        if stored.job is not None:
            self._by_job.setdefault(stored.job, set()).add(key)
        if known is not None and known.text == stored.text:
            return False
        self.revision += 1
        if not silently:
            if left is not None:
                self._announce(left, False)
            if stored.job is not None:
                self._announce(stored.job, stored.debounce)
        return True

    def delete(self, manifest: Manifest, *, silently: bool = False) -> None:
        """Remove a deleted object, and leave a tombstone."""
        metadata = manifest["metadata"]
        self._remove(_key(metadata), str(metadata["uid"]), _version(metadata), silently)

    def drop(self, key: JobKey, uid: str) -> None:
        """Remove an object that the API server does not find."""
        self._remove(key, uid, _NEWEST, silently=True)

    def replace(
        self,
        entries: Iterable[Entry],
        version: int,
        candidates: Iterable[JobKey],
        *,
        silently: bool = False,
    ) -> None:
        """Store a whole list.

        `candidates` are known objects that would have been in the list. One of them that is not in
        it, and is older than the list's version, is gone.
        """
        missing = set(candidates)
        for key, stored in entries:
            missing.discard(key)
            if self._is_newer(key, stored.uid, stored.version):
                self._take(key, stored, silently)
        for key in missing:
            known = self._objects.get(key)
            if known is not None and known.version <= version:
                self._remove(key, known.uid, version, silently)

    def _remove(self, key: JobKey, uid: str, version: int, silently: bool) -> None:
        self._add_tombstone(uid, version)
        known = self._objects.get(key)
        if known is None or known.uid != uid or known.version > version:
            return
        del self._objects[key]
        self.revision += 1
        if known.job is not None:
            self._remove_from_job(known.job, key)
            if not silently:
                self._announce(known.job, False)

    def _remove_from_job(self, job: JobKey, key: JobKey) -> None:
        mine = self._by_job[job]
        mine.discard(key)
        if not mine:
            del self._by_job[job]

    def _add_tombstone(self, uid: str, version: int) -> None:
        self._tombstones[uid] = max(version, self._tombstones.pop(uid, -1))
        if len(self._tombstones) > _MAX_TOMBSTONES:
            self._tombstones.popitem(last=False)


def _key(metadata: Manifest) -> JobKey:
    return str(metadata.get("namespace", "")), str(metadata["name"])


def _version(metadata: Manifest) -> int:
    return int(metadata["resourceVersion"])


MAX_CLAIM_AGE_SECONDS: Final = 10.0
"""How long a claim that was read is used again."""


class NamedClaims:
    """Reads of the claims that jobs name, of any owner.

    The caches hold the operator's own claims alone; any other claim takes a request. Jobs that
    start together often name one claim, so a claim that was read is used again for a short time.

    That is as safe as a read for each job. The access modes of a claim never change. A claim may be
    deleted after any read, and then the pods wait for it, whatever the age of the read. An absence
    is never remembered, nor is a claim that is being deleted.
    """

    def __init__(
        self, client: Client, cache: Cache, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._client = client
        self._cache = cache
        self._clock = clock
        self._read: dict[JobKey, tuple[float, Manifest]] = {}

    async def read(self, namespace: str, names: Iterable[str]) -> list[Manifest]:
        """Return the claims with these names; those that do not exist are left out."""
        oldest = self._clock() - MAX_CLAIM_AGE_SECONDS
        self._read = {key: read for key, read in self._read.items() if read[0] > oldest}
        found = await asyncio.gather(*(self._one((namespace, name)) for name in sorted(set(names))))
        return [claim for claim in found if claim is not None]

    async def _one(self, key: JobKey) -> Manifest | None:
        if key in self._read:
            return self._read[key][1]
        created = self._cache.get(*key)
        if created is not None and not _is_terminating(claim := created.manifest()):
            return claim
        began = self._clock()
        try:
            claim = await self._client.get(self._cache.kind.path(*key))
        except ApiError as error:
            if error.code != NOT_FOUND:
                raise
            return None
        if not _is_terminating(claim):
            self._read[key] = began, claim
        return claim


def _is_terminating(claim: Manifest) -> bool:
    return "deletionTimestamp" in claim["metadata"]
