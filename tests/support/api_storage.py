"""What the fake API server stores: objects, their versions, and the log that watches read.

As a real one does it: preconditions, the status subresource, garbage collection.
"""

from __future__ import annotations

import asyncio
import copy
import uuid
from bisect import bisect_right
from datetime import UTC, datetime
from typing import Any

from support.api_requests import Refusal, Request
from support.merge_patch import merge

Manifest = dict[str, Any]
Name = tuple[str, str, str]
"""Kind, namespace and name."""


class Storage:
    """Objects, and what happened to them.

    Attributes:
        objects: What is stored.
        version: The newest resource version.
        oldest: The version that a watch may go back to.
        news: Is notified whenever a watch has something to look at.
    """

    def __init__(self) -> None:
        self.objects: dict[Name, Manifest] = {}
        self.version = 100
        self.oldest = 0
        self.news = asyncio.Condition()
        self._log: list[tuple[int, str, Manifest]] = []

    def find(self, asked: Request) -> Manifest:
        """A copy of the object that is asked for."""
        found = self.objects.get((asked.kind, asked.namespace, asked.name))
        if found is None:
            raise Refusal(404, "NotFound", f'{asked.kind} "{asked.name}" not found')
        return copy.deepcopy(found)

    async def create(self, manifest: Manifest) -> Manifest:
        """Store an object that is not there yet."""
        metadata = manifest["metadata"]
        name = (manifest["kind"], metadata.get("namespace", ""), metadata["name"])
        if name in self.objects:
            raise Refusal(409, "AlreadyExists", f'{name[0]} "{name[2]}" already exists')
        metadata.setdefault("uid", str(uuid.uuid4()))
        metadata["creationTimestamp"] = _now()
        metadata["generation"] = 1
        if manifest["kind"] == "Pod":
            manifest["status"] = {"phase": "Pending", **manifest.get("status", {})}
        elif manifest["kind"] != "Node":
            manifest.setdefault("status", {})
        return await self.store("ADDED", manifest)

    async def update_status(self, asked: Request) -> Manifest:
        """Write the status of an object, if it is still the one that was read."""
        stored = self.find(asked)
        if asked.subresource != "status":
            raise Refusal(405, "MethodNotAllowed", "only the status is ever written")
        wanted = asked.body["metadata"]
        for field_name in ("uid", "resourceVersion"):
            if wanted.get(field_name, "") not in ("", stored["metadata"][field_name]):
                raise Refusal(409, "Conflict", "the object has been modified")
        stored["status"] = asked.body["status"]
        return await self.store("MODIFIED", stored)

    async def patch(self, asked: Request) -> Manifest:
        """Merge a patch into an object."""
        stored = self.find(asked)
        uid = asked.body.get("metadata", {}).get("uid", stored["metadata"]["uid"])
        if uid != stored["metadata"]["uid"]:
            raise Refusal(422, "Invalid", f"metadata.uid: Invalid value: {uid}: field is immutable")
        merge(stored, asked.body)
        return await self.store("MODIFIED", stored)

    async def delete(self, asked: Request) -> Manifest:
        """Delete an object; a pod that is on a node only begins to go."""
        stored = self.find(asked)
        options = asked.body
        assert options["propagationPolicy"] == "Background"
        if options["preconditions"]["uid"] != stored["metadata"]["uid"]:
            raise Refusal(409, "Conflict", "Precondition failed: UID in precondition")
        if asked.kind == "Pod" and stored["spec"].get("nodeName"):
            if "deletionTimestamp" in stored["metadata"]:
                return stored
            stored["metadata"]["deletionTimestamp"] = _now()
            return await self.store("MODIFIED", stored)
        await self.remove(stored)
        return {"kind": "Status", "status": "Success"}

    async def remove(self, stored: Manifest) -> None:
        """End an object, and what it owns."""
        metadata = stored["metadata"]
        stored = self.objects.pop((stored["kind"], metadata.get("namespace", ""), metadata["name"]))
        await self.record("DELETED", copy.deepcopy(stored))
        for item in list(self.objects.values()):
            owners = item["metadata"].get("ownerReferences") or ()
            if any(owner["uid"] == metadata["uid"] for owner in owners):
                await self.remove(item)

    async def store(self, event: str, manifest: Manifest) -> Manifest:
        """Store an object as it is now."""
        metadata = manifest["metadata"]
        self.objects[manifest["kind"], metadata.get("namespace", ""), metadata["name"]] = manifest
        await self.record(event, manifest)
        return copy.deepcopy(manifest)

    async def record(self, event: str, manifest: Manifest) -> None:
        """Write into the log what has become of an object, at a new version."""
        self.version += 1
        manifest["metadata"]["resourceVersion"] = str(self.version)
        self._log.append((self.version, event, copy.deepcopy(manifest)))
        await self.notify()

    async def notify(self) -> None:
        """Have every watch look again."""
        async with self.news:
            self.news.notify_all()

    def after(self, version: int) -> list[tuple[int, str, Manifest]]:
        """What happened after a version: version, event and object."""
        return self._log[bisect_right(self._log, version, key=lambda entry: entry[0]) :]


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
