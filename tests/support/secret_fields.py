"""Pod templates that name a Secret, one for each field of a pod that can.

Found in the table of a pod's fields (`pod_validation`), and in no other list of them.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from imagenet_spec.resource.templates.pod_fields import ROOT
from imagenet_spec.resource.templates.pod_validation import known_fields

NAME = "registry-login"

# The type of a field in the table → a value of it, whose text is a name.
_OF_SECRETS: dict[str, Any] = {
    "[LocalObjectReference]": [{"name": NAME}],
    "LocalObjectReference": {"name": NAME},
    "SecretKeySelector": {"name": NAME, "key": "password"},
    "SecretEnvSource": {"name": NAME},
    "SecretProjection": {"name": NAME},
    "SecretVolumeSource": {"secretName": NAME},
}
_NEEDED = {
    "Container": {"name": "main"},
    "EnvVar": {"name": "N"},
    "Volume": {"name": "v"},
    "CSIVolumeSource": {"driver": "csi.example.com"},
}
# No pod can be created with them.
_NEVER = {"ephemeralContainers", "azureFile", "cephfs", "cinder", "flexVolume"} | {
    "iscsi",
    "rbd",
    "scaleIO",
    "storageos",
}


def templates() -> dict[str, dict[str, Any]]:
    """Return the templates, by the path of the field, such as ``spec.imagePullSecrets``."""
    return {path.removeprefix("."): copy.deepcopy(value) for path, value in _within(ROOT)}


def _within(kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the path of each field that names a Secret, and an object of a kind with it."""
    for name, type_ in known_fields(kind).items():
        if "secret" in name.lower() and type_ in _OF_SECRETS:
            yield f".{name}", {**_NEEDED.get(kind, {}), name: _OF_SECRETS[type_]}
        elif name not in _NEVER and (child := type_.strip("[]"))[:1].isupper():
            is_list = type_.startswith("[")
            for path, value in _within(child):
                step = f".{name}[0]" if is_list else f".{name}"
                yield (
                    f"{step}{path}",
                    {**_NEEDED.get(kind, {}), name: [value] if is_list else value},
                )
