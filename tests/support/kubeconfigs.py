"""Kubeconfigs for tests: one context, one cluster, one user."""

import base64
from pathlib import Path
from typing import Any

import yaml


def kubeconfig(folder: Path, cluster: dict[str, Any], user: dict[str, Any]) -> Path:
    """Write one in a folder, with these fields of the cluster and of the user."""
    path = folder / "config"
    document = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:6443/", **cluster}}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(yaml.safe_dump(document))
    return path


def encoded(text: str) -> str:
    """What a field holds whose name ends in ``-data``."""
    return base64.b64encode(text.encode()).decode()
