"""A real bucket in a story's namespace: SeaweedFS behind a Service, filled by a pod."""

from __future__ import annotations

import json
from typing import Any

from kind.kubectl import Kubectl
from kind.stories.jobs import CLAIM, PREPARATION_IMAGE

Manifest = dict[str, Any]

IMAGE = "imagenetjob.test/seaweedfs:bookworm"
NAME = "seaweedfs"
BUCKET = "imagenet"
SECRET = "bucket-keys"
PORT = 8333
ENDPOINT = f"http://{NAME}:{PORT}"

_KEYS = {"AWS_ACCESS_KEY_ID": "acc3ss-of-the-reader", "AWS_SECRET_ACCESS_KEY": "s3cret"}
_IDENTITIES = {
    "identities": [
        {
            "name": "reader",
            "credentials": [
                {
                    "accessKey": _KEYS["AWS_ACCESS_KEY_ID"],
                    "secretKey": _KEYS["AWS_SECRET_ACCESS_KEY"],
                }
            ],
            "actions": ["Admin"],
        }
    ]
}
# The clients' own variables hold the keys.
_UPLOAD = f"""
import sys
from pathlib import Path
import obstore
from obstore.store import S3Store
options = {{"allow_http": True}}
store = S3Store("{BUCKET}", endpoint="{ENDPOINT}", region="us-east-1", client_options=options)
obstore.put(store, sys.argv[1], Path("/data", sys.argv[1]))
"""


def start(kubectl: Kubectl) -> None:
    """Start it, and wait until it answers; the Secret with its keys is SECRET."""
    files = {name: json.dumps(content) for name, content in {"s3.json": _IDENTITIES}.items()}
    kubectl.apply(
        _manifest("v1", "Secret", SECRET, stringData=_KEYS),
        _manifest("v1", "Secret", NAME, stringData=files),
        _manifest(
            "v1",
            "Service",
            NAME,
            spec={"selector": {"app": NAME}, "ports": [{"port": PORT}]},
        ),
        _pod(
            NAME,
            {
                "image": IMAGE,
                "args": ["-s3.config=/etc/seaweedfs/s3.json"],
                "readinessProbe": {
                    "httpGet": {"path": "/status", "port": PORT},
                    "periodSeconds": 1,
                },
                "volumeMounts": [
                    {"name": "identities", "mountPath": "/etc/seaweedfs"},
                    {"name": "storage", "mountPath": "/data"},
                ],
            },
            [
                {"name": "identities", "secret": {"secretName": NAME}},
                {"name": "storage", "emptyDir": {}},
            ],
        ),
    )
    kubectl.wait(f"pod/{NAME}", "condition=Ready")


def upload(kubectl: Kubectl, file: str) -> None:
    """Copy a file of the story's claim into the bucket, under its name."""
    kubectl.apply(
        _pod(
            "upload",
            {
                "image": PREPARATION_IMAGE,
                "command": ["python", "-c", _UPLOAD, file],
                "envFrom": [{"secretRef": {"name": SECRET}}],
                "volumeMounts": [{"name": "claim", "mountPath": "/data", "readOnly": True}],
            },
            [{"name": "claim", "persistentVolumeClaim": {"claimName": CLAIM}}],
        )
    )
    kubectl.wait("pod/upload", "jsonpath={.status.phase}=Succeeded")


def _pod(name: str, container: Manifest, volumes: list[Manifest]) -> Manifest:
    security = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    spec = {
        "automountServiceAccountToken": False,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 1000,
            "fsGroup": 1000,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [{"name": "main", "securityContext": security, **container}],
        "volumes": volumes,
    }
    return _manifest("v1", "Pod", name, spec=spec)


def _manifest(version: str, kind: str, name: str, **fields: Any) -> Manifest:
    metadata = {"name": name, "labels": {"app": name}}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}
