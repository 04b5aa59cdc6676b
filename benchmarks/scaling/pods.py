"""The job that is measured on kind, and its worker as a plain pod: pure."""

import copy
from typing import Any

from benchmarks.scaling.jobs import point

from imagenet_operator.manifests import names
from imagenet_spec.names import IMAGENET_OUTPUT, IMAGENET_RESULTS

Manifest = dict[str, Any]

BARE_POD = "bare"


def job(
    name: str, epochs: int, threads: int, strategy: str = "single", workers: int = 1
) -> Manifest:
    """A job whose workers train with so many threads each."""
    manifest = point(strategy, workers, epochs, name).manifest
    container = {
        "name": names.CONTAINER,
        "env": [{"name": "OMP_NUM_THREADS", "value": str(threads)}],
        # No limit: it would add the kernel's own accounting of it to what is measured.
        "resources": {"requests": {"cpu": "1"}},
    }
    template = {"spec": {"containers": [container]}}
    training = manifest["spec"]["training"] | {
        "workers": {"replicas": workers, "template": template}
    }
    return manifest | {"spec": manifest["spec"] | {"training": training}}


def bare_pod(worker: Manifest, name: str) -> Manifest:
    """A plain pod that does what a job's worker has done, on the same node.

    The operator does not know it, so it has no sampler and no probe. It writes to a
    separate folder, without a checkpoint to resume from.

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
        if variable["name"] == IMAGENET_RESULTS:
            variable["value"] = f"$({IMAGENET_OUTPUT})/{folder(name)}"
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def folder(name: str) -> str:
    """Where on the volume a pod that `bare_pod` makes writes to."""
    return f"{BARE_POD}/{name}"
