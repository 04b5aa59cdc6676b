"""A user's pod template, merged over the pod that the operator built.

The last step of every pod that `pod` builds: fields that are the operator's own are refused
(`api.templates` lists them), the rest is merged as `kubectl patch --type=strategic` would. Two
orders, which mean little to Kubernetes, are then put right: the program's container stays the
first, and the operator's variables stand before the user's, which may so refer to them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from imagenet_operator.api.base import Manifest, copied
from imagenet_operator.api.quantities import parse
from imagenet_operator.api.templates.conflicts import items
from imagenet_operator.api.templates.own_program import OwnProgram
from imagenet_operator.api.templates.owned_fields import owned_field_conflicts
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
        InvalidTemplate: The template overrides a field that is the operator's, or has no meaning.
    """
    if template is None:
        return copied(built)
    for problem in owned_field_conflicts(template, path, own_program):
        raise InvalidTemplate(problem.path, f"{problem.message}; {problem.hint}")
    merged = strategic_merge(built, template, POD_TEMPLATE, path)
    spec = merged["spec"]
    program = next(item for item in spec["containers"] if item["name"] == names.CONTAINER)
    # Observers and `kubectl logs` look at the first; a merge puts what only the template has there.
    spec["containers"] = [program, *(item for item in spec["containers"] if item is not program)]
    program["env"] = _operators_first(program["env"], built["spec"]["containers"][0]["env"])
    _limit_threads(program, f"{path}.spec.containers[{names.CONTAINER}]")
    _check_mounts(spec, f"{path}.spec")
    return merged


def part(parent: Manifest, name: str, path: str, kind: type = dict) -> Any:
    """Return a field of a merged pod to add something to; an empty one where there is none.

    Raises:
        InvalidTemplate: The template has put something of another kind there.
    """
    if parent.get(name) is None:
        parent[name] = kind()
    if not isinstance(parent[name], kind):
        raise InvalidTemplate(
            f"{path}.{name}", f"must be {'an object' if kind is dict else 'a list'}"
        )
    return parent[name]


def quantity(container: Manifest, kind: str, name: str, path: str) -> Fraction | None:
    """Return an amount among a merged container's resources; None where it gives none.

    Args:
        container: The container.
        kind: limits or requests.
        name: The resource.
        path: Where the container stands.

    Raises:
        InvalidTemplate: The template has put something there that is no quantity.
    """
    resources = part({**container}, "resources", path)
    amounts = part({**resources}, kind, f"{path}.resources")
    if amounts.get(name) is None:
        return None
    try:
        return parse(amounts[name])
    except ValueError as error:
        raise InvalidTemplate(f"{path}.resources.{kind}.{name}", str(error)) from None


def _check_mounts(spec: Manifest, path: str) -> None:
    """Refuse mounts of volumes that this pod does not have: the API server would, hours later."""
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


def _operators_first(merged: list[Manifest], built: list[Manifest]) -> list[Manifest]:
    """Put the variables that were built first, in their order: `$(VAR)` looks only backwards."""
    order = [variable["name"] for variable in built]
    return sorted(
        merged,
        key=lambda item: order.index(item["name"]) if item["name"] in order else len(order),
    )


def _limit_threads(program: Manifest, path: str) -> None:
    """Tell OpenMP how many cores the container may use; it would count the node's otherwise."""
    if any(item["name"] == THREADS for item in program["env"]):
        return
    cores = quantity(program, "limits", "cpu", path)
    if cores is not None:
        program["env"].append({"name": THREADS, "value": str(max(1, math.floor(cores)))})
