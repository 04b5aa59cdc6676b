"""Kubeconfigs for tests: one context, one cluster, one user."""

import asyncio
import base64
from pathlib import Path
from typing import Any

import yaml

from imagenet_operator.clusters.kubernetes.login import Connection, from_kubeconfig

USER = "users[u].user"
OWN_KEY = "it takes a PEM certificate and the key of this certificate, without a passphrase"
NO_KUBECONFIG = "is not a kubeconfig with a current context: "


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


def token_of(connection: Connection) -> str | None:
    """The bearer token of the next request; None if it carries none."""
    headers = dict(asyncio.run(connection.credentials()).headers)
    return headers["Authorization"].removeprefix("Bearer ") if headers else None


class Clock:
    """Seconds that pass when a test says so.

    Attributes:
        now: The time.
    """

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        """The time."""
        return self.now


def used(path: Path) -> None:
    """Do with a kubeconfig what a client does before its first request."""
    asyncio.run(from_kubeconfig(path).credentials())
