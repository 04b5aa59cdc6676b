"""What must hold of the Jobs of a simulated cluster that prepare a dataset, and of the uploads."""

from __future__ import annotations

from imagenet_operator.manifests import names
from imagenet_operator.manifests.dataset import PUBLISH, UPLOAD
from imagenet_operator.manifests.protection import NETWORK_POLICY
from imagenet_spec.resource import ImageNetJob
from support.simulated_objects import role_of, true_ends
from support.simulated_world import Manifest, SimulatedWorld


def is_upload(manifest: Manifest) -> bool:
    """Whether an object is the Job that uploads a dataset or a model."""
    return manifest["kind"] == "Job" and role_of(manifest) in (PUBLISH, UPLOAD)


def check_new_job(world: SimulatedWorld, job: ImageNetJob, manifest: Manifest) -> None:
    """Check that a Job may be created."""
    protection = (NETWORK_POLICY, names.preparation(job.metadata.name))
    assert protection in world.objects, f"{manifest['metadata']['name']}: unprotected"
    sealed_first = world.is_sealed or not is_upload(manifest)
    assert sealed_first, "published before the dataset is sealed"
    trained_first = role_of(manifest) != UPLOAD or "Succeeded" in true_ends(job.status)
    assert trained_first, "a model is uploaded before the job has succeeded"


def check_uploads_are_over(world: SimulatedWorld) -> None:
    """Check that no upload runs whose protection is about to be deleted."""
    uploads = [item for item in world.unfinished_jobs() if is_upload(item)]
    assert not uploads, "an upload goes on without protection"
