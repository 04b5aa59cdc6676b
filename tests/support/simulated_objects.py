"""What tests read in the objects of a simulated cluster."""

from __future__ import annotations

import itertools
import re
from datetime import datetime
from typing import Any

from imagenet_operator.manifests import labels, names
from imagenet_spec.resource.status import Condition, Status

Manifest = dict[str, Any]

INDEX_RESULT = {
    "key": "0123456789abcdef0123456789abcdef",
    "classes": 9,
    "images": {"train": 1200, "validation": 100},
    "shards": 2,
    "droppedClasses": 1,
    "sealed": False,
}
FETCH_RESULT = {"bytes": 5 << 30, "totalBytes": 5 << 30}
PACK_RESULT = {"decodedImagesPerSecond": 512.34}
SEAL_RESULT = {"images": {"train": 1200, "validation": 100}, "skipped": 0}
NAME = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
LABEL = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")


def text(moment: datetime) -> str:
    """A time as Kubernetes writes it."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def owner_of(item: Manifest) -> str | None:
    """The UID of an object's owner."""
    owners = item["metadata"].get("ownerReferences")
    return str(owners[0]["uid"]) if owners else None


def is_ours(item: Manifest) -> bool:
    """Whether an object is of no other job."""
    return owner_of(item) != "other"


def is_terminating(pod: Manifest) -> bool:
    """Whether a pod is being deleted."""
    return "deletionTimestamp" in pod["metadata"]


def attempt_of(pod: Manifest) -> int:
    """The number of a pod's attempt."""
    return int(pod["metadata"]["labels"][labels.ATTEMPT])


def role_of(pod: Manifest) -> str:
    """The role of a pod."""
    return str(pod["metadata"]["labels"][labels.JOB_ROLE])


def workers_of(pod: Manifest) -> int:
    """The number of workers that a pod of a job with servers knows of."""
    variables = {item["name"]: item.get("value") for item in pod["spec"]["containers"][0]["env"]}
    return int(variables["DMLC_NUM_WORKER"])


def job_ended(job: Manifest) -> bool:
    """Whether a Job has completed or failed."""
    return bool(job["status"].get("conditions"))


def pod_of_job(job: Manifest, number: int) -> Manifest:
    """A pod as the Job controller makes it, with a number that no other one has."""
    metadata = job["metadata"]
    owner = {"kind": "Job", "name": metadata["name"], "uid": metadata["uid"], "controller": True}
    return {
        "kind": "Pod",
        "metadata": {
            "name": f"{metadata['name']}-{number}",
            "labels": dict(job["spec"]["template"]["metadata"]["labels"]),
            "ownerReferences": [owner],
        },
        "spec": {"containers": [{"name": names.CONTAINER}]},
    }


def written_by(pod: Manifest) -> list[str]:
    """Where a pod's program writes, as imagenet-train makes it from its option and environment."""
    container = pod["spec"]["containers"][0]
    options = list(container.get("args", ()))
    attempt = [item["value"] for item in container["env"] if item["name"] == "IMAGENET_ATTEMPT"]
    return [
        f"{folder}/attempts/r{number}"
        for option, folder in itertools.pairwise(options)
        if option == "--output"
        for number in attempt
    ]


def true_ends(status: Status) -> set[str]:
    """The conditions by which a job has ended."""
    ends = ("Succeeded", "Failed")
    return {item.type for item in status.conditions if item.status == "True" and item.type in ends}


def succeeded_workers(status: Status) -> set[str]:
    """The workers of which the status says that they succeeded."""
    members = () if status.training is None else status.training.members
    return {
        member.name for member in members if member.role == "worker" and member.phase == "Succeeded"
    }


def condition(status: Status, kind: str) -> Condition | None:
    """The condition of a type, or None."""
    return next((item for item in status.conditions if item.type == kind), None)


def check_names(manifest: Manifest) -> None:
    """Assert that an API server takes an object's names and labels."""
    metadata, spec = manifest["metadata"], manifest["spec"]
    for name in filter(None, [metadata["name"], spec.get("hostname"), spec.get("subdomain")]):
        assert NAME.fullmatch(name), f"no API server takes {name}"
    template = spec.get("template", {}).get("metadata", {})
    values = [*metadata["labels"].values(), *template.get("labels", {}).values()]
    assert all(LABEL.fullmatch(value) for value in values), f"no API server takes {values}"
