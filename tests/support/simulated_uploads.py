"""What must hold of the Jobs of a simulated cluster that prepare and publish a dataset."""

from __future__ import annotations

from imagenet_operator.api import ImageNetJob
from imagenet_operator.manifests import names
from imagenet_operator.manifests.dataset import PUBLISH
from imagenet_operator.manifests.protection import NETWORK_POLICY
from support.simulated_objects import role_of
from support.simulated_world import Manifest, SimulatedWorld


def is_upload(manifest: Manifest) -> bool:
    """Whether an object is the Job that publishes a dataset."""
    return manifest["kind"] == "Job" and role_of(manifest) == PUBLISH


def check_new_job(world: SimulatedWorld, job: ImageNetJob, manifest: Manifest) -> None:
    """Check that a Job may be created."""
    protection = (NETWORK_POLICY, names.preparation(job.metadata.name))
    assert protection in world.objects, f"{manifest['metadata']['name']}: unprotected"
    sealed_first = world.is_sealed or not is_upload(manifest)
    assert sealed_first, "published before the dataset is sealed"


def check_uploads_are_over(world: SimulatedWorld) -> None:
    """Check that no upload runs whose protection is about to be deleted."""
    uploads = [item for item in world.unfinished_jobs() if is_upload(item)]
    assert not uploads, "an upload goes on without protection"
