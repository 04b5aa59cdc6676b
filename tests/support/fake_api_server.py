"""An API server in this process, for what a real one does only on bad days.

As far as the operator uses one: collections with resource versions, lists in pages, watches with
bookmarks, preconditions, the status subresource, garbage collection. What a test wants to go wrong
it puts into `faults`; who asked for what stands in `requests`. This is the HTTP side and the test's
side of it; what is stored, and by which rules, is `Storage`.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import orjson
from aiohttp import web

from imagenet_operator.clusters.kubernetes import objects
from imagenet_operator.clusters.kubernetes.objects import Kind
from support import crd_evaluator
from support.api_requests import ASKED, KINDS, Effect, Fault, Lost, Refusal, Request, discovery
from support.api_storage import Storage, copied
from support.forwarded_ports import ForwardedPorts

Manifest = dict[str, Any]


class FakeApiServer:
    """Serves while it is entered.

    Attributes:
        storage: What is stored.
        bookmarks: How often `bookmark` was called.
        requests: Every request that was made, watches included.
        faults: Asked in turn before each request.
        effects: Asked in turn after each request that was carried out, before it is answered.
        delay_news: Awaited before a watch is sent events.
        is_defined: Whether there is a definition of ImageNetJob.
        logs: The name of a pod → its log.
        timed_logs: The same, for requests that want the times: each line with its time.
        cut_logs: After how many bytes each of the next logs with times is cut.
        ports: What its pods listen to, for port-forwards.
        verbs: What may be asked for: what the chart lets the operator do.
        lets_in: Whether a request is answered by something else than 401.
        url: Where it listens.

    Args:
        tls: Its certificate, and what it asks of a client's; None for plain HTTP.
        socket: The Unix socket that it listens at; None for a port of 127.0.0.1.
    """

    def __init__(self, tls: ssl.SSLContext | None = None, socket: Path | None = None) -> None:
        self.storage = Storage()
        self.requests: list[Request] = []
        self.faults: list[Fault] = []
        self.effects: list[Effect] = []
        self.is_defined = True
        self.delay_news: Fault | None = None
        self.logs: dict[str, str] = {}
        self.timed_logs: dict[str, list[tuple[str, str]]] = {}
        self.cut_logs: list[int] = []
        self.ports = ForwardedPorts()
        self.verbs = dict(objects.VERBS)
        self.lets_in: Callable[[web.BaseRequest], bool] = lambda _: True
        self.url = ""
        self._tls = tls
        self._socket = socket
        self.bookmarks = 0
        self._failure: Manifest | None = None
        self._streams: dict[int, asyncio.Transport] = {}

    async def __aenter__(self) -> Self:
        # A web.Application would look for a route and for middleware with each request.
        served = web.Server(self._serve, access_log=None)
        self._runner = web.ServerRunner(served, shutdown_timeout=0.1)
        await self._runner.setup()
        if self._socket is not None:
            await web.UnixSite(self._runner, self._socket).start()
            self.url = "http://unix"
            return self
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._tls).start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"{'http' if self._tls is None else 'https'}://{host}:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.drop_watches()
        await self._runner.cleanup()

    # ------------------------------------------------------------------ the test's side

    @property
    def version(self) -> int:
        """The newest resource version."""
        return self.storage.version

    def get(self, kind: str, name: str, namespace: str = "vision") -> Manifest | None:
        """A copy of an object."""
        found = self.storage.objects.get((kind, namespace, name))
        return None if found is None else copied(found)

    def all(self, kind: str) -> list[Manifest]:
        """Copies of all objects of a kind, by name."""
        return [
            copied(item) for name, item in sorted(self.storage.objects.items()) if name[0] == kind
        ]

    async def add(self, manifest: Manifest) -> Manifest:
        """Store an object as if another client had created it."""
        return self.storage.create(copied(manifest))

    async def change(
        self, kind: str, name: str, edit: Callable[[Manifest], None], namespace: str = "vision"
    ) -> Manifest:
        """Change an object as if another client had changed it."""
        stored = copied(self.storage.objects[kind, namespace, name])
        before = copied(stored).get("spec")
        edit(stored)
        if kind == objects.JOB.name and stored.get("spec") != before:
            stored["metadata"]["generation"] += 1
        return self.storage.store("MODIFIED", stored)

    async def define(self, schema: Manifest) -> None:
        """Install another definition of the jobs: what it does not know is pruned from now on."""
        known = schema["properties"]

        def prune(item: Manifest) -> None:
            if item["kind"] == objects.JOB.name:
                for part in ("spec", "status"):
                    crd_evaluator.prune(known[part], item.get(part, {}))

        self.storage.prune = prune
        for item in self.all(objects.JOB.name):
            self.storage.store("MODIFIED", item)

    async def remove(self, kind: str, name: str, namespace: str = "vision") -> None:
        """End an object, and what it owns."""
        self.storage.remove(self.storage.objects[kind, namespace, name])

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
                # Nothing stored has changed, but `until` may wait for this refusal.
                self.storage.notify()
                raise answer.again()

        self.faults.append(fault)
        return refused

    async def expire(self) -> None:
        """Forget past events: every watch must list again."""
        await self.announce("NONE", {"kind": "Nothing", "metadata": {}})
        self.storage.oldest = self.storage.version
        await self.drop_watches()

    async def fail_a_watch(self, status: Manifest) -> None:
        """Put an error into one watch, which ends with it."""
        self._failure = status
        await self.bookmark()

    async def announce(self, event: str, manifest: Manifest) -> None:
        """Send watches an event that no request has caused."""
        self.storage.record(event, copied(manifest))

    async def drop_watches(self) -> None:
        """Cut every watch."""
        for transport in list(self._streams.values()):
            # Python 3.11.2 cannot abort a TLS connection that has ended.
            if not transport.is_closing():
                transport.abort()
        self.storage.notify()

    def writes(self) -> list[Request]:
        """The requests that were to change something."""
        reads = ("get", "list", "watch")
        return [item for item in self.requests if item.verb not in reads and not item.dry_run]

    def counts(self) -> Counter[tuple[str, str]]:
        """How often each verb was used on each kind, without dry runs."""
        return Counter((item.verb, item.kind) for item in self.requests if not item.dry_run)

    async def bookmark(self) -> None:
        """Send every watch a bookmark."""
        self.bookmarks += 1
        self.storage.notify()

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until a condition on the stored objects, or on what has been refused, holds."""
        while not condition():
            await self.storage.news()

    # ------------------------------------------------------------------ HTTP

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        parts = [part for part in request.path.split("/") if part]
        if not self.lets_in(request):
            return Refusal(401, "Unauthorized").response()
        if not self.is_defined and objects.JOB.group in parts:
            return Refusal(404, "NotFound", "404 page not found").response()
        if (discovered := discovery(parts)) is not None:
            return web.json_response(discovered)
        try:
            asked = await self._read(request, parts)
            self.requests.append(asked)
            if asked.verb not in self.verbs.get(asked.resource, ()):
                what = f"{asked.verb} {asked.resource[1]}"
                raise Refusal(403, "Forbidden", f"the operator may not {what}")
            for fault in list(self.faults):
                await fault(asked)
            if asked.verb == "watch":
                return await self._watch(request, asked)
            ASKED.set(asked)
            if asked.subresource == "log":
                self.storage.find(asked)
                if "timestamps" in request.query:
                    return await self._log(request, asked)
                return web.Response(text=self.logs.get(asked.name, ""))
            if asked.subresource == "portforward":
                self.storage.find(asked)
                return await self.ports.serve(request, asked.name)
            answer = self._carry_out(request, asked)
            for effect in list(self.effects):
                await effect(asked, answer)
        except Refusal as refusal:
            return refusal.response()
        except Lost:
            if request.transport is not None:
                request.transport.abort()
            return web.Response()
        status = 201 if asked.verb == "create" else 200
        return web.json_response(body=orjson.dumps(answer), status=status)

    async def _read(self, request: web.BaseRequest, parts: list[str]) -> Request:
        rest = parts[2:] if parts[0] == "api" else parts[3:]
        namespace = ""
        if len(rest) > 2 and rest[0] == "namespaces":
            namespace, rest = rest[1], rest[2:]
        plural, name, subresource = (*rest, "", "")[:3]
        kind = next((kind for kind in KINDS.values() if kind.plural == plural), None)
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
        body = orjson.loads(await request.read()) if request.can_read_body else {}
        limit = request.query.get("timeout", "")
        sender = request.headers.get("Authorization", "").removeprefix("Bearer ")
        mode = request.query.get("dryRun", ""), request.query.get("fieldValidation", "")
        return Request(verb, kind.name, namespace, name, subresource, body, limit, sender, *mode)

    async def _log(self, request: web.BaseRequest, asked: Request) -> web.StreamResponse:
        """Send a log as the kubelet does: from the second of `sinceTime` on, until the pod ends."""
        since = request.query.get("sinceTime", "")[:19]
        response = web.StreamResponse()
        await response.prepare(request)
        assert request.transport is not None
        self._streams[id(request)] = request.transport
        room = self.cut_logs.pop(0) if self.cut_logs else None
        sent = 0
        with contextlib.suppress(ConnectionError):
            while not request.transport.is_closing():
                pod = self.storage.find(asked)
                lines = self.timed_logs.get(asked.name, [])
                if "tailLines" in request.query and not sent:
                    sent = max(0, len(lines) - int(request.query["tailLines"]))
                new = [f"{at} {text}" for at, text in lines[sent:] if at[:19] >= since]
                sent = len(lines)
                block = "".join(f"{line}\n" for line in new)
                await response.write(block.encode()[:room])
                if room is not None and len(block.encode()) >= room:
                    request.transport.abort()
                    break
                if "follow" not in request.query or "terminated" in str(pod["status"]):
                    break
                await self.storage.news()
        del self._streams[id(request)]
        return response

    def _carry_out(self, request: web.BaseRequest, asked: Request) -> Manifest:
        kind = KINDS[asked.kind]
        match asked.verb:
            case "list":
                return self._list(request, asked, kind)
            case "create":
                body = {**asked.body, "apiVersion": kind.api_version, "kind": kind.name}
                return body if asked.dry_run else self.storage.create(body)
            case "get":
                return self.storage.find(asked)
            case "update":
                return self.storage.update(asked)
            case "patch":
                return self.storage.patch(asked)
            case _:
                return self.storage.delete(asked)

    def _list(self, request: web.BaseRequest, asked: Request, kind: Kind) -> Manifest:
        found = [
            item
            for name, item in sorted(self.storage.objects.items())
            if name[0] == asked.kind and _is_selected(item, asked.namespace, request.query)
        ]
        begin = int(request.query.get("continue") or 0)
        limit = int(request.query.get("limit") or len(found) or 1)
        metadata = {"resourceVersion": str(self.storage.version)}
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

    async def _watch(self, request: web.BaseRequest, asked: Request) -> web.StreamResponse:
        since, oldest = int(request.query["resourceVersion"]), self.storage.oldest
        response = web.StreamResponse()
        await response.prepare(request)
        if since < oldest:
            too_old = f"too old resource version: {since} ({oldest})"
            error = {"kind": "Status", "code": 410, "reason": "Expired", "message": too_old}
            await response.write(_line("ERROR", error))
            return response
        assert request.transport is not None
        self._streams[id(request)] = request.transport
        marked = -1
        seconds = float(request.query.get("timeoutSeconds") or 3600)
        with contextlib.suppress(ConnectionError, TimeoutError):
            async with asyncio.timeout(seconds):
                while not self._streams[id(request)].is_closing():
                    since = await self._write_news(request, asked, response, since)
                    if self._failure is not None:
                        await response.write(_line("ERROR", self._failure))
                        self._failure = None
                        break
                    if marked != self.bookmarks:
                        marked = self.bookmarks
                        mark = {"kind": asked.kind, "metadata": {"resourceVersion": str(since)}}
                        await response.write(_line("BOOKMARK", mark))
                    if self.storage.version == since and marked == self.bookmarks:
                        await self.storage.news(asked.kind)
        del self._streams[id(request)]
        return response

    async def _write_news(
        self, request: web.BaseRequest, asked: Request, response: web.StreamResponse, since: int
    ) -> int:
        """Write what happened since a version, and return up to which version that was."""
        lines = []
        for version, event, item in self.storage.after(since):
            since = version
            if item["kind"] == asked.kind and _is_selected(item, asked.namespace, request.query):
                lines.append(_line(event, item))
        if lines and self.delay_news is not None:
            await self.delay_news(asked)
        if lines:
            await response.write(b"".join(lines))
        return since


def _is_selected(item: Manifest, namespace: str, query: Any) -> bool:
    if namespace and item["metadata"].get("namespace") != namespace:
        return False
    carried = item["metadata"].get("labels") or {}
    for term in filter(None, query.get("labelSelector", "").split(",")):
        key, _, value = term.partition("=")
        if carried.get(key) != value:
            return False
    field, _, wanted = query.get("fieldSelector", "").partition("=")
    if field == "metadata.name":
        return bool(item["metadata"]["name"] == wanted)
    if field == "involvedObject.uid":
        return bool(item["involvedObject"].get("uid") == wanted)
    if field:
        ended = item["status"].get("phase") in ("Succeeded", "Failed")
        return bool(item["spec"].get("nodeName")) and not ended
    return True


def _line(event: str, item: Manifest) -> bytes:
    return orjson.dumps({"type": event, "object": item}) + b"\n"


def _without_type(item: Manifest) -> Manifest:
    return {name: value for name, value in item.items() if name not in ("apiVersion", "kind")}
