"""A user's pod template, merged over the pod that the operator built, once for each role.

It is merged as `kubectl patch --type=strategic` does. Then two orders are restored: the program's
container is the first, and the operator's variables precede the user's, which may refer to them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from imagenet_operator.manifests import names
from imagenet_spec.errors import InvalidTemplate
from imagenet_spec.names import IMAGENET_CPUS
from imagenet_spec.resource.base import Manifest, copied
from imagenet_spec.resource.quantities import parse
from imagenet_spec.resource.templates import STANDARD, TemplateProfile, template_problems
from imagenet_spec.resource.templates.conflicts import items
from imagenet_spec.resource.templates.own_program import OwnProgram
from imagenet_spec.resource.templates.pod_validation import without_misspelled
from imagenet_spec.resource.templates.strategic_merge import POD_TEMPLATE, strategic_merge

THREADS = "OMP_NUM_THREADS"


def merge(
    built: Manifest,
    template: Mapping[str, Any] | None,
    path: str,
    own_program: OwnProgram = OwnProgram.NEVER,
    profile: TemplateProfile = STANDARD,
) -> Manifest:
    """Return the built PodTemplateSpec, merged with the user's.

    The first container of `built` is the program's. `path` is the template's field in the job.

    Raises:
        InvalidTemplate: The template is invalid, or sets a field that it may not set.
    """
    if template is None:
        return copied(built)
    for problem in template_problems(template, path, own_program, profile):
        raise InvalidTemplate(problem.path, f"{problem.message}; {problem.hint}")
    known = without_misspelled(template)
    merged = strategic_merge(built, known, POD_TEMPLATE, path)
    spec = merged["spec"]
    program = next(item for item in spec["containers"] if item["name"] == names.CONTAINER)
    # `kubectl logs` and observers use the first container; a merge puts the template's there.
    spec["containers"] = [program, *(item for item in spec["containers"] if item is not program)]
    # The built variables come first, in their order: `$(VAR)` refers only to earlier ones.
    order = [variable["name"] for variable in built["spec"]["containers"][0]["env"]]
    program["env"] = sorted(
        program["env"],
        key=lambda item: order.index(item["name"]) if item["name"] in order else len(order),
    )
    _limit_threads(program)
    return merged


def judge(spec: Manifest, path: str, *, gpu_resource: str | None, gated: bool) -> None:
    """Validate what depends on a whole merged pod, before what no template may remove is added.

    Otherwise the API server would reject the pod only after the preparation. `gpu_resource` is None
    if the pod has no GPU.

    Raises:
        InvalidTemplate: The pod cannot be created, or its template asks for GPUs.
    """
    volumes = sorted(name for name, _, _ in items(spec, "volumes", path))
    for field in ("containers", "initContainers"):
        for name, _, container in items(spec, field, path):
            for volume, _, mount in items(container, "volumeMounts", path):
                if volume not in volumes:
                    raise InvalidTemplate(
                        f"{path}.{field}[{name}].volumeMounts[{mount.get('mountPath')}].name",
                        f"there is no volume {json.dumps(volume)}; add it to {path}.volumes, or "
                        f"name one of {', '.join(volumes)}",
                    )
    resources = spec["containers"][0].get("resources") or {}
    for kind in ("limits", "requests"):
        if gpu_resource in (resources.get(kind) or ()):
            raise InvalidTemplate(
                f"{path}.containers[{names.CONTAINER}].resources.{kind}[{gpu_resource}]",
                "cannot be overridden: the operator counts GPUs; set gpus of the workers",
            )
    if gated and spec.get("nodeName"):
        raise InvalidTemplate(
            f"{path}.nodeName",
            "cannot be given with spec.runPolicy.schedulingPolicy.gang: Wait, since the scheduler "
            "does not hold back such a pod; write nodeSelector, or gang: Timeout",
        )


def part(parent: Manifest, name: str, kind: type = dict) -> Any:
    """Return a field of a merged pod, to which something is added; create it if it is missing."""
    if parent.get(name) is None:
        parent[name] = kind()
    return parent[name]


def quantity(container: Manifest, kind: str, name: str) -> Fraction | None:
    """Return an amount of a merged container's resources; None if there is none."""
    amount = ((container.get("resources") or {}).get(kind) or {}).get(name)
    return None if amount is None else parse(amount)


def _limit_threads(program: Manifest) -> None:
    """Set the threads to the container's CPU limit; without one to its request, its fair share.

    OpenMP and the programs would count the node's cores, which pods without a limit have in common.
    """
    cores = quantity(program, "limits", "cpu") or quantity(program, "requests", "cpu")
    if not cores:
        return
    given = {item["name"] for item in program["env"]}
    threads = {THREADS: math.floor(cores), IMAGENET_CPUS: math.ceil(cores)}
    program["env"] += [
        {"name": name, "value": str(max(1, number))}
        for name, number in threads.items()
        if name not in given
    ]
