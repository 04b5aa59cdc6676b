"""A user's pod template, merged over the pod that the operator built.

The last step of every pod that `pod` builds: fields that are the operator's own are refused
(`api.templates` lists them), the rest is merged as `kubectl patch --type=strategic` would, and
what follows from the result, such as the number of threads, is filled in.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import Any

from imagenet_operator.api.base import Manifest
from imagenet_operator.api.quantities import parse
from imagenet_operator.api.templates import owned_field_conflicts
from imagenet_operator.errors import InvalidTemplate
from imagenet_operator.manifests import names
from imagenet_operator.manifests.strategic import POD_TEMPLATE, strategic_merge

THREADS = "OMP_NUM_THREADS"


def merge(built: Manifest, template: Mapping[str, Any] | None, path: str) -> Manifest:
    """Return the built PodTemplateSpec with a user's merged over it.

    Args:
        built: A PodTemplateSpec with the program's container; not changed.
        template: The user's, as the job has it; None for none.
        path: Where that stands in the job, such as ``spec.training.workers.template``.

    Raises:
        InvalidTemplate: The template overrides a field that is the operator's, or has no meaning.
    """
    if template is None:
        return copy.deepcopy(built)
    for problem in owned_field_conflicts(template, path):
        raise InvalidTemplate(problem.path, problem.message)
    merged = strategic_merge(built, template, POD_TEMPLATE, path)
    spec = merged["spec"]
    program = _program(spec, path)
    # A container that only the template has comes first in a merge. The program's stays the first:
    # observers and `kubectl logs` look there.
    spec["containers"] = [program, *(item for item in spec["containers"] if item is not program)]
    _limit_threads(program, f"{path}.spec.containers")
    return merged


def _program(spec: Manifest, path: str) -> Manifest:
    for container in spec.get("containers") or ():
        if container.get("name") == names.CONTAINER:
            found: Manifest = container
            return found
    raise InvalidTemplate(
        f"{path}.spec.containers",
        f"removes the container {names.CONTAINER}, which runs the program; keep it",
    )


def _limit_threads(program: Manifest, path: str) -> None:
    """Tell OpenMP how many cores the container may use; it would count the node's otherwise."""
    limit = ((program.get("resources") or {}).get("limits") or {}).get("cpu")
    if limit is None or any(variable["name"] == THREADS for variable in program["env"]):
        return
    try:
        cores = parse(limit)
    except ValueError as error:
        raise InvalidTemplate(
            f"{path}[{names.CONTAINER}].resources.limits.cpu", str(error)
        ) from None
    program["env"].append({"name": THREADS, "value": str(max(1, math.floor(cores)))})
