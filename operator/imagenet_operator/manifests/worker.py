"""The worker, as every strategy has it; a strategy adds its kvstore and its environment.

Workers alone mount volumes: they read the dataset and write checkpoints and results.
"""

from __future__ import annotations

from collections.abc import Mapping

from imagenet_operator.api import ImageNetJob
from imagenet_operator.manifests import arguments, volumes
from imagenet_operator.manifests.pod import Program
from imagenet_operator.manifests.settings import Settings
from imagenet_operator.manifests.volumes import DATA, OUTPUT, Mount

ROLE = "worker"


def program(
    job: ImageNetJob,
    settings: Settings,
    kv_store: str,
    environment: Mapping[str, str],
    ports: Mapping[str, int] | None = None,
) -> Program:
    """Return the program of a job's workers.

    Args:
        job: The job.
        settings: The operator's configuration.
        kv_store: MXNet's kvstore.
        environment: What the strategy's members need to find each other.
        ports: On which they do.
    """
    workers = job.spec.training.workers
    mounts = _mounts(job)
    images = settings.images[job.spec.training.framework]
    # Results beside the dataset: one volume, mounted once.
    beside = {} if any(mount.variable == OUTPUT for mount in mounts) else {OUTPUT: f"$({DATA})"}
    return Program(
        role=ROLE,
        command="imagenet-train",
        arguments=arguments.of_worker(job, kv_store),
        image=job.spec.training.image or (images.gpu if workers.gpus else images.cpu),
        grace_seconds=settings.checkpoint_seconds,
        environment={**beside, **environment},
        mounts=mounts,
        gpus=workers.gpus,
        shared_memory=True,
        ports=ports or {},
        tells_readiness=True,
        shares_node=volumes.must_share_node(job, mounts, workers.replicas),
        template=workers.template,
        template_path="spec.training.workers.template",
    )


def _mounts(job: ImageNetJob) -> tuple[Mount, ...]:
    output = volumes.output(job)
    if output is None:
        return (volumes.data(job),)
    return (volumes.data(job, read_only=True), output)
