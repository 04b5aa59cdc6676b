"""A cache of one kind: the newest known state of each object.

`reflector` fills it from lists and watches, `cluster` from the answers to its own requests, in any
order. The resource version says which of two states is newer: the API server orders the versions of
one kind, and since Kubernetes 1.35 they compare as numbers. A deleted object leaves a tombstone, so
an older state that arrives late does not bring it back.

Objects are kept as JSON text without the parts that are never read. That takes a tenth of the
memory of dictionaries, and each reader gets a copy.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import orjson

from imagenet_operator.api.base import Manifest
from imagenet_operator.clusters.interface import JobKey
from imagenet_operator.clusters.kubernetes.kinds import Kind

LOGGER = logging.getLogger(__name__)

_NEWEST = 2**64
"""A resource version beyond all others."""

_MAX_TOMBSTONES = 20_000
"""How many deleted objects are remembered."""


@dataclass(frozen=True, slots=True)
class Stored:
    """One object.

    Attributes:
        uid: Distinguishes it from a successor of the same name.
        version: Its resource version.
        job: The job that it belongs to by its label; None for one that has no such label.
        node: The node that it is bound to; None if it is not.
        text: Itself, as JSON, without its resource version.
        debounce: Whether its change may be debounced.
    """

    uid: str
    version: int
    job: JobKey | None
    node: str | None
    text: bytes
    debounce: bool

    def manifest(self) -> Manifest:
        """Return a copy of the object."""
        found: Manifest = orjson.loads(self.text)
        found["metadata"]["resourceVersion"] = str(self.version)
        return found


Entry = tuple[JobKey, Stored]
"""Namespace and name of an object, and its kept parts."""


class Cache:
    """The known objects of one kind.

    Args:
        kind: The kind.
        job_of: Returns the job that an object belongs to.
        project: Returns the parts of an object to keep.
        announce: Called with the job of each object whose kept parts changed, and whether that
            change may be debounced.
        debounce: Whether the change of an object, as the API server sent it, may be debounced.
        limit: Bytes of the kept parts of an object. A larger one belongs to no job: none that the
            operator creates is so large, and users may create many.

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
        """How many objects are known."""
        return len(self._objects)

    def get(self, namespace: str, name: str) -> Stored | None:
        """Return one object, if it is known."""
        return self._objects.get((namespace, name))

    def of_job(self, job: JobKey) -> list[Stored]:
        """Return the objects of a job."""
        return [self._objects[key] for key in self.keys_of_job(job)]

    def all(self) -> list[Stored]:
        """Return every object."""
        return list(self._objects.values())

    def keys(self, namespace: str | None = None) -> list[JobKey]:
        """Return namespace and name of every object, or of those in one namespace."""
        return [key for key in self._objects if namespace is None or key[0] == namespace]

    def jobs(self) -> list[JobKey]:
        """Return the jobs that have an object here."""
        return list(self._by_job)

    def jobs_on(self, node: str) -> set[JobKey]:
        """Return the jobs that have an object on a node."""
        return {
            stored.job
            for stored in self._objects.values()
            if stored.node == node and stored.job is not None
        }

    def keys_of_job(self, job: JobKey) -> list[JobKey]:
        """Return namespace and name of a job's objects."""
        return sorted(self._by_job.get(job, ()))

    def put(self, manifest: Manifest, *, silently: bool = False) -> bool:
        """Store an object, unless a newer state is known.

        Args:
            manifest: The object as the API server sent it.
            silently: Whether it is not announced, because it answers our own request.

        Returns:
            Whether its kept parts changed.
        """
        metadata = manifest["metadata"]
        if not self._is_newer(_key(metadata), str(metadata["uid"]), _version(metadata)):
            return False
        return self._take(*self.entry(manifest), silently)

    def entry(self, manifest: Manifest) -> Entry:
        """Return what `put` would store of an object."""
        metadata = manifest["metadata"]
        text, job = self._text(manifest), self._job_of(manifest)
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
        self._store(key, known, stored)
        if known is None or known.text != stored.text:
            if not silently:
                self._announce_change(known, stored)
            return True
        return False

    def delete(self, manifest: Manifest, *, silently: bool = False) -> None:
        """Remove a deleted object, and leave a tombstone.

        Args:
            manifest: The object with the resource version of its deletion.
            silently: Whether that is not announced.
        """
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

        Args:
            entries: The objects.
            version: The list's resource version: an older object that is not in it is gone.
            candidates: Namespaces and names of known objects that would have been in the list.
            silently: Whether changes are not announced.
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

    def _text(self, manifest: Manifest) -> bytes:
        kept = self._project(manifest)
        metadata = {
            name: value for name, value in kept["metadata"].items() if name not in _NOT_KEPT
        }
        typed = {"apiVersion": self.kind.api_version, "kind": self.kind.name}
        # orjson leaves what it returns in a buffer of several times its size; a copy fits.
        return bytes(memoryview(orjson.dumps({**typed, **kept, "metadata": metadata})))

    def _store(self, key: JobKey, known: Stored | None, stored: Stored) -> None:
        if known is not None and known.job is not None and known.job != stored.job:
            self._remove_from_job(known.job, key)
        if known is not None and known.uid != stored.uid:
            self._add_tombstone(known.uid, stored.version)
        self._objects[key] = stored
        self.revision += known is None or known.text != stored.text
        if stored.job is not None:
            self._by_job.setdefault(stored.job, set()).add(key)

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

    def _announce_change(self, known: Stored | None, stored: Stored) -> None:
        if known is not None and known.job is not None and known.job != stored.job:
            self._announce(known.job, False)
        if stored.job is not None:
            self._announce(stored.job, stored.debounce)


def _key(metadata: Manifest) -> JobKey:
    return str(metadata.get("namespace", "")), str(metadata["name"])


def _version(metadata: Manifest) -> int:
    return int(metadata["resourceVersion"])


_NOT_KEPT = frozenset({"managedFields", "resourceVersion", "selfLink"})
