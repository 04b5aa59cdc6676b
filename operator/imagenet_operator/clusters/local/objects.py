"""The objects of a local cluster, in memory: a minimal API server.

`cluster` creates and deletes objects; `jobs` and `kubelet` update their status. Objects are not
persisted.
"""

import uuid
from datetime import UTC, datetime

from imagenet_operator.clusters.interface import AlreadyExists
from imagenet_operator.manifests import labels
from imagenet_spec.resource import Manifest


def timestamp(now: datetime) -> str:
    """Format a time as Kubernetes does, in seconds."""
    return now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def is_ending(item: Manifest) -> bool:
    """Whether the object is being deleted."""
    return "deletionTimestamp" in item["metadata"]


def is_terminal(pod: Manifest) -> bool:
    """Whether a pod has succeeded or failed."""
    return pod["status"]["phase"] in ("Succeeded", "Failed")


class Objects:
    """Objects by kind and name, oldest first: the objects themselves, not copies."""

    def __init__(self) -> None:
        self._items: dict[tuple[str, str], Manifest] = {}

    def add(self, manifest: Manifest, now: datetime) -> Manifest:
        """Store a manifest with a new UID; raise AlreadyExists if its name is taken."""
        key = manifest["kind"], manifest["metadata"]["name"]
        if key in self._items:
            raise AlreadyExists(*key)
        metadata = {
            **manifest["metadata"],
            "uid": str(uuid.uuid4()),
            "creationTimestamp": timestamp(now),
        }
        item = {**manifest, "metadata": metadata, "status": {}}
        self._items[key] = item
        return item

    def get(self, kind: str, name: str) -> Manifest | None:
        return self._items.get((kind, name))

    def kind(self, kind: str) -> list[Manifest]:
        return [item for (found, _), item in self._items.items() if found == kind]

    def owned_by(self, uid: str) -> list[Manifest]:
        """Return the objects whose controller has this UID."""
        return [item for item in self._items.values() if labels.owner_uid(item) == uid]

    def all(self) -> list[Manifest]:
        return list(self._items.values())

    def remove(self, item: Manifest) -> None:
        del self._items[item["kind"], item["metadata"]["name"]]
