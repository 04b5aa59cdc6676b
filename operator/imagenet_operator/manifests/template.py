"""A user's pod template, merged over the pod that the operator built.

`pod` calls this once for each role. `api.templates` judges the template as the job has it. The
rest is merged as `kubectl patch --type=strategic` does. Two orders, which mean little to
Kubernetes, are then restored: the program's container comes first, and the operator's variables
come before the user's, which may refer to them. `judge` judges the merged pod; no other function
does.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from imagenet_operator.api.base import Manifest, copied
from imagenet_operator.api.quantities import parse
from imagenet_operator.api.templates import template_problems
from imagenet_operator.api.templates.conflicts import items
from imagenet_operator.api.templates.own_program import OwnProgram
from imagenet_operator.api.templates.strategic_merge import POD_TEMPLATE, strategic_merge
from imagenet_operator.errors import InvalidTemplate
from imagenet_operator.manifests import names

THREADS = "OMP_NUM_THREADS"


def merge(
    built: Manifest,
    template: Mapping[str, Any] | None,
    path: str,
    own_program: OwnProgram = OwnProgram.NEVER,
) -> Manifest:
    """Return the built PodTemplateSpec with a user's merged over it.

    Args:
        built: A PodTemplateSpec whose first container is the program's; not changed.
        template: The user's, as the job has it; None for none.
        path: Where that stands in the job, such as ``spec.training.workers.template``.
        own_program: Whether the template may bring a program of its own.

    Raises:
        InvalidTemplate: The template overrides a field that is the operator's, or makes no pod.
    """
    if template is None:
        return copied(built)
    for problem in template_problems(template, path, own_program):
        raise InvalidTemplate(problem.path, f"{problem.message}; {problem.hint}")
    merged = strategic_merge(built, template, POD_TEMPLATE, path)
    spec = merged["spec"]
    program = next(item for item in spec["containers"] if item["name"] == names.CONTAINER)
    # Observers and `kubectl logs` look at the first; a merge puts what only the template has there.
    spec["containers"] = [program, *(item for item in spec["containers"] if item is not program)]
    program["env"] = _operators_first(program["env"], built["spec"]["containers"][0]["env"])
    _limit_threads(program)
    return merged


def judge(spec: Manifest, path: str, *, gpu_resource: str | None, gated: bool) -> None:
    """Judge the spec of a merged pod, before the operator adds what no template may remove.

    What a template says alone is judged before the merge. Here is what only the whole pod shows:
    without this the API server would refuse it after the preparation, or two parts would conflict.

    Args:
        spec: The merged pod's.
        path: The template's ``spec`` in the job.
        gpu_resource: The resource that the operator will add; None if the pod has no GPU.
        gated: Whether the operator will add a scheduling gate.

    Raises:
        InvalidTemplate: The pod cannot be created, or its template asks for GPUs.
    """
    for place, message in (
        *_unknown_mounts(spec, path),
        *_counted_gpus(spec["containers"][0], path, gpu_resource),
        *_gated_node(spec, path, gated),
    ):
        raise InvalidTemplate(place, message)


def part(parent: Manifest, name: str, kind: type = dict) -> Any:
    """Return a field of a merged pod to add something to; an empty one if there is none."""
    if parent.get(name) is None:
        parent[name] = kind()
    return parent[name]


def quantity(container: Manifest, kind: str, name: str) -> Fraction | None:
    """Return an amount of a merged container's resources; None if it gives none.

    Args:
        container: The container.
        kind: limits or requests.
        name: The resource.
    """
    amount = ((container.get("resources") or {}).get(kind) or {}).get(name)
    return None if amount is None else parse(amount)


def _unknown_mounts(spec: Manifest, path: str) -> Iterator[tuple[str, str]]:
    """Yield mounts of volumes that this pod does not have."""
    volumes = sorted(name for name, _, _ in items(spec, "volumes", path))
    for field in ("containers", "initContainers"):
        for name, _, container in items(spec, field, path):
            for volume, _, mount in items(container, "volumeMounts", path):
                if volume not in volumes:
                    yield (
                        f"{path}.{field}[{name}].volumeMounts[{mount.get('mountPath')}].name",
                        f"there is no volume {json.dumps(volume)}; add it to {path}.volumes, or "
                        f"name one of {', '.join(volumes)}",
                    )


def _counted_gpus(
    program: Manifest, path: str, gpu_resource: str | None
) -> Iterator[tuple[str, str]]:
    """Yield amounts of the resource that the operator adds, whatever its name."""
    resources = program.get("resources") or {}
    for kind in ("limits", "requests"):
        if gpu_resource in (resources.get(kind) or ()):
            yield (
                f"{path}.containers[{names.CONTAINER}].resources.{kind}[{gpu_resource}]",
                "cannot be overridden: the operator counts GPUs; set gpus of the workers",
            )


def _gated_node(spec: Manifest, path: str, gated: bool) -> Iterator[tuple[str, str]]:
    """Yield a node that is given to a pod with a gate: the API server takes no such pod."""
    if gated and spec.get("nodeName"):
        yield (
            f"{path}.nodeName",
            "cannot be given with spec.runPolicy.schedulingPolicy.gang: Wait, since the scheduler "
            "does not hold back such a pod; write nodeSelector, or gang: Timeout",
        )


def _operators_first(merged: list[Manifest], built: list[Manifest]) -> list[Manifest]:
    """Put the variables that were built first, in their order: `$(VAR)` looks only backwards."""
    order = [variable["name"] for variable in built]
    return sorted(
        merged,
        key=lambda item: order.index(item["name"]) if item["name"] in order else len(order),
    )


def _limit_threads(program: Manifest) -> None:
    """Tell OpenMP how many cores the container may use; it would count the node's otherwise."""
    if any(item["name"] == THREADS for item in program["env"]):
        return
    cores = quantity(program, "limits", "cpu")
    if cores is not None:
        program["env"].append({"name": THREADS, "value": str(max(1, math.floor(cores)))})
