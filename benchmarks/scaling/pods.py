"""The job that is measured on kind, and its worker as a pod of nobody's: pure."""

import copy
from typing import Any

from benchmarks.scaling.jobs import point

from imagenet_operator.manifests import names
from imagenet_operator.manifests.volumes import OUTPUT, RESULTS

Manifest = dict[str, Any]

BY_HAND = "by-hand"


def job(name: str, epochs: int, threads: int) -> Manifest:
    """A job of one worker that trains with so many threads."""
    manifest = point("single", 1, epochs, name).manifest
    container = {
        "name": names.CONTAINER,
        "env": [{"name": "OMP_NUM_THREADS", "value": str(threads)}],
        # No limit: it would add the kernel's own accounting of it to what is measured.
        "resources": {"requests": {"cpu": "1"}},
    }
    template = {"spec": {"containers": [container]}}
    training = manifest["spec"]["training"] | {"workers": {"replicas": 1, "template": template}}
    return manifest | {"spec": manifest["spec"] | {"training": training}}


def by_hand(worker: Manifest, name: str) -> Manifest:
    """A plain pod that does what a job's worker has done, on the same node.

    The operator does not know it, so nobody looks at it: no sampler, no probe. It writes to a
    folder of its own, where no checkpoint is that it could go on from.

    Args:
        worker: the job's pod, as the API server has it.
        name: of the new one.
    """
    spec = copy.deepcopy(worker["spec"])
    # By these the job's pods find one another; this one is alone.
    for field in ("hostname", "subdomain"):
        spec.pop(field, None)
    (container,) = spec["containers"]
    container.pop("readinessProbe", None)
    for variable in container["env"]:
        if variable["name"] == RESULTS:
            variable["value"] = f"$({OUTPUT})/{folder(name)}"
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def folder(name: str) -> str:
    """Where on the volume a pod that `by_hand` makes writes to."""
    return f"{BY_HAND}/{name}"
