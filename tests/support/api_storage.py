"""What the fake API server stores: objects, their versions, and the log that watches read.

As a real one does it: preconditions, the status subresource, garbage collection.
"""

from __future__ import annotations

import asyncio
import uuid
from bisect import bisect_right
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import orjson

from support.api_requests import Refusal, Request
from support.merge_patch import merge

Manifest = dict[str, Any]
Name = tuple[str, str, str]
"""Kind, namespace and name."""

Observer = Callable[[str, Manifest | None, Manifest], None]
"""Is called with an event, and the object before and after it."""


def copied(manifest: Manifest) -> Manifest:
    """Copy an object, as JSON does."""
    found: Manifest = orjson.loads(orjson.dumps(manifest))
    return found


class Storage:
    """Objects, and what happened to them.

    Attributes:
        objects: What is stored.
        version: The newest resource version.
        changed: Kind → the version at which an object of it last changed.
        oldest: The version that a watch may go back to.
        prune: Removes what the definition of an object's kind does not know.
        webhook: Changes an object before it is created.
        observers: Called with everything that happens, when it does.
        clock: The time.
        new_uid: Makes UIDs.
    """

    def __init__(self) -> None:
        self.objects: dict[Name, Manifest] = {}
        self.version = 100
        self.changed: dict[str, int] = {}
        self.oldest = 0
        self.prune: Callable[[Manifest], None] = lambda manifest: None
        self.webhook: Callable[[Manifest], None] = lambda manifest: None
        self.observers: list[Observer] = []
        self.clock: Callable[[], datetime] = lambda: datetime.now(UTC)
        self.new_uid: Callable[[], str] = lambda: str(uuid.uuid4())
        self._log: list[tuple[int, str, Manifest]] = []
        self._waiting: list[tuple[str, asyncio.Future[None]]] = []

    def find(self, asked: Request) -> Manifest:
        """A copy of the object that is asked for."""
        found = self.objects.get((asked.kind, asked.namespace, asked.name))
        if found is None:
            raise Refusal(404, "NotFound", f'{asked.kind} "{asked.name}" not found')
        return copied(found)

    def create(self, manifest: Manifest) -> Manifest:
        """Store an object that is not there yet."""
        metadata = manifest["metadata"]
        name = (manifest["kind"], metadata.get("namespace", ""), metadata["name"])
        if name in self.objects:
            raise Refusal(409, "AlreadyExists", f'{name[0]} "{name[2]}" already exists')
        self.webhook(manifest)
        metadata.setdefault("uid", self.new_uid())
        metadata["creationTimestamp"] = self.now()
        metadata["generation"] = 1
        if manifest["kind"] == "Pod":
            manifest["status"] = {"phase": "Pending", **manifest.get("status", {})}
        elif manifest["kind"] != "Node":
            manifest.setdefault("status", {})
        return self.store("ADDED", manifest)

    def update(self, asked: Request) -> Manifest:
        """Write a Lease, or the status of another object, if it is still the one that was read."""
        stored = self.find(asked)
        part = "status" if asked.subresource == "status" else "spec"
        if part == "spec" and asked.kind != "Lease":
            raise Refusal(405, "MethodNotAllowed", "only the status is ever written")
        wanted = asked.body["metadata"]
        for field_name in ("uid", "resourceVersion"):
            if wanted.get(field_name, "") not in ("", stored["metadata"][field_name]):
                raise Refusal(409, "Conflict", "the object has been modified")
        stored[part] = asked.body[part]
        return self.store("MODIFIED", stored)

    def patch(self, asked: Request) -> Manifest:
        """Merge a patch into an object."""
        stored = self.find(asked)
        uid = asked.body.get("metadata", {}).get("uid", stored["metadata"]["uid"])
        if uid != stored["metadata"]["uid"]:
            raise Refusal(422, "Invalid", f"metadata.uid: Invalid value: {uid}: field is immutable")
        merge(stored, asked.body)
        return self.store("MODIFIED", stored)

    def delete(self, asked: Request) -> Manifest:
        """Delete an object; a pod that is on a node only begins to go."""
        stored = self.find(asked)
        options = asked.body
        assert options["propagationPolicy"] == "Background"
        wanted = options.get("preconditions", {}).get("uid", stored["metadata"]["uid"])
        if wanted != stored["metadata"]["uid"]:
            raise Refusal(409, "Conflict", "Precondition failed: UID in precondition")
        if asked.kind == "Pod" and stored["spec"].get("nodeName"):
            if "deletionTimestamp" in stored["metadata"]:
                return stored
            stored["metadata"]["deletionTimestamp"] = self.now()
            return self.store("MODIFIED", stored)
        self.remove(stored)
        return {"kind": "Status", "status": "Success"}

    def remove(self, stored: Manifest) -> None:
        """End an object, and what it owns."""
        metadata = stored["metadata"]
        stored = self.objects.pop((stored["kind"], metadata.get("namespace", ""), metadata["name"]))
        self.record("DELETED", copied(stored))
        for item in list(self.objects.values()):
            owners = item["metadata"].get("ownerReferences") or ()
            if any(owner["uid"] == metadata["uid"] for owner in owners):
                self.remove(item)

    def store(self, event: str, manifest: Manifest) -> Manifest:
        """Store an object as it is now."""
        self.prune(manifest)
        metadata = manifest["metadata"]
        name = (manifest["kind"], metadata.get("namespace", ""), metadata["name"])
        before = self.objects.get(name)
        self.objects[name] = manifest
        self.record(event, manifest, before)
        return copied(manifest)

    def record(self, event: str, manifest: Manifest, before: Manifest | None = None) -> None:
        """Write into the log what has become of an object, at a new version."""
        self.version += 1
        self.changed[manifest["kind"]] = self.version
        manifest["metadata"]["resourceVersion"] = str(self.version)
        self._log.append((self.version, event, copied(manifest)))
        for observer in self.observers:
            observer(event, before, manifest)
        self.notify(manifest["kind"])

    def notify(self, kind: str = "") -> None:
        """Have every watch look again, or every watch of a kind."""
        waiting, self._waiting = self._waiting, []
        for wanted, future in waiting:
            if kind and wanted and wanted != kind:
                self._waiting.append((wanted, future))
            elif not future.done():
                future.set_result(None)

    async def news(self, kind: str = "") -> None:
        """Wait until a watch has something to look at; of a kind, if one is given."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((kind, future))
        await future

    def after(self, version: int) -> list[tuple[int, str, Manifest]]:
        """What happened after a version: version, event and object."""
        return self._log[bisect_right(self._log, version, key=lambda entry: entry[0]) :]

    def now(self) -> str:
        """The time, as objects have it."""
        return self.clock().strftime("%Y-%m-%dT%H:%M:%SZ")
