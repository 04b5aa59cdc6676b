"""Requests to an imagenet-door, whose answers are not believed: a pod may say anything.

`imagenet_spec.door` has the requests. A connection that is cut is opened again by the client's
policy (`Outage`). `transfer` sends and fetches files by these requests.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Self, cast, get_args

import aiohttp
from aiohttp.http import HttpProcessingError

from imagenet_operator.clusters.interface import ClusterError
from imagenet_operator.sdk.interface import OUTAGE_SECONDS, POLL_SECONDS, Outage
from imagenet_spec import door as requests
from imagenet_spec.door import Reason
from imagenet_spec.tree import printable

_LOGGER: Final = logging.getLogger(__name__)

SILENT_SECONDS: Final = 60.0
"""A door that neither takes nor says anything for so long does not answer."""

TIMEOUT: Final = aiohttp.ClientTimeout(total=None, sock_connect=10.0, sock_read=SILENT_SECONDS)
"""Of each request."""

_MOST_LINES: Final = 20_000_000
"""Of a listing: more would not fit into memory."""

_ERROR_CHARACTERS: Final = 500
_PULSE_SECONDS: Final = 60.0

_PASSING: Final = frozenset({None, "Busy"})
"""Reasons that may pass by themselves: no answer, and an upload that was cut a moment ago."""

_NO_QUERY: Final[Mapping[str, str]] = MappingProxyType({})


class TransferError(ClusterError):
    """Files could not be sent or fetched; the text says which one and why.

    The reason is that of the door; None if there was no answer.
    """

    def __init__(self, text: str, reason: Reason | None = None) -> None:
        super().__init__(text)
        self.reason = reason


@dataclass(frozen=True)
class Door:
    """A running imagenet-door, at http://127.0.0.1:PORT or http://localhost:PORT."""

    session: aiohttp.ClientSession
    url: str


@dataclass(frozen=True)
class Policy:
    """How long a door that does not answer is waited for; `say` gets the words for an outage."""

    poll_seconds: float = POLL_SECONDS
    outage_seconds: float = OUTAGE_SECONDS
    say: Callable[[str], None] = _LOGGER.warning


POLICY: Final = Policy()


@dataclass(frozen=True)
class Listing:
    """What a door lists below a path: sizes by paths, and what is no file to send, with the reason.

    `is_file` says whether the path itself is a file.
    """

    sizes: Mapping[str, int]
    left_out: Sequence[tuple[str, str]]
    is_file: bool


class Connection:
    """Requests to a door, whose failures are `TransferError`.

    As a context manager it also keeps the door from ending, as one does without requests: this
    machine may hash a large file for longer.
    """

    def __init__(self, door: Door, policy: Policy) -> None:
        self._door = door
        self._policy = policy
        self._is_out = False

    async def __aenter__(self) -> Self:
        self._pulse = asyncio.create_task(self._ask_regularly())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._pulse.cancel()
        await asyncio.wait([self._pulse])

    async def _ask_regularly(self) -> None:
        while True:
            await asyncio.sleep(_PULSE_SECONDS)
            # The transfer's own requests meet the same, and say it.
            with suppress(ClusterError):
                async with self.send("GET", requests.VOLUME) as response:
                    await response.read()

    def outage(self) -> Outage:
        """Return the policy for one file: others may come through where it does not."""
        policy = self._policy
        return Outage(
            policy.poll_seconds,
            lambda error: isinstance(error, TransferError) and error.reason in _PASSING,
            policy.outage_seconds,
            self._say,
        )

    def _say(self, said: str) -> None:
        # The requests of the others fail at the same time.
        if not self._is_out:
            self._is_out = True
            self._policy.say(said)

    @asynccontextmanager
    async def send(
        self, method: str, path: str, query: Mapping[str, str] = _NO_QUERY, **parts: Any
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        what = f"{method} {path} {query.get('path', '')}".rstrip()
        try:
            async with self._door.session.request(
                method,
                self._door.url.rstrip("/") + path,
                params=query,
                timeout=TIMEOUT,
                auto_decompress=False,
                allow_redirects=False,
                **parts,
            ) as response:
                if response.status >= 300:
                    text = await response.content.read(requests.LINE_BYTES)
                    raise _refused(text, f"{what}: the door has answered {response.status}")
                self._is_out = False
                yield response
                # At the end of an answer, its connection is free for the next request.
                await response.content.read(1)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise TransferError(f"{what}: {error or type(error).__name__}") from error

    async def json(
        self, method: str, path: str, query: Mapping[str, str] = _NO_QUERY, **parts: Any
    ) -> dict[str, Any]:
        """Return an answer that is one object; ask again while there is none."""

        async def ask() -> dict[str, Any]:
            async with self.send(method, path, query, **parts) as response:
                return await line_of(response)

        return await self.outage().ask(ask)

    async def files(self, path: str, *, is_optional: bool = False) -> Listing:
        """Return what is below a path; nothing if it does not exist and is optional."""
        sizes: dict[str, int] = {}
        left_out: list[tuple[str, str]] = []
        try:
            async with self.send("GET", requests.FILES, {"path": path}) as response:
                while "end" not in (line := await line_of(response)):
                    if "error" in line:
                        raise error_of(line)
                    name = text_of(line, "path")
                    if "leftOut" in line:
                        left_out.append((printable(name), printable(text_of(line, "leftOut"))))
                    elif name in sizes:
                        raise TransferError(f"{printable(name)}: is listed twice", "Invalid")
                    else:
                        sizes[name] = whole_of(line, "size")
                    if len(sizes) + len(left_out) > _MOST_LINES:
                        raise TransferError(
                            f"{path}: has more than {_MOST_LINES} files; take a part of it",
                            "Invalid",
                        )
        except TransferError as error:
            if not is_optional or error.reason != "NotFound":
                raise
        return Listing(sizes, left_out, is_file=sizes.keys() == {path})

    async def sums(self, asked: Sequence[dict[str, object]]) -> list[tuple[int, str] | None]:
        """Return the sizes and SHA-256 of files; None of one that cannot be read."""

        async def ask() -> list[tuple[int, str] | None]:
            found: list[tuple[int, str] | None] = []
            async with self.send("POST", requests.SUMS, json=asked) as response:
                for _ in asked:
                    line = await line_of(response)
                    is_error = "error" in line
                    found.append(
                        None if is_error else (whole_of(line, "size"), text_of(line, "sha256"))
                    )
            return found

        return await self.outage().ask(ask)


async def line_of(response: aiohttp.ClientResponse) -> dict[str, Any]:
    """Return the next object of an answer; the door says by empty lines that it still works."""
    line = b"\n"
    while line == b"\n":
        try:
            line = await response.content.readline(max_line_length=requests.LINE_BYTES)
        except HttpProcessingError as error:
            raise TransferError("a line of the door is too long", "Invalid") from error
    if not line:
        raise TransferError("the answer of the door has ended")
    return _object(line)


def _object(text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TransferError(f"the door's answer is no JSON: {error}", "Invalid") from error
    if not isinstance(found, dict):
        raise TransferError("the door's answer is no object", "Invalid")
    return found


def _refused(text: bytes, otherwise: str) -> TransferError:
    try:
        return error_of(_object(text))
    except TransferError:
        return TransferError(otherwise, "Failed")


def error_of(document: Mapping[str, Any]) -> TransferError:
    """Return the error that the door says, of which a hostile one may say anything."""
    reason = document.get("reason")
    known = cast("Reason", reason) if reason in get_args(Reason) else "Failed"
    return TransferError(printable(text_of(document, "error"))[:_ERROR_CHARACTERS], known)


def text_of(document: Mapping[str, Any], key: str) -> str:
    """Return a text of an answer."""
    found = document.get(key)
    if not isinstance(found, str):
        raise TransferError(f"the door's answer has no {key}", "Invalid")
    return found


def whole_of(document: Mapping[str, Any], key: str) -> int:
    """Return a whole number of an answer, of at least 0."""
    found = document.get(key)
    if type(found) is not int or found < 0:
        raise TransferError(f"the door's answer has no number {key}", "Invalid")
    return found
