"""Requests to the API server: JSON over HTTPS, with manifests as dictionaries.

The kubernetes package loads the login (`login`); aiohttp carries the requests, because the
package's REST layer is slower (docs/decisions/0002-kubernetes-client.md). Requests are bounded in
time and in number. A request's time begins when it is sent: most creates of a large job wait for
their turn first. One whose login was refused is sent once more with another login.

The work queue retries most requests, with the reconcile that they belong to. Two kinds are sent
again here: a request to an API server that is too busy, and a create that failed. One pod that
could not be created ends its attempt, so a gang of 1,000 would rarely start whole. Children have
fixed names, so a second create of one name changes nothing.

`Client._send` is the only place that sends a request that changes something. With a `Fence`, it
sends none after the lease may have expired, and ends each before another process may become the
leader. The API server gets the same limit (`timeout` in the query), so it drops a request that it
could not carry out in time. `leader_election` extends the fence with each renewal of the lease.
Only the monotonic clock of this process counts, never a time that another machine wrote.

    renewed            renew_deadline               quiet             duration
       |--- may be sent -----|--- may still run ------|---- slack -------|  others may lead

The slack is for monotonic clocks that differ in speed.
"""

import asyncio
import logging
import math
import random
import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

import aiohttp
import orjson

from imagenet_operator.clusters.interface import ClusterError
from imagenet_operator.clusters.kubernetes import metrics
from imagenet_operator.clusters.kubernetes.login import (
    Connection,
    Credentials,
    NoConnection,
)
from imagenet_spec.resource.base import Manifest

LOGGER = logging.getLogger(__name__)

AT_ONCE: Final = 32
"""Concurrent requests, each on its connection; watches are not counted."""

BAD_REQUEST: Final = 400
UNAUTHORIZED: Final = 401
FORBIDDEN: Final = 403
NOT_FOUND: Final = 404
CONFLICT: Final = 409
UNPROCESSABLE: Final = 422
TOO_MANY_REQUESTS: Final = 429

REQUEST_SECONDS: Final = 30.0
"""How long a request may take, after its turn has come, if the fence does not end it earlier."""

NO_LEASE: Final = "NoLease"
"""The reason of requests that were not sent, because this process may not be the leader."""

SILENT: Final = "Silent"
"""The reason of a log's connection on which nothing came for so long as was allowed."""

_CONNECT_SECONDS: Final = 10.0
_CLOSE_SECONDS: Final = 2.0
"""How long the end of a websocket waits for the other end's."""

_KEPT_OPEN_SECONDS: Final = 75.0
"""The API server closes connections that are idle for 90 s; a new one costs more than a request."""

PAGE: Final = 30
"""Objects of a list in one answer. A user may store objects of 1.5 MB, and a page is in memory
several times while it is parsed: pages of 200 exceeded the memory limit."""

TRIES: Final = 5
"""How often a request is sent to a busy API server, and a create to one that fails."""

QUOTA: Final = 100
"""How many creates are sent again if none succeeds, as if a webhook is down."""

QUOTA_OF_SUCCESS: Final = 0.1
"""What each success adds to the quota."""

FIRST_PAUSE: Final = 0.2
"""The pause before a failed create is sent again, in seconds; each further failure doubles it."""

LONGEST_PAUSE: Final = 10.0
"""The longest pause in seconds, even if the API server asks for more."""

_MERGE_PATCH: Final = "application/merge-patch+json"
_JSON: Final = "application/json"
_NO_TIMEOUT: Final = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS)
_IS_INVALID: Final = re.compile(r'[\w.-]+ "[^"]*" is invalid')
_CONTEXT: Final = re.compile(r" ssl:(default|True|<[^>]*>)")


class ApiError(ClusterError):
    """The API server refused a request with an HTTP code, or did not answer: 0."""

    def __init__(
        self, request: str, code: int, reason: str, message: str, fields: Iterable[str] = ()
    ) -> None:
        super().__init__(f"{request}: {message or reason or code}")
        self.request = request
        self.code = code
        self.reason = reason
        self.message = message
        self.fields = frozenset(fields)

    @property
    def is_final(self) -> bool:
        """Whether the API server will always refuse the object that was sent.

        An object that it cannot read is a BadRequest; a webhook has the same code without that
        reason. An invalid object has a message that begins with its name, and the invalid field. A
        policy has the same code and reason without a field; a webhook's message begins with its own
        name.
        """
        if self.code == BAD_REQUEST:
            return self.reason == "BadRequest"
        is_its_own = _IS_INVALID.match(self.message) is not None
        return self.code == UNPROCESSABLE and is_its_own and bool(self.fields)


@dataclass(frozen=True)
class Answer:
    """What came back for a request that was sent once: an HTTP code, 0 if there was no answer."""

    code: int
    text: bytes = b""
    retry_after: str | None = None
    error: Exception | None = None

    @property
    def is_failure(self) -> bool:
        """Whether the API server failed, or the connection was lost.

        A request that took its whole time is no failure, since the next one may take as long.
        """
        is_lost = self.error is not None and not isinstance(self.error, TimeoutError)
        return is_lost or self.code >= 500


class Retries:
    """The quota of retries that all requests of a client share."""

    def __init__(self) -> None:
        self._quota: float = QUOTA

    def take(self, verb: str, answer: Answer) -> bool:
        """Return whether a request is sent again after an answer; count the answer."""
        if 0 < answer.code < 400:
            self._quota = min(QUOTA, self._quota + QUOTA_OF_SUCCESS)
        if answer.code == TOO_MANY_REQUESTS:
            return True
        if verb != "POST" or not answer.is_failure or self._quota < 1:
            return False
        self._quota -= 1
        return True


def retry_pause(answer: Answer, sent: int) -> float:
    """Return the seconds to wait before a request is sent again."""
    asked = answer.retry_after
    if asked is not None and asked.isdecimal():
        return min(float(asked), LONGEST_PAUSE)
    wait = 1.0 if answer.code == TOO_MANY_REQUESTS else FIRST_PAUSE * 2 ** (sent - 1)
    return min(wait, LONGEST_PAUSE)


@dataclass(frozen=True)
class LeaseTimes:
    """The times of a lease in seconds; the defaults are those of client-go.

    Attributes:
        duration: How long others wait without a renewal before they take the lease.
        renew_deadline: How long the holder tries to renew it before it gives up.
        retry_period: The time between two renewals, and between two attempts to acquire it.
    """

    # A whole number, since it is written into the Lease.
    duration: float = 15
    renew_deadline: float = 10
    retry_period: float = 2

    @property
    def quiet(self) -> float:
        """Seconds after a renewal by which every request of the holder has ended."""
        return self.duration - self.retry_period


TIMES = LeaseTimes()


class Fence:
    """Whether requests that change something may be sent, by the age of the lease's renewal."""

    def __init__(self, times: LeaseTimes = TIMES) -> None:
        self._times = times
        self._renewed_at = -math.inf
        self._unanswered_until = -math.inf
        self._under_way: set[asyncio.Task[Answer]] = set()

    def extend(self, renewed_at: float) -> None:
        """Count from `renewed_at`, when the request that renewed the lease was about to be sent."""
        self._renewed_at = renewed_at

    def close(self) -> None:
        self._renewed_at = -math.inf

    def seconds_left(self) -> float:
        """Return how long a request that is sent now may take; 0 if none may be sent."""
        now = time.monotonic()
        if now >= self._renewed_at + self._times.renew_deadline:
            return 0.0
        return self._renewed_at + self._times.quiet - now

    async def follow(
        self, request: Callable[[], Coroutine[Any, Any, Answer]], end: float
    ) -> Answer:
        """Return the answer of an admitted request, which has until `end` by the monotonic clock.

        The waiting task may be cancelled. The request goes on then, because its answer says
        that the API server will not carry it out any more.
        """
        task = asyncio.create_task(self._note(request, end))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return await asyncio.shield(task)

    async def _note(self, request: Callable[[], Coroutine[Any, Any, Answer]], end: float) -> Answer:
        answered = False
        try:
            answer = await request()
            answered = answer.error is None
            return answer
        finally:
            # The API server may still carry it out until then.
            if not answered:
                self._unanswered_until = max(self._unanswered_until, end)

    async def settle(self, seconds: float) -> bool:
        """Wait for the answers of the requests under way, and cut off those that take too long.

        Returns whether each request that was sent has had its answer, or its time is over.
        """
        if self._under_way:
            _, late = await asyncio.wait(self._under_way, timeout=seconds)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        return time.monotonic() >= self._unanswered_until


class Client:
    """Requests to one API server, while it is entered.

    The fence admits requests that change something; without one, all are sent. A request that is
    refused, or has no answer, raises `ApiError`.
    """

    def __init__(self, connection: Connection, fence: Fence | None = None) -> None:
        self._connection = connection
        self._fence = fence
        self._session: aiohttp.ClientSession | None = None
        self._streams: aiohttp.ClientSession | None = None
        self._sockets: aiohttp.ClientSession | None = None
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._retries = Retries()

    async def __aenter__(self) -> Self:
        # A login that cannot work is reported at the start.
        await self._connection.credentials()
        self._session = self._new_session(AT_ONCE)
        self._streams = self._new_session(0)
        self._sockets = self._new_session(0, self._refuse_upgrade)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for session in (self._session, self._streams, self._sockets):
            assert session is not None
            await session.close()

    def _new_session(
        self,
        limit: int,
        judge: Callable[[aiohttp.ClientResponse], Awaitable[None]] | None = None,
    ) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=limit, keepalive_timeout=_KEPT_OPEN_SECONDS),
            proxy=self._connection.proxy,
            # Compressing costs the API server more than sending does.
            headers={
                "Accept": _JSON,
                "Accept-Encoding": "identity",
                "User-Agent": "imagenet-operator",
            },
            auto_decompress=False,
            raise_for_status=judge or False,
        )

    async def get(self, path: str, accept: str = _JSON, **parameters: str) -> Manifest:
        return await self._request("GET", path, parameters=parameters, accept=accept)

    async def text(self, path: str, **parameters: str) -> str:
        answer = await self._answer("GET", path, parameters=parameters, accept="*/*")
        return answer.text.decode("utf-8", "replace")

    async def pages(
        self, path: str, accept: str = _JSON, **parameters: str
    ) -> AsyncGenerator[Manifest]:
        """Yield a collection in pages, so that no answer is huge; `items` is always a list.

        The next page is requested before the current one is read.
        """
        parameters = {"limit": str(PAGE), **parameters}
        asked = self._ask(path, accept, parameters)
        try:
            while True:
                page = await asked
                page["items"] = page.get("items") or []
                continue_token = page["metadata"].get("continue")
                if continue_token:
                    asked = self._ask(path, accept, {**parameters, "continue": continue_token})
                    # Sent before this page is read, which takes a while without any await.
                    await asyncio.sleep(0)
                yield page
                if not continue_token:
                    return
        finally:
            asked.cancel()
            await asyncio.gather(asked, return_exceptions=True)

    def _ask(self, path: str, accept: str, parameters: Mapping[str, str]) -> asyncio.Task[Manifest]:
        page = self.get(path, accept, **parameters)
        return asyncio.create_task(page, name=f"a page of {path}")

    async def create(self, path: str, manifest: Manifest, **parameters: str) -> Manifest:
        """Create an object, and return it as it is stored; code 409 if it exists."""
        return await self._request("POST", path, manifest, parameters=parameters)

    async def replace(self, path: str, manifest: Manifest) -> Manifest:
        """Overwrite an object, and return it as it is stored; code 409 if it has changed since."""
        return await self._request("PUT", path, manifest)

    async def merge(self, path: str, patch: Manifest) -> Manifest:
        """Merge a patch (RFC 7396) into an object; code 409 if a precondition fails."""
        return await self._request("PATCH", path, patch, content=_MERGE_PATCH)

    async def delete(self, path: str, options: Manifest) -> Manifest:
        """Delete an object, and return its last state or a Status; code 409 as with `merge`."""
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
        answer = await self._answer(
            verb, path, body, parameters=parameters, content=content, accept=accept
        )
        try:
            manifest: Manifest = orjson.loads(answer.text)
        except orjson.JSONDecodeError as error:
            what = f"{verb} {path}"
            raise ApiError(what, 0, "Garbled", f"the answer is no JSON: {error}") from error
        return manifest

    async def _answer(
        self,
        verb: str,
        path: str,
        body: Manifest | None = None,
        *,
        parameters: Mapping[str, str] | None = None,
        content: str = _JSON,
        accept: str = _JSON,
    ) -> Answer:
        """Send a request, several times if need be, and return the answer of a success."""
        parts = {
            "data": None if body is None else orjson.dumps(body),
            "params": parameters,
            "headers": {"Content-Type": content, "Accept": accept},
        }
        refused = False
        for left in reversed(range(TRIES)):
            async with self._turns:
                # Only now: a token may expire while its request waits for its turn.
                credentials = await self._credentials(f"{verb} {path}")
                answer = await self._send(verb, path, credentials, **parts)
            if answer.code == UNAUTHORIZED and not refused:
                refused = True
                if await self._renewed(credentials):
                    continue
            if not left or not self._retries.take(verb, answer):
                break
            # Requests that were refused together do not return together.
            wait = retry_pause(answer, TRIES - left)
            await asyncio.sleep(wait * random.uniform(1, 1.5))
        if answer.error is not None:
            what = f"{verb} {path}"
            raise ApiError(what, 0, "Unreachable", _said(answer.error)) from answer.error
        if answer.code >= 400:
            raise self._api_error(f"{verb} {path}", answer.code, answer.text)
        return answer

    async def _credentials(self, request: str) -> Credentials:
        try:
            return await self._connection.credentials()
        except NoConnection as error:
            raise ApiError(request, 0, "NoLogin", str(error)) from error

    async def _renewed(self, refused: Credentials) -> bool:
        """Whether there are other credentials than those that were refused."""
        try:
            return await self._connection.renew(refused) is not refused
        except NoConnection as error:
            LOGGER.warning("%s", error)
            return False

    async def _send(self, verb: str, path: str, credentials: Credentials, **parts: Any) -> Answer:
        """Send a request once; raise ApiError if the fence does not admit it."""
        began = time.monotonic()
        if self._fence is None or verb == "GET":
            return await self._exchange(began + REQUEST_SECONDS, verb, path, credentials, **parts)
        seconds = min(REQUEST_SECONDS, self._fence.seconds_left())
        if seconds <= 0:
            message = (
                "not sent: this operator does not hold the lease, or has not renewed it in time"
            )
            raise ApiError(f"{verb} {path}", 0, NO_LEASE, message)
        parts["params"] = {**(parts["params"] or {}), "timeout": f"{seconds * 1000:.0f}ms"}
        end = began + seconds
        return await self._fence.follow(
            lambda: self._exchange(end, verb, path, credentials, **parts), end
        )

    async def _exchange(
        self, end: float, verb: str, path: str, credentials: Credentials, **parts: Any
    ) -> Answer:
        assert self._session is not None, "the client is not entered"
        try:
            # aiohttp's own total timeout rounds up to whole seconds. If this process was stopped
            # since the fence admitted the request, its time is over now.
            async with (
                asyncio.timeout(end - time.monotonic()),
                self._session.request(
                    verb,
                    self._url(path),
                    timeout=_NO_TIMEOUT,
                    **self._authorized(credentials, parts.pop("headers")),
                    **parts,
                ) as response,
            ):
                text = await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            metrics.REQUESTS.labels(verb, "none").inc()
            return Answer(0, error=error)
        metrics.REQUESTS.labels(verb, str(response.status)).inc()
        return Answer(response.status, text, response.headers.get("Retry-After"))

    async def watch(
        self, path: str, silence: float, **parameters: str
    ) -> AsyncGenerator[tuple[str, Manifest]]:
        """Yield the events of a collection, as type and object, until the server ends the watch.

        The query has the resource version to begin after; code 410 if that is too old. A connection
        without data for `silence` seconds counts as lost.
        """
        query = {"watch": "true", "allowWatchBookmarks": "true", **parameters}
        async with aclosing(self._stream("WATCH", path, silence, {}, query)) as lines:
            async for line in lines:
                if not line.endswith(b"\n"):
                    # The server ended the watch within an event, which the next one has.
                    return
                try:
                    event: dict[str, Any] = orjson.loads(line)
                except orjson.JSONDecodeError as error:
                    raise ApiError(f"WATCH {path}", 0, "Unreachable", _said(error)) from error
                yield event["type"], event["object"]

    def lines(self, path: str, silence: float, **parameters: str) -> AsyncGenerator[bytes]:
        """Return the text at a path by lines with their line breaks, until the server ends it.

        The last line has no line break if the text does not end with one. A connection without
        data for `silence` seconds counts as lost, with the reason `SILENT`.
        """
        return self._stream("GET", path, silence, {"Accept": "*/*"}, parameters)

    async def _stream(
        self,
        verb: str,
        path: str,
        silence: float,
        headers: dict[str, str],
        parameters: Mapping[str, str],
    ) -> AsyncGenerator[bytes]:
        """Yield an answer by lines; `verb` names the request in errors and metrics."""
        assert self._streams is not None, "the client is not entered"
        what = f"{verb} {path}"
        timeout = aiohttp.ClientTimeout(sock_connect=_CONNECT_SECONDS, sock_read=silence)
        credentials = await self._credentials(what)
        try:
            async with self._streams.get(
                self._url(path),
                params=parameters,
                timeout=timeout,
                **self._authorized(credentials, headers),
            ) as response:
                metrics.REQUESTS.labels(verb, str(response.status)).inc()
                if response.status == UNAUTHORIZED:
                    await self._renewed(credentials)
                if response.status >= 400:
                    raise self._api_error(what, response.status, await response.read())
                rest = b""
                async for block in response.content.iter_any():
                    *lines, rest = (rest + block).split(b"\n")
                    for line in lines:
                        yield line + b"\n"
                if rest:
                    yield rest
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            metrics.REQUESTS.labels(verb, "none").inc()
            # A connection that cannot be opened ends with another timeout.
            is_silent = isinstance(error, aiohttp.SocketTimeoutError)
            reason = SILENT if is_silent else "Unreachable"
            raise ApiError(what, 0, reason, _said(error)) from error

    async def websocket(
        self, path: str, protocol: str, **parameters: str
    ) -> aiohttp.ClientWebSocketResponse:
        assert self._sockets is not None, "the client is not entered"
        what = f"CONNECT {path}"
        for left in (1, 0):
            credentials = await self._credentials(what)
            try:
                opened: aiohttp.ClientWebSocketResponse = await self._sockets.ws_connect(
                    self._url(path),
                    params=parameters,
                    protocols=(protocol,),
                    max_msg_size=0,
                    timeout=aiohttp.ClientWSTimeout(ws_close=_CLOSE_SECONDS),
                    # The kubelet serves no JSON there, and refuses who asks for it.
                    **self._authorized(credentials, {"Accept": "*/*"}),
                )
                return opened
            except ApiError as error:
                if error.code != UNAUTHORIZED or not left or not await self._renewed(credentials):
                    raise
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                raise ApiError(what, 0, "Unreachable", _said(error)) from error
        raise AssertionError("the second try returns or raises")

    async def _refuse_upgrade(self, response: aiohttp.ClientResponse) -> None:
        """Raise what the API server says, which `ws_connect` would drop."""
        if response.status >= BAD_REQUEST:
            what = f"CONNECT {response.url.path}"
            raise self._api_error(what, response.status, await response.read())

    def _url(self, path: str) -> str:
        # A gateway may serve the API below a path.
        return self._connection.server.rstrip("/") + path

    def _authorized(self, credentials: Credentials, headers: dict[str, str]) -> dict[str, Any]:
        # Connections are shared by requests with the same context: a new one opens new ones.
        return {
            "headers": (*headers.items(), *credentials.headers),
            "ssl": credentials.tls or True,
            "server_hostname": self._connection.server_name,
        }

    def _api_error(self, what: str, code: int, text: bytes) -> ApiError:
        try:
            status = orjson.loads(text)
            reason, message = status.get("reason") or "", status.get("message") or ""
            causes = (status.get("details") or {}).get("causes") or ()
            fields = [cause["field"] for cause in causes if cause.get("field")]
            return ApiError(what, code, reason, message, fields)
        except (orjson.JSONDecodeError, AttributeError):
            return ApiError(what, code, "", text[:200].decode(errors="replace"))


def _said(error: Exception) -> str:
    """Return why there was no answer, without the object that aiohttp prints."""
    return _CONTEXT.sub("", str(error)) or type(error).__name__
