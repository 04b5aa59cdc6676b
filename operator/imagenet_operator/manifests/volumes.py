"""The volumes of a job: the claims that are made for it, and what its pods mount where."""

from __future__ import annotations

from dataclasses import dataclass

from imagenet_operator.manifests import labels, names
from imagenet_spec.errors import InvalidJob, Problem
from imagenet_spec.names import IMAGENET_DATA, IMAGENET_OUTPUT, IMAGENET_SOURCE
from imagenet_spec.resource import ImageNetJob
from imagenet_spec.resource.base import Manifest
from imagenet_spec.resource.volumes import VolumeClaim

DATASET_PURPOSE = "dataset"
OUTPUT_PURPOSE = "output"


@dataclass(frozen=True)
class Mount:
    """One claim in a pod; `variable` is the environment variable by which programs find it."""

    name: str
    variable: str
    claim: str
    path: str
    read_only: bool = False


def claims(job: ImageNetJob) -> list[Manifest]:
    """Return the claims that the job asks to have made.

    Without `retentionPolicy: Delete` they outlive it, and a later job of its name takes them over.
    """
    return [_claim(job, purpose, volume) for purpose, _, volume in _wanted(job)]


def claim_names(job: ImageNetJob) -> set[str]:
    """Return the names of `claims`, of a job that need not be valid."""
    return {names.claim(job.metadata.name, purpose) for purpose, _, _ in _wanted(job)}


def source(job: ImageNetJob, *, read_only: bool = True) -> Mount | None:
    """Return the mount of the raw images; None if the source has no claim to read from."""
    claim = job.spec.dataset.source.fields.claim
    return None if claim is None else Mount("source", IMAGENET_SOURCE, claim, "/source", read_only)


def data(job: ImageNetJob, *, read_only: bool = False) -> Mount:
    """Return the mount of the volume that holds the prepared dataset."""
    claim = dataset_claim(job)
    assert claim is not None, "the dataset is in a bucket or on a server"
    return Mount("data", IMAGENET_DATA, claim, "/data", read_only)


def output(job: ImageNetJob) -> Mount | None:
    """Return the mount of the output volume; None where the results go to the dataset's."""
    claim = output_claim(job)
    if claim is None or claim == dataset_claim(job):
        return None
    return Mount("output", IMAGENET_OUTPUT, claim, "/output")


def results(job: ImageNetJob) -> Mount:
    """Return the mount that only reads the volume of the results, by the name of an output."""
    claim = output_claim(job)
    assert claim is not None, "results need a volume"
    return Mount("output", IMAGENET_OUTPUT, claim, "/output", read_only=True)


def output_claim(job: ImageNetJob) -> str | None:
    """Return the claim to which results are written, which may be the dataset's."""
    volume = _output_volume(job)
    if volume is None:
        return dataset_claim(job)
    return volume.claim_name or names.claim(job.metadata.name, OUTPUT_PURPOSE)


def dataset_path(job: ImageNetJob) -> str:
    """Return where the prepared dataset is, as a worker finds it: a folder or a URL."""
    remote = job.spec.dataset.source.fields.remote_url
    if remote is not None:
        return remote
    sealed = job.spec.dataset.sealed_path
    if sealed is not None:
        return f"$({IMAGENET_DATA})/{sealed}"
    if job.status.listed is None:
        raise ValueError("the dataset has no key yet: an attempt begins after index has ended")
    return f"$({IMAGENET_DATA})/{names.dataset_folder(job.status.listed.key)}"


def results_path(job: ImageNetJob) -> str:
    """Return where everything goes that the job's attempts write."""
    return f"$({IMAGENET_OUTPUT})/{names.output_folder(job.metadata.name, job.metadata.uid)}"


def upload_folder(job: ImageNetJob) -> str:
    """Return the prefix of the job's uploaded results in its bucket.

    It has a part of the UID, as on the volume: jobs of one manifest do not meet there.
    """
    folder, metadata = job.spec.training.upload, job.metadata
    assert folder is not None
    name = names.output_folder(metadata.name, metadata.uid).rpartition("/")[2]
    return f"{folder.prefix.strip('/')}/{name}"


@dataclass(frozen=True)
class Existing:
    """A claim that the job names.

    `users` is the field that says how many pods use it at a time, and how many that are.
    """

    path: str
    claim: str
    written: bool
    users: tuple[str, int]


def existing(job: ImageNetJob) -> list[Existing]:
    """Return the claims that the job names, each as often as it is used."""
    spec = job.spec
    packing = ("spec.dataset.preprocessing.parallelism", spec.dataset.preprocessing.parallelism)
    training = ("spec.training.workers.replicas", spec.training.workers.replicas)
    images, kept = spec.dataset.source.fields, spec.dataset.volume
    results = _output_volume(job)
    found = []
    if images.claim is not None:
        path = f"spec.dataset.source.{spec.dataset.source.kind}.{images.claim_field}"
        is_sealed = spec.dataset.sealed_path is not None
        # Without an output volume, results are written beside a sealed dataset.
        written = images.is_fetched or (is_sealed and output(job) is None)
        users = training if is_sealed else packing
        found.append(Existing(path, images.claim, written=written, users=users))
    if kept is not None and kept.claim_name is not None:
        most = max(packing, training, key=lambda item: item[1])
        path = "spec.dataset.volume.claimName"
        found.append(Existing(path, kept.claim_name, written=True, users=most))
    if results is not None and results.claim_name is not None:
        path = "spec.training.output.volume.claimName"
        found.append(Existing(path, results.claim_name, written=True, users=training))
    return found


def must_share_node(job: ImageNetJob, mounts: tuple[Mount, ...], pods: int) -> bool:
    """Return whether so many pods with these mounts have to run on one node.

    Raises:
        InvalidJob: The claim would be made so that its second pod could never start.
    """
    if pods == 1:
        return False
    mounted = {mount.claim for mount in mounts}
    made = [item for item in _wanted(job) if names.claim(job.metadata.name, item[0]) in mounted]
    modes = {path: _access_modes(volume) for _, path, volume in made}
    for path, allowed in modes.items():
        if not {"ReadWriteMany", "ReadWriteOnce"} & set(allowed):
            raise InvalidJob(
                [
                    Problem(
                        f"{path}.accessModes",
                        f"{' and '.join(allowed)} cannot be written by {pods} pods at a time",
                        "write [ReadWriteMany], or [ReadWriteOnce] to have them share a node",
                        "operator",
                    )
                ]
            )
    narrow = set(job.status.single_node_claims or ())
    return bool(narrow & mounted) or any("ReadWriteMany" not in item for item in modes.values())


def is_single_node(job: ImageNetJob, claim: str) -> bool:
    """Return whether all pods that use a claim at a time have to run on one node."""
    made = {names.claim(job.metadata.name, item[0]): item[2] for item in _wanted(job)}
    if claim in made:
        return "ReadWriteMany" not in _access_modes(made[claim])
    return claim in (job.status.single_node_claims or ())


def _access_modes(volume: VolumeClaim) -> tuple[str, ...]:
    return volume.access_modes or ("ReadWriteMany",)


def _wanted(job: ImageNetJob) -> list[tuple[str, str, VolumeClaim]]:
    """Return purpose, place in the job and description of each claim that is to be made."""
    described = (
        (DATASET_PURPOSE, "spec.dataset.volume", job.spec.dataset.volume),
        (OUTPUT_PURPOSE, "spec.training.output.volume", _output_volume(job)),
    )
    return [
        (purpose, path, volume)
        for purpose, path, volume in described
        if volume is not None and volume.claim_name is None
    ]


def _output_volume(job: ImageNetJob) -> VolumeClaim | None:
    output_spec = job.spec.training.output
    return None if output_spec is None else output_spec.volume


def dataset_claim(job: ImageNetJob) -> str | None:
    """Return the claim with the prepared dataset; None if that is in a bucket or on a server."""
    dataset = job.spec.dataset
    if dataset.is_sealed:
        return dataset.source.fields.claim
    named = None if dataset.volume is None else dataset.volume.claim_name
    return named or names.claim(job.metadata.name, DATASET_PURPOSE)


def _claim(job: ImageNetJob, purpose: str, volume: VolumeClaim) -> Manifest:
    name = job.metadata.name
    metadata: Manifest = {
        "name": names.claim(name, purpose),
        "namespace": job.metadata.namespace,
        "labels": labels.of_child(name, purpose),
    }
    if job.spec.run_policy.retention_policy == "Delete":
        metadata["ownerReferences"] = [labels.owner(job)]
    spec: Manifest = {
        "accessModes": list(_access_modes(volume)),
        "resources": {"requests": {"storage": volume.size}},
    }
    if volume.storage_class_name is not None:
        spec["storageClassName"] = volume.storage_class_name
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata,
        "spec": spec,
    }
