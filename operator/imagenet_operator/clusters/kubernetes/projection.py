"""The parts of an object that `cache` keeps: those that `observe`, sampler and capacity read.

A pod's JSON is 8 KB, most of it managed fields, environment and probes. With ten thousand pods only
a tenth of that fits into memory. A change outside the kept parts starts no reconcile.
"""

from typing import Any, Final

import orjson

from imagenet_operator.api.base import Manifest

_POD_SPEC = ("nodeName", "schedulingGates", "overhead", "resources")
_POD_STATUS = ("phase", "reason", "message", "podIP", "conditions")
_CHILD_SPEC = ("suspend", "completions", "accessModes", "storageClassName")
_CHILD_STATUS = ("active", "succeeded", "failed", "conditions", "phase")
_CONTAINER = ("name", "resources", "ports", "restartPolicy")
_CONTAINER_STATUS = ("name", "state")
_STATUSES = ("containerStatuses", "initContainerStatuses")
_ANNOTATIONS = "annotations"
_IDENTITY = (
    *("name", "namespace", "uid", "resourceVersion"),
    *("generation", "creationTimestamp", "deletionTimestamp"),
)

JOB_BYTES: Final = 262_144
"""The limit of a job without its status, which is that of `kubectl apply`."""

OMITTED_BYTES: Final = "omittedBytes"
"""The field of a job that is too large: its size. No job of the API server has such a field."""


def pod(manifest: Manifest) -> Manifest:
    """Return the parts of a pod that a reconcile reads."""
    spec, status = manifest["spec"], manifest.get("status", {})
    # What an init container waits for is read only before the others start.
    statuses = _STATUSES if status.get("phase") == "Pending" else _STATUSES[:1]
    return {
        "metadata": _metadata(manifest),
        "spec": {
            **_some(spec, _POD_SPEC),
            # Only pods without a node need these fields, and such pods are few at any time.
            **({} if spec.get("nodeName") else _unbound(spec)),
            **{
                field: [_some(item, _CONTAINER) for item in spec[field]]
                for field in ("containers", "initContainers")
                if field in spec
            },
        },
        "status": {
            **_some(status, _POD_STATUS),
            **{
                field: [_some(item, _CONTAINER_STATUS) for item in status[field]]
                for field in statuses
                if status.get(field)
            },
        },
    }


def _unbound(spec: Manifest) -> Manifest:
    """Return what decides about a pod's node: its tolerations, and the volumes with claims."""
    volumes = [
        {"name": item["name"], **_some(item, ("persistentVolumeClaim",))}
        | ({"ephemeral": {}} if "ephemeral" in item else {})
        for item in spec.get("volumes") or ()
        if "persistentVolumeClaim" in item or "ephemeral" in item
    ]
    return {**_some(spec, ("tolerations",)), **({"volumes": volumes} if volumes else {})}


def may_debounce(manifest: Manifest) -> bool:
    """Return whether an event of a pod may be debounced.

    A starting pod changes several times, and the pods of a gang start together. A reconcile for
    every change would write a status each time, which is expensive: the API server validates the
    whole job. A pod that ends, is deleted or is gated is reconciled at once, and so is one with a
    container that has failed: the kubelet reports the end of its pod a second later.
    """
    status = manifest.get("status", {})
    return (
        status.get("phase") in ("Pending", "Running")
        and not any(_has_failed(item) for item in status.get("containerStatuses") or ())
        and "deletionTimestamp" not in manifest["metadata"]
        and not manifest["spec"].get("schedulingGates")
    )


def _has_failed(container_status: Manifest) -> bool:
    terminated = container_status.get("state", {}).get("terminated") or {}
    return bool(terminated.get("exitCode", 0))


def child(manifest: Manifest) -> Manifest:
    """Return the parts of any other child that a reconcile reads: its identity and its state."""
    return {
        "metadata": _metadata(manifest),
        "spec": _some(manifest.get("spec") or {}, _CHILD_SPEC),
        "status": _some(manifest.get("status") or {}, _CHILD_STATUS),
    }


def job(manifest: Manifest) -> Manifest:
    """Return an ImageNetJob without annotations and managed fields.

    A user may create many that are too large, so of their spec only `runPolicy` is kept.
    """
    kept = {**manifest, "metadata": _metadata(manifest)}
    size = len(orjson.dumps([kept["metadata"], manifest.get("spec")]))
    if size <= JOB_BYTES:
        return kept
    return {
        **kept,
        "metadata": _some(manifest["metadata"], _IDENTITY),
        "spec": _some(manifest["spec"], ("runPolicy",)),
        OMITTED_BYTES: size,
    }


def node(manifest: Manifest) -> Manifest:
    """Return a node's readiness, taints and allocatable resources."""
    spec, status = manifest.get("spec", {}), manifest.get("status", {})
    ready = [
        _some(item, ("type", "status"))
        for item in status.get("conditions") or ()
        if item["type"] == "Ready"
    ]
    return {
        "metadata": {
            name: manifest["metadata"][name] for name in ("name", "uid", "resourceVersion")
        },
        "spec": _some(spec, ("unschedulable", "taints")),
        "status": {"conditions": ready, **_some(status, ("allocatable",))},
    }


def _metadata(manifest: Manifest) -> Manifest:
    kept = {name: value for name, value in manifest["metadata"].items() if name != _ANNOTATIONS}
    kept.pop("managedFields", None)
    return kept


def _some(fields: Manifest, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: fields[name] for name in names if name in fields}
