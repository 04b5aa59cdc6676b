"""One attempt to train: the pods of all its members and what they share, created together.

`decide` asks for it when the dataset is sealed and no earlier attempt is left. Everything carries
the attempt's number: a restart is a new gang under new names, never a repaired one.
"""

from __future__ import annotations

from dataclasses import replace

from imagenet_operator.api import ImageNetJob
from imagenet_operator.api.base import Manifest
from imagenet_operator.errors import InvalidTemplate
from imagenet_operator.manifests import labels, names, pod, protection, strategies
from imagenet_operator.manifests.identity import training_hash
from imagenet_operator.manifests.settings import DEFAULTS, Settings
from imagenet_operator.manifests.strategies import Member


def build(job: ImageNetJob, attempt: int, settings: Settings = DEFAULTS) -> list[Manifest]:
    """Return the manifests of one attempt: what its pods share, then they by role and index.

    Args:
        job: A job whose source is prepared, or whose status has the dataset's key.
        attempt: The N of ``NAME-rN``, from 0.
        settings: The operator's configuration.

    Raises:
        InvalidTemplate: A template has no meaning, or overrides what is the operator's.
    """
    identity = {"IMAGENET_ATTEMPT": str(attempt), "IMAGENET_SPEC_HASH": training_hash(job)}
    members = strategies.of_job(job).members(job, attempt, settings)
    return [
        *shared(job, attempt, len(members), settings),
        *(_pod(job, attempt, member, identity, settings) for member in members),
    ]


def shared(
    job: ImageNetJob, attempt: int, members: int, settings: Settings = DEFAULTS
) -> list[Manifest]:
    """Return the objects that the pods of an attempt share: a Service, and what protects them.

    Args:
        job: The job.
        attempt: The N of ``NAME-rN``.
        members: How many pods the attempt has.
        settings: The operator's configuration.
    """
    return [_service(job, attempt), *protection.of_attempt(job, attempt, members, settings)]


def _service(job: ImageNetJob, attempt: int) -> Manifest:
    """Return the Service that gives each member its name.

    Headless, and with addresses that are not ready: members meet before any of them is ready.
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


def _pod(
    job: ImageNetJob, attempt: int, member: Member, identity: dict[str, str], settings: Settings
) -> Manifest:
    name, role = job.metadata.name, member.program.role
    program = replace(member.program, environment={**identity, **member.program.environment})
    pod_labels = labels.of_member(name, attempt, role, member.index, job.metadata.generation)
    template = pod.pod_template(job, program, pod_labels, settings)
    pod_name = names.member(name, attempt, role, member.index)
    spec = {
        **template["spec"],
        "hostname": pod_name,
        "subdomain": names.service(name, attempt),
    }
    if job.spec.run_policy.scheduling_policy.gang == "Wait":
        _hold_back(spec, f"{program.template_path}.spec")
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod_name,
            "namespace": job.metadata.namespace,
            **template["metadata"],
            "ownerReferences": [labels.owner(job)],
        },
        "spec": spec,
    }


def _hold_back(spec: Manifest, path: str) -> None:
    """Give a pod the gate before which the scheduler lets it wait; it must need the scheduler."""
    if spec.get("nodeName"):
        raise InvalidTemplate(
            f"{path}.nodeName",
            "cannot be given with spec.runPolicy.schedulingPolicy.gang: Wait, since nobody holds "
            "such a pod back; write nodeSelector, or gang: Timeout",
        )
    spec["schedulingGates"] = [{"name": names.SCHEDULING_GATE}]
