"""One attempt: the pods of all its members and their shared objects, created together.

All names contain the attempt's number. A restart creates a new gang with new names; a gang is never
repaired.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from imagenet_operator.manifests import labels, names, pod, protection, strategies
from imagenet_operator.manifests.settings import DEFAULTS, Settings
from imagenet_operator.manifests.strategies import Replicas
from imagenet_spec.names import IMAGENET_ATTEMPT, IMAGENET_SPEC_HASH
from imagenet_spec.resource import ImageNetJob, elastic_workers, queue
from imagenet_spec.resource.base import Manifest, copied
from imagenet_spec.resource.strategies import STRATEGIES

# Fields that do not change what a job computes. Workers, templates and the batch size may change
# while a job is suspended, and it then resumes from its checkpoints.
_ELSEWHERE = frozenset(
    {
        "dataset.license",
        "dataset.preprocessing.parallelism",
        "dataset.preprocessing.template",
        "dataset.publish",
        "dataset.verify",
        "dataset.volume",
        "training.batchSize",
        "training.checkpoint",
        "training.compileCache",
        "training.dataThreads",
        "training.image",
        "training.imagePullSecrets",
        "training.output",
        "training.tracking",
        "training.workers",
        *(
            f"training.strategy.{kind}.{field}"
            for kind, fields in STRATEGIES.items()
            for field in fields.incidental
        ),
    }
)


def build(
    job: ImageNetJob, attempt: int, settings: Settings = DEFAULTS, workers: int | None = None
) -> list[Manifest]:
    """Return the manifests of one attempt: shared objects, then pods by role and index.

    The job's source is prepared, or its status has the dataset's key. Without `workers` their
    number is the largest that the job may have.

    Raises:
        InvalidTemplate: A template is invalid, or sets a field that the operator owns.
    """
    if workers is None:
        workers = elastic_workers.worker_counts(job.spec.training)[-1]
    training = job.spec.training
    changed = training.workers.model_copy(update={"replicas": workers})
    resized = training.model_copy(update={"workers": changed})
    job = job.model_copy(update={"spec": job.spec.model_copy(update={"training": resized})})
    roles = strategies.of_job(job).members(job, attempt, settings)
    trained = training_hash(job)
    pods = [pod for role in roles for pod in _pods(job, attempt, role, trained, settings)]
    if queued := queue.labels_of(job.metadata.labels):
        for item in pods:
            # A group that has failed once is never admitted again, so each attempt has its own.
            group = {queue.GROUP: names.service(job.metadata.name, attempt)}
            item["metadata"]["labels"] |= queued | group
            item["metadata"]["annotations"] |= {
                queue.GROUP_SIZE: str(len(pods)),
                queue.RETRIABLE: "false",
            }
    return [*shared(job, attempt, len(pods), settings), *pods]


def shared(
    job: ImageNetJob, attempt: int, members: int, settings: Settings = DEFAULTS
) -> list[Manifest]:
    """Return the objects that the pods of an attempt share: a Service, and their protection."""
    return [_service(job, attempt), *protection.of_attempt(job, attempt, members, settings)]


def _service(job: ImageNetJob, attempt: int) -> Manifest:
    """Return the headless Service that gives each member its host name.

    It publishes addresses that are not ready, because members connect before they are ready.
    """
    name = job.metadata.name
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": names.service(name, attempt),
            "namespace": job.metadata.namespace,
            "labels": labels.of_attempt(name, attempt, "members"),
            "ownerReferences": [labels.owner(job)],
        },
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": labels.select_attempt(name, attempt),
        },
    }


def _pods(
    job: ImageNetJob, attempt: int, replicas: Replicas, trained: str, settings: Settings
) -> Iterator[Manifest]:
    """Yield the pods of a role. Their template is built, merged and validated once."""
    template = _template(job, attempt, replicas, trained, settings)
    name, role = job.metadata.name, replicas.program.role
    for index, environment in enumerate(replicas.environments):
        copy = copied(template)
        pod_name = names.member(name, attempt, role, index)
        copy["spec"]["hostname"] = pod_name
        copy["metadata"]["labels"] |= labels.of_replica(index)
        if index and replicas.program.tracking is not None:
            pod.without_tracking(copy["spec"])
        for variable in copy["spec"]["containers"][0]["env"]:
            if variable["name"] in environment:
                variable["value"] = environment[variable["name"]]
        yield {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": pod_name,
                "namespace": job.metadata.namespace,
                **copy["metadata"],
                "ownerReferences": [labels.owner(job)],
            },
            "spec": copy["spec"],
        }


def _template(
    job: ImageNetJob, attempt: int, replicas: Replicas, trained: str, settings: Settings
) -> Manifest:
    program, name = replicas.program, job.metadata.name
    program = replace(
        program,
        environment={
            IMAGENET_ATTEMPT: str(attempt),
            IMAGENET_SPEC_HASH: trained,
            **program.environment,
            **replicas.environments[0],
        },
        gated=job.spec.run_policy.scheduling_policy.gang == "Wait",
    )
    pod_labels = labels.of_role(name, attempt, program.role, job.metadata.generation)
    if program.leaves_result:
        pod_labels[labels.RESULT] = labels.RESULT_EXPECTED
    template = pod.pod_template(job, program, pod_labels, settings)
    template["spec"]["subdomain"] = names.service(name, attempt)
    if job.status.rejecting_nodes:
        pod.prefer_other_nodes(template["spec"], job.status.rejecting_nodes)
    return template


def training_hash(job: ImageNetJob) -> str:
    """Return the hex SHA-256 of the fields that determine what is trained.

    Every pod of an attempt gets it as IMAGENET_SPEC_HASH, and a checkpoint's manifest records it.
    A checkpoint with another hash is not resumed.

    It hashes the canonical JSON (sorted keys, no spaces) of the fields that differ from their
    defaults. So a field of a later version does not change the hash of a job that does not use it.
    """
    spec = job.spec.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    identity = {part: _what_is_trained(spec[part], part) for part in ("dataset", "training")}
    canonical = json.dumps(identity, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def _what_is_trained(fields: dict[str, Any], path: str) -> dict[str, Any]:
    """Return the fields without those in `_ELSEWHERE`, and without objects that become empty.

    A strategy stays even if it is empty, because its name alone has a meaning.
    """
    kept: dict[str, Any] = {}
    for name, value in fields.items():
        here = f"{path}.{name}"
        if here in _ELSEWHERE:
            continue
        if isinstance(value, dict):
            value = _what_is_trained(value, here)
            if not value and path != "training.strategy":
                continue
        kept[name] = value
    return kept
