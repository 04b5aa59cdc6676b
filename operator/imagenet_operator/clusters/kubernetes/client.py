"""The only way to the API server: JSON over HTTPS, and nothing about what it means.

A generated client models every field of every kind, which takes three times as long for a pod as
sending it; manifests are dictionaries here from the builders on, so they are sent as they are.
Requests are bounded in time and in number. A request's time begins when it is sent: of the creates
of a large job most wait here for their turn, and whoever took that for silence would find half an
attempt again and again. Nothing is retried, because the work queue does that; but for what the API
server was too busy to look at, for the same reason.
"""

import asyncio
import random
import ssl
from collections.abc import AsyncGenerator, Iterable, Mapping
from types import TracebackType
from typing import Any, Final, Self

import aiohttp
import orjson

from imagenet_operator.api.base import Manifest
from imagenet_operator.clusters.errors import ClusterError
from imagenet_operator.clusters.kubernetes import metrics
from imagenet_operator.clusters.kubernetes.connection import Connection

AT_ONCE: Final = 32
"""Requests that are under way at a time, each on its connection, those of watches not counted."""

TRIES: Final = 5
"""How often a request is sent to an API server that is too busy for it."""

LONGEST_PAUSE: Final = 10.0
"""The longest wait between two of them, in seconds, whatever the API server asks for."""

TOO_MANY_REQUESTS: Final = 429

REQUEST_SECONDS: Final = 30.0
"""How long one may take, its turn not waited for."""

_CONNECT_SECONDS: Final = 10.0
_KEPT_OPEN_SECONDS: Final = 75.0
"""The API server closes what is idle for 90 s; a new connection costs more than a request."""

_PAGE: Final = 200
"""Objects in a page. Larger ones are no faster; that of 500 pods takes 20 MB until it is read."""
_MERGE_PATCH: Final = "application/merge-patch+json"
_JSON: Final = "application/json"


class ApiError(ClusterError):
    """The API server refused a request, or did not answer.

    Attributes:
        code: The HTTP status; 0 if there was no answer.
        reason: The API server's word for it, as ``AlreadyExists``.
        message: Why, for people.
        fields: Where in what was sent the API server found something wrong.
    """

    def __init__(
        self, request: str, code: int, reason: str, message: str, fields: Iterable[str] = ()
    ) -> None:
        super().__init__(f"{request}: {message or reason or code}")
        self.code = code
        self.reason = reason
        self.message = message
        self.fields = frozenset(fields)


class Client:
    """Requests to one API server, while it is entered.

    Args:
        connection: Where it is and who we are.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._session: aiohttp.ClientSession | None = None
        self._streams: aiohttp.ClientSession | None = None
        self._tls: ssl.SSLContext | bool = True
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def __aenter__(self) -> Self:
        if self._connection.server.startswith("https:"):
            self._tls = self._connection.tls()
        self._session = self._new_session(AT_ONCE)
        self._streams = self._new_session(0)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._session is not None and self._streams is not None
        await self._session.close()
        await self._streams.close()

    def _new_session(self, limit: int) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=limit, ssl=self._tls, keepalive_timeout=_KEPT_OPEN_SECONDS
            ),
            # Compressing costs the API server more than sending does.
            headers={
                "Accept": _JSON,
                "Accept-Encoding": "identity",
                "User-Agent": "imagenet-operator",
            },
            auto_decompress=False,
        )

    async def get(self, path: str, accept: str = _JSON, **parameters: str) -> Manifest:
        """Return what is at a path.

        Args:
            path: Of an object, or of a collection.
            accept: The form that is wanted.
            **parameters: The query.

        Raises:
            ApiError: It is not there, or cannot be read.
        """
        return await self._request("GET", path, parameters=parameters, accept=accept)

    async def pages(
        self, path: str, accept: str = _JSON, **parameters: str
    ) -> AsyncGenerator[Manifest]:
        """Yield a collection page by page, so that no answer is huge; `items` is always a list.

        While a page is read, the API server works on the next one already.

        Args:
            path: Of the collection.
            accept: The form that is wanted.
            **parameters: The query.

        Raises:
            ApiError: It cannot be read.
        """
        parameters = {"limit": str(_PAGE), **parameters}
        asked = self._ask(path, accept, parameters)
        try:
            while True:
                page = await asked
                page["items"] = page.get("items") or []
                following = page["metadata"].get("continue")
                if following:
                    asked = self._ask(path, accept, {**parameters, "continue": following})
                    # Sent before this page is read, which takes a while without any await.
                    await asyncio.sleep(0)
                yield page
                if not following:
                    return
        finally:
            asked.cancel()
            await asyncio.gather(asked, return_exceptions=True)

    def _ask(self, path: str, accept: str, parameters: Mapping[str, str]) -> asyncio.Task[Manifest]:
        page = self.get(path, accept, **parameters)
        return asyncio.create_task(page, name=f"a page of {path}")

    async def create(self, path: str, manifest: Manifest) -> Manifest:
        """Add an object to a collection, and return it as it is stored.

        Raises:
            ApiError: It is there already (code 409), or is refused.
        """
        return await self._request("POST", path, manifest)

    async def replace(self, path: str, manifest: Manifest) -> Manifest:
        """Overwrite an object, and return it as it is stored.

        Raises:
            ApiError: It has changed since (code 409), is gone, or is refused.
        """
        return await self._request("PUT", path, manifest)

    async def merge(self, path: str, patch: Manifest) -> Manifest:
        """Merge a patch (RFC 7396) into an object, and return it as it is stored.

        Raises:
            ApiError: A precondition fails (code 409), it is gone, or is refused.
        """
        return await self._request("PATCH", path, patch, content=_MERGE_PATCH)

    async def delete(self, path: str, options: Manifest) -> Manifest:
        """Ask for an object's end, and return its last state or a Status.

        Raises:
            ApiError: A precondition fails (code 409), it is gone, or is kept.
        """
        return await self._request("DELETE", path, options)

    async def _request(
        self,
        verb: str,
        path: str,
        body: Manifest | None = None,
        *,
        parameters: Mapping[str, str] | None = None,
        content: str = _JSON,
        accept: str = _JSON,
    ) -> Manifest:
        data = None if body is None else orjson.dumps(body)
        for left in reversed(range(TRIES)):
            async with self._turns:
                # Only now: a token may run out while its request waits for its turn.
                headers = {**self._authorization(), "Content-Type": content, "Accept": accept}
                response, text = await self._send(
                    verb, path, params=parameters, data=data, headers=headers
                )
            if response.status != TOO_MANY_REQUESTS or not left:
                break
            # Those who were sent away together shall not come back together.
            wait = pause(response.headers.get("Retry-After"))
            await asyncio.sleep(wait * random.uniform(1, 1.5))
        return self._read(f"{verb} {path}", response.status, text)

    def _read(self, what: str, code: int, text: bytes) -> Manifest:
        if code >= 400:
            raise self._refusal(what, code, text)
        try:
            answer: Manifest = orjson.loads(text)
        except orjson.JSONDecodeError as error:
            raise ApiError(what, 0, "Garbled", f"the answer is no JSON: {error}") from error
        return answer

    async def _send(
        self, verb: str, path: str, **parts: Any
    ) -> tuple[aiohttp.ClientResponse, bytes]:
        """Send a request once, and return the answer and what it says."""
        assert self._session is not None, "the client is not entered"
        timeout = aiohttp.ClientTimeout(total=REQUEST_SECONDS, sock_connect=_CONNECT_SECONDS)
        try:
            async with self._session.request(
                verb, self._url(path), timeout=timeout, **parts
            ) as response:
                text = await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            metrics.REQUESTS.labels(verb, "none").inc()
            said = str(error) or type(error).__name__
            raise ApiError(f"{verb} {path}", 0, "Unreachable", said) from error
        metrics.REQUESTS.labels(verb, str(response.status)).inc()
        return response, text

    async def watch(
        self, path: str, silence: float, **parameters: str
    ) -> AsyncGenerator[tuple[str, Manifest]]:
        """Yield what happens in a collection, as type and object, until the server ends it.

        Args:
            path: Of the collection.
            silence: Seconds without a word after which the connection counts as lost.
            **parameters: The query, with the resource version to begin after.

        Raises:
            ApiError: It cannot be watched (code 410: from that version on), or the connection is
                lost.
        """
        assert self._streams is not None, "the client is not entered"
        what = f"WATCH {path}"
        timeout = aiohttp.ClientTimeout(sock_connect=_CONNECT_SECONDS, sock_read=silence)
        parameters = {"watch": "true", "allowWatchBookmarks": "true", **parameters}
        try:
            async with self._streams.get(
                self._url(path),
                params=parameters,
                headers=self._authorization(),
                timeout=timeout,
            ) as response:
                metrics.REQUESTS.labels("WATCH", str(response.status)).inc()
                if response.status >= 400:
                    raise self._refusal(what, response.status, await response.read())
                rest = b""
                async for block in response.content.iter_any():
                    *lines, rest = (rest + block).split(b"\n")
                    for line in lines:
                        event: dict[str, Any] = orjson.loads(line)
                        yield event["type"], event["object"]
        except (aiohttp.ClientError, TimeoutError, OSError, orjson.JSONDecodeError) as error:
            metrics.REQUESTS.labels("WATCH", "none").inc()
            raise ApiError(what, 0, "Unreachable", str(error) or type(error).__name__) from error

    def _url(self, path: str) -> str:
        # Below a proxy, the server's address has a path of its own.
        return self._connection.server.rstrip("/") + path

    def _authorization(self) -> dict[str, str]:
        token = self._connection.bearer()
        return {} if token is None else {"Authorization": f"Bearer {token}"}

    def _refusal(self, what: str, code: int, text: bytes) -> ApiError:
        if code == 401:
            self._connection.renew()
        try:
            status = orjson.loads(text)
            reason, message = status.get("reason") or "", status.get("message") or ""
            causes = (status.get("details") or {}).get("causes") or ()
            fields = [cause["field"] for cause in causes if cause.get("field")]
            return ApiError(what, code, reason, message, fields)
        except (orjson.JSONDecodeError, AttributeError):
            return ApiError(what, code, "", text[:200].decode(errors="replace"))


def pause(retry_after: str | None) -> float:
    """Return for how many seconds a busy API server is left alone, by its own word.

    Args:
        retry_after: The header of this name.
    """
    asked = int(retry_after) if retry_after is not None and retry_after.isdecimal() else 1
    return min(float(asked), LONGEST_PAUSE)
