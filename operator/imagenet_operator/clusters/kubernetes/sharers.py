"""The jobs that need the same dataset on the same claim, from the caches.

`reconciler` looks for them only while a job may begin to pack. Which of them goes first is decided
in `reconcile.policies.shared_dataset`.

A thousand jobs may wait for one dataset, and all of them ask the same. So each job is read once for
each of its versions, and the answer for a dataset stays until a cache changes.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import orjson

from imagenet_operator.api import ImageNetJob
from imagenet_operator.clusters.kubernetes import stored_job
from imagenet_operator.clusters.kubernetes.objects import Cache, Stored
from imagenet_operator.manifests import dataset, names
from imagenet_operator.reconcile.policies import shared_dataset
from imagenet_operator.reconcile.policies.shared_dataset import Need
from imagenet_operator.reconcile.types import Sharer

_PACKS = (dataset.PACK, dataset.SEAL)


@dataclass
class _Known:
    """What was read of the jobs.

    Attributes:
        revisions: Those of the caches when it was read.
        by_key: Namespace and key of a dataset → the jobs that know that they need it.
        found: Namespace and need → the sharers that matter.
    """

    revisions: tuple[int, int]
    by_key: dict[tuple[str, str], list[Stored]]
    found: dict[tuple[str, Need], tuple[Sharer, ...]] = field(default_factory=dict)


class Sharers:
    """The jobs that share datasets.

    Args:
        jobs: The ImageNetJobs.
        children: The Jobs of Kubernetes.
    """

    def __init__(self, jobs: Cache, children: Cache) -> None:
        self._jobs = jobs
        self._children = children
        self._known = _Known((-1, -1), {})
        self._keys: dict[str, tuple[int, str | None]] = {}
        self._read: dict[str, tuple[int, Need | None, Sharer]] = {}

    def find(self, job: ImageNetJob) -> tuple[Sharer, ...]:
        """Return the jobs that share the dataset of a job, as far as they decide about its turn.

        Args:
            job: The job; there are none before it knows its dataset, and once that is ready.
        """
        need = shared_dataset.need(job)
        if need is None or not shared_dataset.needs_turn(job.status):
            return ()
        known = self._current()
        namespace = job.metadata.namespace
        group = known.found.get((namespace, need))
        if group is None:
            candidates = known.by_key.get((namespace, need.key), ())
            read = [self._sharer(item) for item in candidates]
            group = shared_dataset.decisive(found for other, found in read if other == need)
            known.found[namespace, need] = group
        return tuple(item for item in group if item.uid != job.metadata.uid)

    def _current(self) -> _Known:
        """Return what is known, without what was read before a cache changed."""
        revisions = self._jobs.revision, self._children.revision
        if self._known.revisions != revisions:
            stored = self._jobs.all()
            uids = {item.uid for item in stored}
            self._keys = {uid: key for uid, key in self._keys.items() if uid in uids}
            self._read = {uid: read for uid, read in self._read.items() if uid in uids}
            by_key: dict[tuple[str, str], list[Stored]] = defaultdict(list)
            for item in stored:
                if item.job is not None and (key := self._key(item)) is not None:
                    by_key[item.job[0], key].append(item)
            self._known = _Known(revisions, by_key)
        return self._known

    def _key(self, item: Stored) -> str | None:
        """Return the key of a job's dataset, once it knows it; reading it all takes much longer."""
        version, key = self._keys.get(item.uid, (-1, None))
        if version != item.version:
            status = orjson.loads(item.text).get("status")
            found = status.get("dataset") if isinstance(status, dict) else None
            key = found.get("key") if isinstance(found, dict) else None
            self._keys[item.uid] = item.version, key
        return key

    def _sharer(self, item: Stored) -> tuple[Need | None, Sharer]:
        version, need, sharer = self._read.get(item.uid, (-1, None, None))
        if sharer is None or version != item.version:
            other = stored_job.read(item)
            is_run = stored_job.is_ours_to_run(item.manifest()) and not other.problems
            need = shared_dataset.need(other.job)
            sharer = shared_dataset.sharer(other.job, is_run=is_run)
            self._read[item.uid] = item.version, need, sharer
        assert item.job is not None
        namespace, name = item.job
        steps = (names.preparation_job(name, role) for role in _PACKS)
        packs = any(self._children.get(namespace, step) is not None for step in steps)
        return need, sharer.packing() if packs else sharer
