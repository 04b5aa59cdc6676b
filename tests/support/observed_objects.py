"""Objects as the API server returns them, for tests of what the operator observes."""

from __future__ import annotations

from typing import Any

from support.job_table import JOBS

Manifest = dict[str, Any]

JOB = JOBS["gpus"]
OUT_OF_MEMORY = {"exitCode": 137, "reason": "OOMKilled", "message": "the last line of the log"}


def living(manifest: Manifest, status: Manifest | None = None, **metadata: Any) -> Manifest:
    """Return a manifest as the API server returns it: with a UID and a status."""
    name = manifest["metadata"]["name"]
    return {
        **manifest,
        "metadata": {**manifest["metadata"], "uid": f"uid-of-{name}", **metadata},
        "status": status or {},
    }


def state(**main: Manifest) -> Manifest:
    """Return the status of a pod by the state of its container `main`."""
    return {"containerStatuses": [{"name": "main", "state": main}]}


def condition(kind: str, status: str = "True", **fields: str) -> Manifest:
    """Return a status with one condition."""
    return {"conditions": [{"type": kind, "status": status, **fields}]}


def ended(code: int, message: str | None = None, finished: str | None = None) -> Manifest:
    """Return the state of a container that ended with this exit code."""
    fields = {"exitCode": code, "message": message, "finishedAt": finished, "reason": "Error"}
    return {name: value for name, value in fields.items() if value is not None}
