"""Preparation: the Jobs that fetch and index the source, pack its shards and seal the dataset.

`decide` creates them one after the other: what `index` returned (the dataset's key and how many
shards it has) is part of the manifests of `pack` and `seal`. A `prepared` source without a volume
has none of them, unless `verify` asks for its checksums: `seal` compares them.
"""

from __future__ import annotations

from typing import Any

from imagenet_operator.api import ImageNetJob, queue
from imagenet_operator.api.base import Manifest
from imagenet_operator.api.dataset_status import DatasetStatus
from imagenet_operator.api.fields import SPLIT_DEFAULT
from imagenet_operator.manifests import labels, names, pod, volumes
from imagenet_operator.manifests.settings import DEFAULTS, Settings
from imagenet_spec.names import EXIT_PERMANENT, EXIT_USAGE, IMAGENET_DATA

FETCH = "fetch"
INDEX = "index"
PACK = "pack"
SEAL = "seal"
PUBLISH = "publish"


def fetch_job(job: ImageNetJob, settings: Settings = DEFAULTS) -> Manifest:
    """Return the Job that stores the files of a server in a cache; only it has the Secret."""
    spec = job.spec.dataset
    source = spec.source.fields
    arguments = [
        *source.reading_arguments(spec.validation),
        *source.index_arguments(spec.validation),
        *source.fetch_arguments,
    ]
    return _preparation_job(job, FETCH, arguments, settings)


def index_job(job: ImageNetJob, settings: Settings = DEFAULTS) -> Manifest:
    """Return the Job that lists the source's images and plans the shards.

    Its pod's termination message is the dataset's status as JSON.
    """
    return _preparation_job(job, INDEX, _index_arguments(job), settings)


def pack_job(job: ImageNetJob, dataset: DatasetStatus, settings: Settings = DEFAULTS) -> Manifest:
    """Return the Indexed Job that writes the shards, one completion each.

    Each shard has its own retries, and none may be given up. The limit for all of them together
    ends a Job whose shards all fail before each has used up its retries.
    """
    spec = job.spec.dataset
    parallelism = min(spec.preprocessing.parallelism, dataset.shards)
    arguments = [*_location(dataset), *spec.source.fields.reading_arguments(spec.validation)]
    built = _preparation_job(job, PACK, arguments, settings, parallelism)
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
    verify = ["--verify"] if dataset.sealed else []
    return _preparation_job(job, SEAL, [*_location(dataset), *verify], settings)


def verify_job(job: ImageNetJob, settings: Settings = DEFAULTS) -> Manifest:
    """Return the Job that reads all checksums of a prepared dataset again; it writes nothing."""
    arguments = ["--dataset", volumes.dataset_path(job), "--verify"]
    return _preparation_job(job, SEAL, arguments, settings)


def publish_job(job: ImageNetJob, settings: Settings = DEFAULTS) -> Manifest:
    """Return the Job that uploads the sealed dataset; it only reads the volume.

    The job must have a dataset, and `spec.dataset.publish`.
    """
    assert job.spec.dataset.publish is not None and job.spec.dataset.publish.s3 is not None
    folder = job.spec.dataset.publish.s3
    arguments = ["--dataset", volumes.dataset_path(job), "--to", folder.url]
    arguments += folder.api_arguments("--endpoint", "--region")
    return _preparation_job(job, PUBLISH, arguments, settings)


def _index_arguments(job: ImageNetJob) -> list[str]:
    spec = job.spec.dataset
    source, validation, preprocessing = spec.source.fields, spec.validation, spec.preprocessing
    resize = [] if preprocessing.resize is None else ["--resize", str(preprocessing.resize)]
    if validation is None:
        drawn = ["--default-validation-per-class", str(SPLIT_DEFAULT)]
    elif validation.split is None:
        drawn = []
    else:
        drawn = ["--validation-per-class", str(validation.split.images_per_class)]
    expected, words = preprocessing.expected_classes, preprocessing.class_words or {}
    return [
        *source.reading_arguments(validation),
        *source.index_arguments(validation),
        *spec.source.layout_arguments,
        *drawn,
        *("--data", f"$({IMAGENET_DATA})"),
        *("--format", preprocessing.format),
        *resize,
        *("--quality", str(preprocessing.quality)),
        *("--shards", str(preprocessing.shards)),
        *("--min-images-per-class", str(preprocessing.min_images_per_class)),
        *([] if expected is None else ["--expected-classes", str(expected)]),
        # $$ is a $ that Kubernetes does not expand.
        *(f"--class-word={name}={text}".replace("$", "$$") for name, text in words.items()),
        *("--seed", str(preprocessing.seed)),
        *("--max-skipped-fraction", str(preprocessing.max_skipped_fraction)),
    ]


def _location(dataset: DatasetStatus) -> list[str]:
    return ["--data", f"$({IMAGENET_DATA})", "--key", dataset.key]


def _preparation_job(
    job: ImageNetJob,
    role: str,
    arguments: list[str],
    settings: Settings,
    parallelism: int = 1,
) -> Manifest:
    name = job.metadata.name
    program = _program(job, role, arguments, settings, parallelism)
    spec: dict[str, Any] = {
        "parallelism": parallelism,
        "completions": 1,
        "completionMode": "NonIndexed",
        "backoffLimit": settings.preparation_retries,
        "suspend": job.spec.run_policy.suspend,
        "podFailurePolicy": _pod_failure_policy(),
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


def _program(
    job: ImageNetJob, role: str, arguments: list[str], settings: Settings, parallelism: int
) -> pod.Program:
    # Seal and publish read nothing but the dataset, and fetch does not know it.
    source = None if role in (SEAL, PUBLISH) else volumes.source(job, read_only=role != FETCH)
    is_only_read = job.spec.dataset.is_sealed or role == PUBLISH
    data = None if role == FETCH else volumes.data(job, read_only=is_only_read)
    mounts = tuple(mount for mount in (source, data) if mount is not None)
    shares_node = volumes.must_share_node(job, mounts, parallelism)
    return pod.Program(
        role=role,
        command=f"imagenet-{role}",
        arguments=tuple(arguments),
        image=settings.preparation_image,
        grace_period_seconds=settings.grace_period_seconds,
        environment=pod.of_one_node(parallelism, shares_node, settings),
        mounts=mounts,
        secret=_secret(job, role),
        shares_node=shares_node,
        template=job.spec.dataset.preprocessing.template,
        template_path="spec.dataset.preprocessing.template",
    )


def _secret(job: ImageNetJob, role: str) -> str | None:
    """Return the Secret by which a program reads the source, or writes the bucket."""
    images, publish = job.spec.dataset.source.fields, job.spec.dataset.publish
    if role == PUBLISH:
        return None if publish is None or publish.s3 is None else publish.s3.secret_name
    connects = role == FETCH if images.is_fetched else role != SEAL
    return images.secret if connects else None


def _pod_failure_policy() -> Manifest:
    """Fail immediately if a retry would fail too; do not count disruptions by the cluster."""
    return {
        "rules": [
            {
                "action": "FailJob",
                "onExitCodes": {
                    "containerName": names.CONTAINER,
                    "operator": "In",
                    "values": [EXIT_USAGE, EXIT_PERMANENT],
                },
            },
            {
                "action": "Ignore",
                "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
            },
        ]
    }
