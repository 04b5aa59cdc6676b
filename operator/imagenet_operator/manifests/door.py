"""The pod that serves a claim to `imagenetctl upload` and `download`: imagenet-door.

If the claim of a job is gone, it serves the results that the job has uploaded to a bucket: its
program fetches them first, with the Secret of the upload.

The client of a user creates and deletes it (`sdk.door_pod`). It has no labels of a job's child, and
the job is its owner but not its controller: the operator leaves it alone, and it goes with the job.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from imagenet_operator.manifests import labels, names, pod
from imagenet_operator.manifests.settings import DEFAULTS, Settings
from imagenet_spec.names import DOOR_PROGRAM, IMAGENET_CREDENTIALS
from imagenet_spec.program.option import written
from imagenet_spec.program.programs import DOOR
from imagenet_spec.resource import ImageNetJob
from imagenet_spec.resource.base import Manifest

APPLICATION: Final = DOOR_PROGRAM
"""The value of the label app.kubernetes.io/name."""

CLAIM_PATH: Final = "/claim"
DEADLINE_SECONDS: Final = 86_400
"""How long the pod lives at most; a transfer that takes longer goes on if it is typed again."""

_GRACE_SECONDS: Final = 2
_REQUESTS: Final = {"cpu": "100m", "memory": "128Mi"}
_LIMITS: Final = {"cpu": "1", "memory": "512Mi"}
_SCRATCH_SIZE: Final = "64Mi"


@dataclass(frozen=True)
class Node:
    """The node of a pod that has mounted a claim for one node, and what that pod tolerates."""

    name: str
    tolerations: tuple[Manifest, ...] = ()


@dataclass(frozen=True)
class Uploaded:
    """What a job has uploaded: its folder in the bucket, and whether to fetch checkpoints too."""

    url: str
    checkpoints: bool = False


def door_pod(
    name: str,
    namespace: str,
    served: str | Uploaded,
    image: str,
    *,
    writable: bool,
    job: ImageNetJob | None = None,
    node: Node | None = None,
    settings: Settings = DEFAULTS,
) -> Manifest:
    """Return the pod, which serves a claim or the uploaded results of the job.

    Only if it is `writable` does it take uploads. It has the pull secrets and tolerations of the
    `job`, with which it goes, and runs on the `node`, if there are any.
    """
    values: dict[str, Any] = {"folder": CLAIM_PATH, "writable": writable}
    # The root file system is read-only.
    environment = {"HOME": pod.SCRATCH, "TMPDIR": pod.SCRATCH}
    mounts: list[Manifest] = [{"name": "scratch", "mountPath": pod.SCRATCH}]
    data: Manifest = {"name": "claim", "mountPath": CLAIM_PATH}
    found: list[Manifest] = [{"name": "scratch", "emptyDir": {"sizeLimit": _SCRATCH_SIZE}}]
    if isinstance(served, str):
        found.append({"name": "claim", "persistentVolumeClaim": {"claimName": served}})
        # Read-only in the mount, not in the volume: a pod of the job may write to it.
        mounts.append({**data, **({} if writable else {"readOnly": True})})
    else:
        assert job is not None and job.spec.training.upload is not None
        bucket = job.spec.training.upload
        folder = names.output_folder(job.metadata.name, job.metadata.uid)
        values.update(
            results=served.url,
            into=f"{CLAIM_PATH}/{folder}",
            checkpoints=served.checkpoints,
            endpoint=bucket.endpoint,
            region=bucket.region,
        )
        found.append({"name": "claim", "emptyDir": {}})
        mounts.append(data)
        if bucket.secret_name is not None:
            environment[IMAGENET_CREDENTIALS] = pod.CREDENTIALS_PATH
            secret = {"secretName": bucket.secret_name, "defaultMode": 0o440}
            found.append({"name": "credentials", "secret": secret})
            mounts.append(
                {"name": "credentials", "mountPath": pod.CREDENTIALS_PATH, "readOnly": True}
            )
    container: Manifest = {
        "name": names.CONTAINER,
        "image": image,
        "imagePullPolicy": settings.image_pull_policy,
        "command": [DOOR_PROGRAM],
        "args": list(written(DOOR.options, values)),
        "env": [{"name": name, "value": value} for name, value in environment.items()],
        "resources": {"requests": dict(_REQUESTS), "limits": dict(_LIMITS)},
        "securityContext": pod.unprivileged(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": mounts,
    }
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "activeDeadlineSeconds": DEADLINE_SECONDS,
        "terminationGracePeriodSeconds": _GRACE_SECONDS,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": pod.of_user(settings),
        "containers": [container],
        "volumes": found,
    }
    if job is not None and (secrets := job.spec.training.image_pull_secrets):
        spec["imagePullSecrets"] = [{"name": secret.name} for secret in secrets]
    tolerations: list[Manifest] = []
    if job is not None:
        # It goes wherever the pods of the preparation and the workers of the job go.
        preprocessing, workers = job.spec.dataset.preprocessing, job.spec.training.workers
        for template in (preprocessing.template, workers.template):
            tolerations += ((template or {}).get("spec") or {}).get("tolerations") or ()
    if node is not None:
        tolerations += node.tolerations
        # Not nodeName: the scheduler also asks whether there is room.
        field = {"key": "metadata.name", "operator": "In", "values": [node.name]}
        terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
        spec["affinity"] = {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}
        }
    if tolerations:
        spec["tolerations"] = [
            item for place, item in enumerate(tolerations) if item not in tolerations[:place]
        ]
    metadata: Manifest = {
        "name": name,
        "namespace": namespace,
        "labels": {labels.MANAGED_BY: "imagenetctl", labels.APPLICATION: APPLICATION},
    }
    if job is not None:
        # A controller would have to be allowed to end the job's finalizers.
        owner = {**labels.owner(job), "controller": False, "blockOwnerDeletion": False}
        metadata["ownerReferences"] = [owner]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
