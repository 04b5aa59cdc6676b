"""What is worth keeping of an object: that which `observe`, the sampler and the capacity read.

A pod's JSON is 8 KB, most of it fields of whoever wrote it, environment and probes; of ten thousand
pods only a tenth of that can be kept. Trimming also tells which changes matter: one that leaves the
kept parts alone starts no pass.
"""

from typing import Any

from imagenet_operator.api.base import Manifest

_POD_SPEC = ("nodeName", "schedulingGates", "overhead")
_UNBOUND_POD_SPEC = ("tolerations",)
_POD_STATUS = ("phase", "reason", "message", "podIP", "conditions")
_CONTAINER = ("name", "resources", "ports")
_CONTAINER_STATUS = ("name", "state")
_ANNOTATIONS = "annotations"


def pod(manifest: Manifest) -> Manifest:
    """Return the parts of a pod that a pass reads."""
    spec, status = manifest["spec"], manifest.get("status", {})
    statuses = status.get("containerStatuses")
    return {
        "metadata": _metadata(manifest),
        "spec": {
            **_some(spec, _POD_SPEC),
            # Where a pod may go is asked only of one that is nowhere yet: of few, at any time.
            **({} if spec.get("nodeName") else _some(spec, _UNBOUND_POD_SPEC)),
            **{
                field: [_some(item, _CONTAINER) for item in spec[field]]
                for field in ("containers", "initContainers")
                if field in spec
            },
        },
        "status": {
            **_some(status, _POD_STATUS),
            **(
                {"containerStatuses": [_some(item, _CONTAINER_STATUS) for item in statuses]}
                if statuses
                else {}
            ),
        },
    }


def child(manifest: Manifest) -> Manifest:
    """Return any other child: they are few, and all of it may be of use."""
    return {**manifest, "metadata": _metadata(manifest)}


def job(manifest: Manifest) -> Manifest:
    """Return an ImageNetJob without what kubectl and the API server keep of its history."""
    return {**manifest, "metadata": _metadata(manifest)}


def node(manifest: Manifest) -> Manifest:
    """Return what says whether a node can be reached, and what it has for which pods."""
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
