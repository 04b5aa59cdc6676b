"""The jobs that need the same dataset on the same claim, from the caches.

`reconciler` looks for them only while a job may begin to pack. Which of them goes first is decided
in `reconcile.policies.shared_dataset`.
"""

from collections.abc import Iterator

from imagenet_operator.api import ImageNetJob
from imagenet_operator.clusters.kubernetes import stored_job
from imagenet_operator.clusters.kubernetes.cache import Cache, Stored
from imagenet_operator.manifests import dataset, names
from imagenet_operator.reconcile.policies import shared_dataset
from imagenet_operator.reconcile.types import Sharer


def find(job: ImageNetJob, jobs: Cache, children: Cache) -> tuple[Sharer, ...]:
    """Return the jobs that share the dataset of a job.

    Args:
        job: The job; there are none before it knows its dataset, and once that is ready.
        jobs: The ImageNetJobs.
        children: The Jobs of Kubernetes.
    """
    if not shared_dataset.needs_turn(job.status):
        return ()
    return tuple(_find(job, jobs, children))


def _find(job: ImageNetJob, jobs: Cache, children: Cache) -> Iterator[Sharer]:
    assert job.status.listed is not None
    # Reading a job takes much longer than a search in its text.
    key = job.status.listed.key.encode()
    for item in jobs.all():
        if item.job is None or item.job[0] != job.metadata.namespace or key not in item.text:
            continue
        if item.uid != job.metadata.uid:
            found = _sharer(job, item, children)
            if found is not None:
                yield found


def _sharer(job: ImageNetJob, item: Stored, children: Cache) -> Sharer | None:
    other = stored_job.read(item)
    steps = (names.preparation_job(other.job.metadata.name, role) for role in _PACKS)
    return shared_dataset.sharer(
        job,
        other.job,
        packs=any(children.get(job.metadata.namespace, step) is not None for step in steps),
        is_run=stored_job.is_ours_to_run(item.manifest()) and not other.problems,
    )


_PACKS = (dataset.PACK, dataset.SEAL)
