"""A cache of one kind: what the API server last said of each object, from whichever answer.

Lists, watches and the answers to our own requests all end up here, in any order; the resource
version decides which of two is newer. The API server orders the versions of one kind, and since
Kubernetes 1.35 promises that they can be compared as numbers. An object that was seen to end stays
ended: of what is heard of it later, only something newer than its end counts.

Objects are kept as JSON text without the parts that nobody reads. That takes a tenth of the memory
of dictionaries, and whoever asks gets a copy of his own.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import orjson

from imagenet_operator.api.base import Manifest
from imagenet_operator.clusters.kubernetes.kinds import Kind

JobKey = tuple[str, str]
"""Namespace and name of an ImageNetJob: what the work queue holds."""

_NEVER_AGAIN = 2**64
"""A resource version beyond all others."""

_GRAVES = 20_000
"""How many ended objects are remembered, so that a late answer does not bring them back."""


@dataclass(frozen=True, slots=True)
class Stored:
    """One object.

    Attributes:
        uid: Tells it from a successor of the same name.
        version: Its resource version.
        job: The job that it belongs to by its label; None for one that has no such label.
        node: The node that it is on; None for whatever is on none.
        text: Itself, as JSON, without its resource version.
        can_wait: Whether that it is as it is may be told later.
    """

    uid: str
    version: int
    job: JobKey | None
    node: str | None
    text: bytes
    can_wait: bool

    def manifest(self) -> Manifest:
        """Return the object, as a copy of one's own."""
        found: Manifest = orjson.loads(self.text)
        found["metadata"]["resourceVersion"] = str(self.version)
        return found


Entry = tuple[JobKey, Stored]
"""Namespace and name of an object, and what is kept of it."""


class Cache:
    """What is known of the objects of one kind.

    Args:
        kind: Which.
        job_of: Says to which job an object belongs.
        trim: Returns what is worth keeping of an object.
        announce: Called with the job of each object that changed in what is kept, and whether that
            may wait.
        can_wait: Says of an object, as the API server sent it, whether what is new of it may wait.
    """

    def __init__(
        self,
        kind: Kind,
        job_of: Callable[[Manifest], JobKey | None],
        trim: Callable[[Manifest], Manifest],
        announce: Callable[[JobKey, bool], None],
        can_wait: Callable[[Manifest], bool] = lambda manifest: False,
    ) -> None:
        self.kind = kind
        self._job_of = job_of
        self._trim = trim
        self._announce = announce
        self._can_wait = can_wait
        self._objects: dict[JobKey, Stored] = {}
        self._by_job: dict[JobKey, set[JobKey]] = {}
        self._graves: OrderedDict[str, int] = OrderedDict()

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
        """Take note of an object, unless something newer is known.

        Args:
            manifest: The object as the API server sent it.
            silently: Whether nobody is told, because it is the answer to our own request.

        Returns:
            Whether this was news.
        """
        metadata = manifest["metadata"]
        if not self._is_news(_key(metadata), str(metadata["uid"]), _version(metadata)):
            return False
        return self._take(*self.entry(manifest), silently)

    def entry(self, manifest: Manifest) -> Entry:
        """Return what `put` would keep of an object, for whoever collects many of them first."""
        metadata = manifest["metadata"]
        stored = Stored(
            uid=str(metadata["uid"]),
            version=_version(metadata),
            job=self._job_of(manifest),
            node=manifest.get("spec", {}).get("nodeName"),
            text=self._text(manifest),
            can_wait=self._can_wait(manifest),
        )
        return _key(metadata), stored

    def _is_news(self, key: JobKey, uid: str, version: int) -> bool:
        known = self._objects.get(key)
        return version > self._graves.get(uid, -1) and (known is None or known.version < version)

    def _take(self, key: JobKey, stored: Stored, silently: bool) -> bool:
        known = self._objects.get(key)
        self._store(key, known, stored)
        if known is None or known.text != stored.text:
            if not silently:
                self._tell(known, stored)
            return True
        return False

    def bury(self, manifest: Manifest, *, silently: bool = False) -> None:
        """Take note of the end of an object.

        Args:
            manifest: The object with the resource version of its end.
            silently: Whether nobody is told.
        """
        metadata = manifest["metadata"]
        self._end(_key(metadata), str(metadata["uid"]), _version(metadata), silently)

    def drop(self, key: JobKey, uid: str) -> None:
        """Take note that an object is gone, as the API server answered when asked for it."""
        self._end(key, uid, _NEVER_AGAIN, silently=True)

    def replace(
        self,
        entries: Iterable[Entry],
        version: int,
        candidates: Iterable[JobKey],
        *,
        silently: bool = False,
    ) -> None:
        """Take note of a whole list.

        Args:
            entries: The objects.
            version: The list's resource version: what is older and not in it is gone.
            candidates: Namespaces and names of known objects that would have been in the list.
            silently: Whether nobody is told.
        """
        missing = set(candidates)
        for key, stored in entries:
            missing.discard(key)
            if self._is_news(key, stored.uid, stored.version):
                self._take(key, stored, silently)
        for key in missing:
            known = self._objects.get(key)
            if known is not None and known.version <= version:
                self._end(key, known.uid, version, silently)

    def _text(self, manifest: Manifest) -> bytes:
        kept = self._trim(manifest)
        metadata = {name: value for name, value in kept["metadata"].items() if name not in _NOISE}
        typed = {"apiVersion": self.kind.api_version, "kind": self.kind.name}
        # orjson leaves what it returns in a buffer of several times its size; a copy fits.
        return bytes(memoryview(orjson.dumps({**typed, **kept, "metadata": metadata})))

    def _store(self, key: JobKey, known: Stored | None, stored: Stored) -> None:
        if known is not None and known.job is not None and known.job != stored.job:
            self._leave(known.job, key)
        if known is not None and known.uid != stored.uid:
            self._remember(known.uid, stored.version)
        self._objects[key] = stored
        if stored.job is not None:
            self._by_job.setdefault(stored.job, set()).add(key)

    def _end(self, key: JobKey, uid: str, version: int, silently: bool) -> None:
        self._remember(uid, version)
        known = self._objects.get(key)
        if known is None or known.uid != uid or known.version > version:
            return
        del self._objects[key]
        if known.job is not None:
            self._leave(known.job, key)
            if not silently:
                self._announce(known.job, False)

    def _leave(self, job: JobKey, key: JobKey) -> None:
        mine = self._by_job[job]
        mine.discard(key)
        if not mine:
            del self._by_job[job]

    def _remember(self, uid: str, version: int) -> None:
        self._graves[uid] = max(version, self._graves.pop(uid, -1))
        if len(self._graves) > _GRAVES:
            self._graves.popitem(last=False)

    def _tell(self, known: Stored | None, stored: Stored) -> None:
        if known is not None and known.job is not None and known.job != stored.job:
            self._announce(known.job, False)
        if stored.job is not None:
            self._announce(stored.job, stored.can_wait)


def _key(metadata: Manifest) -> JobKey:
    return str(metadata.get("namespace", "")), str(metadata["name"])


def _version(metadata: Manifest) -> int:
    return int(metadata["resourceVersion"])


_NOISE = frozenset({"managedFields", "resourceVersion", "selfLink"})
