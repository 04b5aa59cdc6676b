"""An API server in this process, for what a real one does only on bad days.

As far as the operator uses one: collections with resource versions, lists in pages, watches with
bookmarks, preconditions, the status subresource, garbage collection. What a test wants to go wrong
it puts into `faults`; who asked for what stands in `requests`.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import json
import uuid
from bisect import bisect_right
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Self

from aiohttp import web

from imagenet_operator.clusters.kubernetes import kinds
from imagenet_operator.clusters.kubernetes.kinds import Kind
from support.merge_patch import merge

Manifest = dict[str, Any]
Name = tuple[str, str, str]
"""Kind, namespace and name."""


@dataclass(frozen=True)
class Request:
    """One request: verb as RBAC calls it, kind, subresource, namespace, name, and its body."""

    verb: str
    kind: str
    namespace: str
    name: str
    subresource: str = ""
    body: Manifest = field(default_factory=dict, compare=False)

    @property
    def resource(self) -> tuple[str, str]:
        """Group and resource as RBAC calls them, as in `kinds.VERBS`."""
        kind = kinds.BY_NAME[self.kind]
        return kind.group, "/".join(filter(None, (kind.plural, self.subresource)))


class Refusal(Exception):  # noqa: N818 - an answer
    """An answer that is no success.

    Attributes:
        code: The HTTP status.
        reason: The API server's word for it.
        details: What it says of the object, as the fields that are wrong.
        retry_after: In how many seconds it wants to be asked again; None if it does not say.
    """

    def __init__(
        self,
        code: int,
        reason: str,
        message: str = "",
        *,
        details: Manifest | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message or reason)
        self.code = code
        self.reason = reason
        self.details = details
        self.retry_after = retry_after

    def again(self) -> Refusal:
        """The same answer to another request."""
        return Refusal(
            self.code,
            self.reason,
            str(self),
            details=self.details,
            retry_after=self.retry_after,
        )

    def response(self) -> web.Response:
        """It as HTTP sends it."""
        status = {
            "kind": "Status",
            "code": self.code,
            "reason": self.reason,
            "message": str(self),
            **({} if self.details is None else {"details": self.details}),
        }
        headers = {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}
        return web.json_response(status, status=self.code, headers=headers)


def creates_a_pod(asked: Request) -> bool:
    """Whether a request does."""
    return (asked.verb, asked.kind) == ("create", "Pod")


def writes_status(asked: Request) -> bool:
    """Whether a request does, of a job."""
    return asked.subresource == "status"


Fault = Callable[[Request], Awaitable[None]]
"""Is awaited before a request is served; may raise `Refusal`, or take its time."""


class FakeApiServer:
    """Serves while it is entered.

    Attributes:
        objects: What is stored.
        bookmarks: How often `bookmark` was called.
        requests: Every request that was made, watches included.
        faults: Asked in turn before each request.
        verbs: What may be asked for: what the chart lets the operator do.
        url: Where it listens.
    """

    def __init__(self) -> None:
        self.objects: dict[Name, Manifest] = {}
        self.requests: list[Request] = []
        self.faults: list[Fault] = []
        self.verbs = dict(kinds.VERBS)
        self.url = ""
        self.version = 100
        self.oldest = 0
        self.bookmarks = 0
        self._failure: Manifest | None = None
        self._log: list[tuple[int, str, Manifest]] = []
        self._news = asyncio.Condition()
        self._streams: dict[int, asyncio.Transport] = {}
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.drop_watches()
        await self._runner.cleanup()

    # ------------------------------------------------------------------ the test's side

    def get(self, kind: str, name: str, namespace: str = "vision") -> Manifest | None:
        """A copy of an object."""
        return copy.deepcopy(self.objects.get((kind, namespace, name)))

    def all(self, kind: str) -> list[Manifest]:
        """Copies of all objects of a kind, by name."""
        return [
            copy.deepcopy(item) for name, item in sorted(self.objects.items()) if name[0] == kind
        ]

    async def add(self, manifest: Manifest) -> Manifest:
        """Store an object as if somebody else had created it."""
        return await self._create(copy.deepcopy(manifest))

    async def change(
        self, kind: str, name: str, edit: Callable[[Manifest], None], namespace: str = "vision"
    ) -> Manifest:
        """Change an object as if somebody else had."""
        stored = copy.deepcopy(self.objects[kind, namespace, name])
        before = copy.deepcopy(stored.get("spec"))
        edit(stored)
        if kind == kinds.JOB.name and stored.get("spec") != before:
            stored["metadata"]["generation"] += 1
        return await self._store("MODIFIED", stored)

    async def remove(self, kind: str, name: str, namespace: str = "vision") -> None:
        """End an object, and what it owns."""
        await self._remove(self.objects[kind, namespace, name])

    def refuse(
        self,
        answer: Refusal,
        when: Callable[[Request], bool] = lambda _: True,
        times: int | None = None,
    ) -> list[Request]:
        """Refuse such requests, the first ones or all.

        Args:
            answer: What they get.
            when: Which requests.
            times: How many of them; None for all.

        Returns:
            The requests that have been refused, as they come.
        """
        refused: list[Request] = []

        async def fault(asked: Request) -> None:
            if when(asked) and (times is None or len(refused) < times):
                refused.append(asked)
                raise answer.again()

        self.faults.append(fault)
        return refused

    async def expire(self) -> None:
        """Forget what happened up to now: whoever watches has to list again."""
        await self.announce("NONE", {"kind": "Nothing", "metadata": {}})
        self.oldest = self.version
        await self.drop_watches()

    async def fail_a_watch(self, status: Manifest) -> None:
        """Put an error into one watch, which ends with it."""
        self._failure = status
        await self.bookmark()

    async def announce(self, event: str, manifest: Manifest) -> None:
        """Tell the watches of something that no request has done."""
        await self._record(event, copy.deepcopy(manifest))

    async def drop_watches(self) -> None:
        """Cut every watch."""
        for transport in list(self._streams.values()):
            transport.abort()
        async with self._news:
            self._news.notify_all()

    def writes(self) -> list[Request]:
        """The requests that were to change something."""
        return [item for item in self.requests if item.verb not in ("get", "list", "watch")]

    def counts(self) -> Counter[tuple[str, str]]:
        """How often each verb was used on each kind."""
        return Counter((item.verb, item.kind) for item in self.requests)

    async def bookmark(self) -> None:
        """Tell every watch how far things are."""
        self.bookmarks += 1
        async with self._news:
            self._news.notify_all()

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until a condition on the stored objects holds."""
        async with self._news:
            while not condition():
                await self._news.wait()

    # ------------------------------------------------------------------ HTTP

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        parts = [part for part in request.path.split("/") if part]
        if (discovered := _discovery(parts)) is not None:
            return web.json_response(discovered)
        try:
            asked = await self._read(request, parts)
            self.requests.append(asked)
            if asked.verb not in self.verbs[asked.resource]:
                what = f"{asked.verb} {asked.resource[1]}"
                raise Refusal(403, "Forbidden", f"the operator may not {what}")
            for fault in list(self.faults):
                await fault(asked)
            return await self._answer(request, asked)
        except Refusal as refusal:
            return refusal.response()

    async def _read(self, request: web.Request, parts: list[str]) -> Request:
        rest = parts[2:] if parts[0] == "api" else parts[3:]
        namespace = ""
        if len(rest) > 2 and rest[0] == "namespaces":
            namespace, rest = rest[1], rest[2:]
        plural, name, subresource = (*rest, "", "")[:3]
        kind = next((kind for kind in kinds.BY_NAME.values() if kind.plural == plural), None)
        if kind is None or not request.path.startswith(kind.path()[: -len(plural)]):
            raise Refusal(404, "NotFound", f"no {request.path}")
        verb = {
            "GET": "get" if name else "list",
            "POST": "create",
            "PUT": "update",
            "PATCH": "patch",
            "DELETE": "delete",
        }[request.method]
        if request.query.get("watch") == "true":
            verb = "watch"
        body = await request.json() if request.can_read_body else {}
        return Request(verb, kind.name, namespace, name, subresource, body)

    async def _answer(self, request: web.Request, asked: Request) -> web.StreamResponse:
        kind = kinds.BY_NAME[asked.kind]
        match asked.verb:
            case "watch":
                return await self._watch(request, asked)
            case "list":
                return web.json_response(self._list(request, asked, kind))
            case "create":
                body = {**asked.body, "apiVersion": kind.api_version, "kind": kind.name}
                return web.json_response(await self._create(body), status=201)
            case "get":
                return web.json_response(self._find(asked))
            case "update":
                return web.json_response(await self._update_status(asked))
            case "patch":
                return web.json_response(await self._patch(asked))
            case _:
                return web.json_response(await self._delete(asked))

    def _list(self, request: web.Request, asked: Request, kind: Kind) -> Manifest:
        found = [
            item
            for name, item in sorted(self.objects.items())
            if name[0] == asked.kind and _is_selected(item, asked.namespace, request.query)
        ]
        begin = int(request.query.get("continue") or 0)
        limit = int(request.query.get("limit") or len(found) or 1)
        metadata = {"resourceVersion": str(self.version)}
        if begin + limit < len(found):
            metadata["continue"] = str(begin + limit)
        page = [_without_type(item) for item in found[begin : begin + limit]]
        if "PartialObjectMetadataList" in request.headers.get("Accept", ""):
            page = [{"metadata": item["metadata"]} for item in page]
        return {
            "apiVersion": kind.api_version,
            "kind": f"{kind.name}List",
            "metadata": metadata,
            "items": page,
        }

    async def _watch(self, request: web.Request, asked: Request) -> web.StreamResponse:
        since = int(request.query["resourceVersion"])
        if since < self.oldest:
            raise Refusal(410, "Expired", f"too old resource version: {since} ({self.oldest})")
        response = web.StreamResponse()
        await response.prepare(request)
        assert request.transport is not None
        self._streams[id(request)] = request.transport
        marked = -1
        with contextlib.suppress(ConnectionError):
            while not self._streams[id(request)].is_closing():
                for version, event, item in self._after(since):
                    since = version
                    if item["kind"] != asked.kind:
                        continue
                    if _is_selected(item, asked.namespace, request.query):
                        await response.write(_line(event, item))
                if self._failure is not None:
                    await response.write(_line("ERROR", self._failure))
                    self._failure = None
                    break
                if marked != self.bookmarks:
                    marked = self.bookmarks
                    mark = {"kind": asked.kind, "metadata": {"resourceVersion": str(since)}}
                    await response.write(_line("BOOKMARK", mark))
                async with self._news:
                    if self.version == since and marked == self.bookmarks:
                        await self._news.wait()
        del self._streams[id(request)]
        return response

    def _after(self, version: int) -> list[tuple[int, str, Manifest]]:
        return self._log[bisect_right(self._log, version, key=lambda entry: entry[0]) :]

    # ------------------------------------------------------------------ storage

    def _find(self, asked: Request) -> Manifest:
        found = self.objects.get((asked.kind, asked.namespace, asked.name))
        if found is None:
            raise Refusal(404, "NotFound", f'{asked.kind} "{asked.name}" not found')
        return copy.deepcopy(found)

    async def _create(self, manifest: Manifest) -> Manifest:
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
        return await self._store("ADDED", manifest)

    async def _update_status(self, asked: Request) -> Manifest:
        stored = self._find(asked)
        if asked.subresource != "status":
            raise Refusal(405, "MethodNotAllowed", "only the status is ever written")
        wanted = asked.body["metadata"]
        for field_name in ("uid", "resourceVersion"):
            if wanted.get(field_name, "") not in ("", stored["metadata"][field_name]):
                raise Refusal(409, "Conflict", "the object has been modified")
        stored["status"] = asked.body["status"]
        return await self._store("MODIFIED", stored)

    async def _patch(self, asked: Request) -> Manifest:
        stored = self._find(asked)
        uid = asked.body.get("metadata", {}).get("uid", stored["metadata"]["uid"])
        if uid != stored["metadata"]["uid"]:
            raise Refusal(422, "Invalid", f"metadata.uid: Invalid value: {uid}: field is immutable")
        merge(stored, asked.body)
        return await self._store("MODIFIED", stored)

    async def _delete(self, asked: Request) -> Manifest:
        stored = self._find(asked)
        options = asked.body
        assert options["propagationPolicy"] == "Background"
        if options["preconditions"]["uid"] != stored["metadata"]["uid"]:
            raise Refusal(409, "Conflict", "Precondition failed: UID in precondition")
        if asked.kind == "Pod" and stored["spec"].get("nodeName"):
            if "deletionTimestamp" in stored["metadata"]:
                return stored
            stored["metadata"]["deletionTimestamp"] = _now()
            return await self._store("MODIFIED", stored)
        await self._remove(stored)
        return {"kind": "Status", "status": "Success"}

    async def _remove(self, stored: Manifest) -> None:
        metadata = stored["metadata"]
        stored = self.objects.pop((stored["kind"], metadata.get("namespace", ""), metadata["name"]))
        await self._record("DELETED", copy.deepcopy(stored))
        for item in list(self.objects.values()):
            owners = item["metadata"].get("ownerReferences") or ()
            if any(owner["uid"] == metadata["uid"] for owner in owners):
                await self._remove(item)

    async def _store(self, event: str, manifest: Manifest) -> Manifest:
        metadata = manifest["metadata"]
        self.objects[manifest["kind"], metadata.get("namespace", ""), metadata["name"]] = manifest
        await self._record(event, manifest)
        return copy.deepcopy(manifest)

    async def _record(self, event: str, manifest: Manifest) -> None:
        self.version += 1
        manifest["metadata"]["resourceVersion"] = str(self.version)
        self._log.append((self.version, event, copy.deepcopy(manifest)))
        async with self._news:
            self._news.notify_all()


def _is_selected(item: Manifest, namespace: str, query: Any) -> bool:
    if namespace and item["metadata"].get("namespace") != namespace:
        return False
    carried = item["metadata"].get("labels") or {}
    for term in filter(None, query.get("labelSelector", "").split(",")):
        key, _, value = term.partition("=")
        if carried.get(key) != value:
            return False
    if query.get("fieldSelector"):
        ended = item["status"].get("phase") in ("Succeeded", "Failed")
        return bool(item["spec"].get("nodeName")) and not ended
    return True


def _line(event: str, item: Manifest) -> bytes:
    return json.dumps({"type": event, "object": item}).encode() + b"\n"


def _without_type(item: Manifest) -> Manifest:
    return {name: value for name, value in item.items() if name not in ("apiVersion", "kind")}


def _discovery(parts: list[str]) -> Manifest | None:
    """What kopf asks to find out what there is."""
    group, version = kinds.JOB.group, kinds.JOB.version
    named = {"groupVersion": f"{group}/{version}", "version": version}
    match parts:
        case ["api"]:
            return {"versions": ["v1"]}
        case ["apis"]:
            return {"groups": [{"name": group, "versions": [named], "preferredVersion": named}]}
        case ["api", "v1"]:
            return {"resources": [_resource("namespaces", "Namespace", namespaced=False)]}
        case ["apis", found, version_found] if (found, version_found) == (group, version):
            return {"resources": [_resource(kinds.JOB.plural, kinds.JOB.name)]}
    return None


def _resource(plural: str, kind: str, *, namespaced: bool = True) -> Manifest:
    return {
        "name": plural,
        "singularName": kind.lower(),
        "namespaced": namespaced,
        "kind": kind,
        "verbs": ["list", "watch"],
    }


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
