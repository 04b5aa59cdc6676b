"""ImageNetJobs as the API server stores them: one read into the model, and those of one dataset.

The CRD refuses invalid jobs. But another version of the operator or of the CRD may have written a
job (`stored`), or validation was off when it was stored.

`reconciler` looks for the jobs that need a dataset on one claim only while a job may begin to pack;
`reconcile.policies.shared_dataset` decides which of them goes first. A thousand jobs may wait for
one dataset, and all of them ask the same. So each job is read once for each of its versions, and
the answer for a dataset stays until a cache changes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

import orjson

from imagenet_operator.clusters.kubernetes import objects
from imagenet_operator.clusters.kubernetes.objects import Cache, Stored
from imagenet_operator.manifests import dataset, names
from imagenet_operator.manifests.names import SCHEDULING_GATE
from imagenet_operator.reconcile.policies import shared_dataset
from imagenet_operator.reconcile.policies.shared_dataset import Need
from imagenet_operator.reconcile.types import Sharer
from imagenet_spec import stored
from imagenet_spec.errors import Problem
from imagenet_spec.resource import ImageNetJob
from imagenet_spec.resource.base import Manifest
from imagenet_spec.resource.job import MANAGER
from imagenet_spec.resource.templates import TemplateProfile
from imagenet_spec.stored import StoredJob
from imagenet_spec.validate import validate


def read(item: Stored) -> StoredJob:
    """Return a stored job, with its resource version."""
    manifest = item.manifest()
    size = manifest.pop(objects.OMITTED_BYTES, None)
    found = stored.read(manifest)
    if size is not None:
        has = f"the job has {size:,} bytes without its status"
        hint = f"write at most {objects.JOB_BYTES:,}"
        found = StoredJob(found.job, (Problem("spec", has, hint, "operator"),))
    metadata = found.job.metadata.model_copy(update={"resource_version": str(item.version)})
    job = found.job.model_copy(update={"metadata": metadata})
    return StoredJob(job, found.problems, found.is_of_another_version)


def faults(stored_job: StoredJob, manifest: Manifest, profile: TemplateProfile) -> list[Problem]:
    """Return why a job that has not started must fail: problems that no newer version accepts."""
    if stored_job.is_of_another_version:
        return []
    if objects.OMITTED_BYTES in manifest:
        return list(stored_job.problems)
    # An earlier version may have admitted it, so what only new jobs may not have is no fault.
    return validate(manifest, manifest, profile)


def one_line(problems: Iterable[Problem]) -> str:
    """Return the problems of a job as one line."""
    return "; ".join(str(problem) for problem in problems)


def is_ours_to_run(manifest: Manifest) -> bool:
    """Whether this operator works on a stored job: not being deleted, nor another manager's."""
    if "deletionTimestamp" in manifest["metadata"]:
        return False
    spec = manifest.get("spec")
    policy = spec.get("runPolicy") if isinstance(spec, dict) else None
    manager = policy.get("managedBy") if isinstance(policy, dict) else None
    return manager in (None, MANAGER)


def waits_for_room(job: ImageNetJob, children: list[Manifest]) -> bool:
    """Whether pods of the job are held back until all of them fit."""
    return job.spec.run_policy.scheduling_policy.gang == "Wait" and any(
        gate["name"] == SCHEDULING_GATE
        for item in children
        if item["kind"] == "Pod"
        for gate in item["spec"].get("schedulingGates") or ()
    )


_PACKS = (dataset.PACK, dataset.SEAL)


@dataclass
class _Known:
    """What was read of the jobs.

    Attributes:
        by_key: Namespace and key of a dataset → the jobs that know that they need it.
        found: Namespace and need → the sharers that matter.
    """

    revisions: tuple[int, int]
    by_key: dict[tuple[str, str], list[Stored]]
    found: dict[tuple[str, Need], tuple[Sharer, ...]] = field(default_factory=dict)


class Sharers:
    """The jobs that share datasets."""

    def __init__(self, jobs: Cache, children: Cache) -> None:
        self._jobs = jobs
        self._children = children
        self._known = _Known((-1, -1), {})
        self._keys: dict[str, tuple[int, str | None]] = {}
        self._read: dict[str, tuple[int, Need | None, Sharer]] = {}

    def find(self, job: ImageNetJob) -> tuple[Sharer, ...]:
        """Return the jobs that share the dataset of a job, as far as they decide about its turn.

        There are none before the job knows its dataset, and once that is ready.
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
            other = read(item)
            is_run = is_ours_to_run(item.manifest()) and not other.problems
            need = shared_dataset.need(other.job)
            sharer = shared_dataset.sharer(other.job, is_run=is_run)
            self._read[item.uid] = item.version, need, sharer
        assert item.job is not None
        namespace, name = item.job
        steps = (names.preparation_job(name, role) for role in _PACKS)
        packs = any(self._children.get(namespace, step) is not None for step in steps)
        return need, sharer.packing() if packs else sharer
