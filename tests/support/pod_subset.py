"""The part of Kubernetes that both clusters have, as a check of one built pod.

A pod that passes can run as a process or in a container. So neither builders nor decisions depend
on the kind of cluster.
"""

import re
import tomllib
from pathlib import Path
from typing import Any

Manifest = dict[str, Any]

REPOSITORY = Path(__file__).parents[2]
REFERENCE = re.compile(r"\$\(([^)]*)\)")
OWN_FIELDS = {"POD_NAME": "metadata.name", "POD_IP": "status.podIP"}
PATH_VARIABLES = {
    "IMAGENET_CACHE",
    "IMAGENET_CREDENTIALS",
    "IMAGENET_START_CREDENTIALS",
    "IMAGENET_TRACKING_CREDENTIALS",
    "IMAGENET_DATA",
    "IMAGENET_OUTPUT",
    "IMAGENET_SCRATCH",
    "IMAGENET_SOURCE",
}
VOLUME_KINDS = {"emptyDir", "ephemeral", "persistentVolumeClaim", "secret"}
CONTAINER_FIELDS = {
    "args",
    "command",
    "env",
    "image",
    "imagePullPolicy",
    "name",
    "ports",
    "readinessProbe",
    "resources",
    "securityContext",
    "startupProbe",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "volumeMounts",
}


def console_scripts() -> dict[str, str]:
    """Return the console scripts that the workloads' distribution declares."""
    project = tomllib.loads((REPOSITORY / "workloads" / "pyproject.toml").read_text())["project"]
    scripts: dict[str, str] = project["scripts"]
    return scripts


def outside_subset(template: Manifest) -> list[str]:
    """Return what a PodTemplateSpec uses beyond the subset; empty when it is within."""
    spec = template["spec"]
    containers = spec["containers"]
    if len(containers) != 1 or spec.get("initContainers"):
        return ["more than one container"]
    container = containers[0]
    found = [f"field {name}" for name in container.keys() - CONTAINER_FIELDS]
    found += _command(container)
    found += _environment(container)
    found += _volumes(spec, container)
    if spec["restartPolicy"] != "Never":
        found.append(f"restartPolicy {spec['restartPolicy']}")
    return found


def _command(container: Manifest) -> list[str]:
    found = []
    if len(container["command"]) != 1 or container["command"][0] not in console_scripts():
        found.append(f"the command {container['command']} is no console script")
    known = {variable["name"] for variable in container["env"]}
    for argument in container["args"]:
        unknown = set(REFERENCE.findall(argument)) - known
        found += [f"{argument} refers to {name}, which is not set" for name in unknown]
        found += _path(f"argument {argument}", argument)
    return found


def _environment(container: Manifest) -> list[str]:
    found = []
    earlier: set[str] = set()
    mounted = {mount["mountPath"] for mount in container["volumeMounts"]}
    for variable in container["env"]:
        name = variable["name"]
        if name in earlier:
            found.append(f"{name} is set twice")
        if "valueFrom" in variable:
            if variable["valueFrom"] != {"fieldRef": {"fieldPath": OWN_FIELDS.get(name)}}:
                found.append(f"{name} is neither a literal nor the pod's own name or address")
        else:
            value = variable["value"]
            # Kubernetes leaves a reference to a later variable as it stands.
            late = set(REFERENCE.findall(value)) - earlier
            found += [f"{name} refers to {other}, which is not set before it" for other in late]
            if name in PATH_VARIABLES and not value.startswith("$("):
                if value not in mounted:
                    found.append(f"{name} is {value}, where nothing is mounted")
            elif value != container["terminationMessagePath"]:
                found += _path(f"variable {name}", value)
        earlier.add(name)
    return found


def _path(what: str, text: str) -> list[str]:
    """Refuse a path of the container's own; one below a variable is fine."""
    return [f"{what} is an absolute path"] if text.startswith("/") else []


def _volumes(spec: Manifest, container: Manifest) -> list[str]:
    found = [
        f"volume {volume['name']} is of another kind"
        for volume in spec["volumes"]
        if len(volume.keys() & VOLUME_KINDS) != 1
    ]
    volumes = {volume["name"] for volume in spec["volumes"]}
    mounts = {mount["name"] for mount in container["volumeMounts"]}
    found += [f"volume {name} is mounted but not there" for name in mounts - volumes]
    found += [f"volume {name} is there but not mounted" for name in volumes - mounts]
    return found
