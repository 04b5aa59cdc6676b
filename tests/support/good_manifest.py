"""A good manifest, and the same with changes."""

from __future__ import annotations

import copy
from typing import Any

GOOD: dict[str, Any] = {
    "apiVersion": "imagenet.dev/v1alpha1",
    "kind": "ImageNetJob",
    "metadata": {"name": "digits"},
    "spec": {
        "dataset": {
            "source": {"volume": {"claimName": "raw", "path": "digits.tar"}},
            "volume": {"size": "10Gi"},
        },
        "training": {
            "strategy": {"parameterServer": {}},
            "model": {"network": "lenet", "imageShape": [1, 28, 28]},
            "batchSize": 128,
            "epochs": 10,
            "workers": {"replicas": 2},
        },
    },
}
TRAINING = "spec.training"


def changed(path: str, value: object) -> dict[str, Any]:
    """Return the good manifest with one field set."""
    document = copy.deepcopy(GOOD)
    *parents, last = path.split(".")
    node = document
    for name in parents:
        node = node.setdefault(name, {})
    node[last] = value
    return document
