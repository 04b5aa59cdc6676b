"""The Jobs that prepare a dataset, and those that upload it and the model.

`decide` creates them one after the other: what `index` returned is part of the manifests of `pack`
and `seal`. A `prepared` source without a volume has none of them, unless `verify` asks for its
checksums: `seal` compares them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from imagenet_operator.manifests import arguments, labels, names, pod, volumes
from imagenet_operator.manifests.settings import DEFAULTS, Settings
from imagenet_spec.names import (
    EXIT_PERMANENT,
    EXIT_USAGE,
    IMAGENET_DATA,
    IMAGENET_SOURCE,
    attempt_folder,
)
from imagenet_spec.program import programs
from imagenet_spec.resource import ImageNetJob, queue
from imagenet_spec.resource.base import Manifest
from imagenet_spec.resource.dataset_status import DatasetStatus
from imagenet_spec.resource.fields import SPLIT_DEFAULT

FETCH = "fetch"
INDEX = "index"
PACK = "pack"
SEAL = "seal"
PUBLISH = "publish"
UPLOAD = "upload"

_PROGRAMS = {
    FETCH: programs.FETCH,
    INDEX: programs.INDEX,
    PACK: programs.PACK,
    SEAL: programs.SEAL,
    PUBLISH: programs.PUBLISH,
    UPLOAD: programs.PUBLISH,
}
_DATA = f"$({IMAGENET_DATA})"


def fetch_job(job: ImageNetJob, settings: Settings = DEFAULTS) -> Manifest:
    """Return the Job that stores the files of a server in a cache; only it has the Secret."""
    return _preparation_job(job, FETCH, _cache(job), settings)


def index_job(job: ImageNetJob, settings: Settings = DEFAULTS) -> Manifest:
    """Return the Job that lists the source's images and plans the shards.

    Its pod's termination message is the dataset's status as JSON.
    """
    words = job.spec.dataset.preprocessing.class_words or {}
    values = {
        **_cache(job),
        "data": _DATA,
        "default_validation_per_class": (
            SPLIT_DEFAULT if job.spec.dataset.validation is None else None
        ),
        # $$ is a $ that Kubernetes does not expand.
        "class_word": [f"{name}={text}".replace("$", "$$") for name, text in words.items()],
    }
    return _preparation_job(job, INDEX, values, settings)


def pack_job(job: ImageNetJob, dataset: DatasetStatus, settings: Settings = DEFAULTS) -> Manifest:
    """Return the Indexed Job that writes the shards, one completion each.

    Each shard has its own retries, and none may be given up. The limit for all of them together
    ends a Job whose shards all fail before each has used up its retries.
    """
    parallelism = min(job.spec.dataset.preprocessing.parallelism, dataset.shards)
    values = {**_cache(job), "data": _DATA, "key": dataset.key}
    built = _preparation_job(job, PACK, values, settings, parallelism)
    built["spec"] |= {
        "completionMode": "Indexed",
        "completions": dataset.shards,
        "backoffLimit": settings.preparation_retries + dataset.shards,
        "backoffLimitPerIndex": settings.preparation_retries,
        "maxFailedIndexes": 0,
    }
    return built


def seal_job(job: ImageNetJob, dataset: DatasetStatus, settings: Settings = DEFAULTS) -> Manifest:
    """Return the Job that verifies every shard and completes the dataset.

    For a dataset that was sealed before, it reads all checksums again.
    """
    values = {"data": _DATA, "key": dataset.key, "verify": dataset.sealed}
    return _preparation_job(job, SEAL, values, settings)


def verify_job(job: ImageNetJob, settings: Settings = DEFAULTS) -> Manifest:
    """Return the Job that reads all checksums of a prepared dataset again; it writes nothing."""
    values = {"dataset": volumes.dataset_path(job), "verify": True}
    return _preparation_job(job, SEAL, values, settings)


def publish_job(job: ImageNetJob, settings: Settings = DEFAULTS) -> Manifest:
    """Return the Job that uploads the sealed dataset; it only reads the volume."""
    assert job.spec.dataset.publish is not None and job.spec.dataset.publish.s3 is not None
    values = {"dataset": volumes.dataset_path(job), "to": job.spec.dataset.publish.s3.url}
    return _preparation_job(job, PUBLISH, values, settings)


def upload_job(job: ImageNetJob, attempt: int, settings: Settings = DEFAULTS) -> Manifest:
    """Return the Job that uploads the model of an attempt; it only reads the volume."""
    folder = job.spec.training.upload
    assert folder is not None
    values = {
        "model": f"{volumes.results_path(job)}/{attempt_folder(attempt)}",
        "to": f"s3://{folder.bucket}/{volumes.upload_folder(job)}",
        "endpoint": folder.endpoint,
        "region": folder.region,
    }
    return _preparation_job(job, UPLOAD, values, settings)


def _cache(job: ImageNetJob) -> dict[str, Any]:
    is_fetched = job.spec.dataset.source.fields.is_fetched
    return {"cache": f"$({IMAGENET_SOURCE})"} if is_fetched else {}


def _preparation_job(
    job: ImageNetJob,
    role: str,
    values: Mapping[str, Any],
    settings: Settings,
    parallelism: int = 1,
) -> Manifest:
    name = job.metadata.name
    mounts = _mounts(job, role)
    shares_node = volumes.must_share_node(job, mounts, parallelism)
    program = pod.Program(
        role=role,
        command=_PROGRAMS[role].name,
        arguments=arguments.of_program(job, _PROGRAMS[role], values),
        image=settings.preparation_image,
        grace_period_seconds=settings.grace_period_seconds,
        environment=pod.of_one_node(parallelism, shares_node, settings),
        mounts=mounts,
        secret=_secret(job, role),
        shares_node=shares_node,
        template=job.spec.dataset.preprocessing.template,
        template_path="spec.dataset.preprocessing.template",
    )
    # A failure that a retry would repeat ends the Job; a disruption by the cluster does not count.
    permanent = {
        "containerName": names.CONTAINER,
        "operator": "In",
        "values": [EXIT_USAGE, EXIT_PERMANENT],
    }
    disrupted = {"type": "DisruptionTarget", "status": "True"}
    failure_rules = [
        {"action": "FailJob", "onExitCodes": permanent},
        {"action": "Ignore", "onPodConditions": [disrupted]},
    ]
    spec: dict[str, Any] = {
        "parallelism": parallelism,
        "completions": 1,
        "completionMode": "NonIndexed",
        "backoffLimit": settings.preparation_retries,
        "suspend": job.spec.run_policy.suspend,
        "podFailurePolicy": {"rules": failure_rules},
        "template": pod.pod_template(job, program, labels.of_child(name, role), settings),
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": names.preparation_job(name, role),
            "namespace": job.metadata.namespace,
            "labels": {
                **labels.of_child(name, role),
                **queue.labels_of(job.metadata.labels),
                **(labels.of_suspended_job() if job.spec.run_policy.suspend else {}),
            },
            "ownerReferences": [labels.owner(job)],
        },
        "spec": spec,
    }


def _mounts(job: ImageNetJob, role: str) -> tuple[volumes.Mount, ...]:
    if role == UPLOAD:
        return (volumes.results(job),)
    # Seal and publish read nothing but the dataset, and fetch does not know it.
    source = None if role in (SEAL, PUBLISH) else volumes.source(job, read_only=role != FETCH)
    is_only_read = job.spec.dataset.is_sealed or role == PUBLISH
    data = None if role == FETCH else volumes.data(job, read_only=is_only_read)
    return tuple(mount for mount in (source, data) if mount is not None)


def _secret(job: ImageNetJob, role: str) -> str | None:
    """Return the Secret by which a program reads the source, or writes the bucket."""
    images, publish = job.spec.dataset.source.fields, job.spec.dataset.publish
    if role == UPLOAD:
        upload = job.spec.training.upload
        return None if upload is None else upload.secret_name
    if role == PUBLISH:
        return None if publish is None or publish.s3 is None else publish.s3.secret_name
    connects = role == FETCH if images.is_fetched else role != SEAL
    return images.secret if connects else None
