"""GET requests to a server of files: connections that stay open, retries, redirects, the login.

Its errors have the address without the query, which may be a signature. `WorkloadError` is a
failure that a later try may not have; `InputError` is permanent.
"""

import base64
import logging
import random
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import TypeVar
from urllib.parse import urljoin, urlsplit

import urllib3
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    LocationValueError,
    NameResolutionError,
    NewConnectionError,
    ReadTimeoutError,
    SSLError,
)

from imagenet_workloads.clients import TRAFFIC
from imagenet_workloads.errors import InputError, WorkloadError

AT_ONCE = 32
"""The requests to one server at the same time, and the connections that stay open."""

_Result = TypeVar("_Result")

_log = logging.getLogger(__name__)

_TIMEOUT = urllib3.Timeout(connect=10, read=30)
_TRIES = 8
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0
_LONGEST_RETRY_AFTER = 300.0
_REDIRECTS = 5
_CHUNK = 1 << 20
# The rest of a body that is read, so that no new connection is needed.
_LONGEST_REST = 64 << 10
_TEMPORARY = frozenset((408, 425, 429, 500, 502, 503, 504))
_EXPLAINED = {
    401: "the server refuses the login; check username and password in the Secret",
    403: "the server refuses the request: the login lacks the right, or a link has expired",
    404: "the server has no such file; check url",
    407: "a proxy asks for a login, and none is supported",
    410: "the file is gone, or a link has expired",
}


@dataclass(frozen=True)
class Address:
    """The address of a file: a URL that messages may show, and a query that may be a signature."""

    url: str
    query: str = field(default="", repr=False)

    @property
    def target(self) -> str:
        return f"{self.url}?{self.query}" if self.query else self.url


@dataclass(frozen=True)
class Login:
    """A user and a password for basic authentication."""

    username: str
    password: str = field(repr=False)

    @property
    def header(self) -> str:
        pair = f"{self.username}:{self.password}".encode()
        return f"Basic {base64.b64encode(pair).decode()}"


@dataclass(frozen=True)
class Token:
    """A token for bearer authentication."""

    value: str = field(repr=False)

    @property
    def header(self) -> str:
        return f"Bearer {self.value}"


@dataclass(frozen=True)
class Answer:
    """An answer of 200 or 206, or another one that the caller asked for.

    The names of its headers are not case-sensitive. Its body is empty unless the status is the
    wanted one.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes


class _TemporaryFailureError(Exception):
    """A failure after which the request is tried again, after the seconds of Retry-After if any."""

    def __init__(self, what: str, retry_after: float | None = None) -> None:
        super().__init__(what)
        self.retry_after = retry_after


class HttpClient:
    """Sends requests with one login; may be used from several threads."""

    def __init__(
        self,
        login: Login | Token | None = None,
        pause: Callable[[float], None] = time.sleep,
        explained: Mapping[int, str] | None = None,
    ) -> None:
        """Connects to nothing yet.

        The login is sent to the hosts of the addresses, never to that of a redirect. `explained`
        says what a refusal by them means, by its status.
        """
        self._pool = urllib3.PoolManager(maxsize=AT_ONCE, timeout=_TIMEOUT)
        self._login = login
        self._pause = pause
        self._explained = explained or {}
        self._redirected: dict[str, str] = {}

    def get(
        self,
        address: Address,
        wanted: HTTPStatus,
        size: int,
        headers: Mapping[str, str],
        others: frozenset[int] = frozenset(),
    ) -> Answer:
        """Return an answer, after up to 8 tries.

        Args:
            address: of the file.
            wanted: the status whose body is read.
            size: the most bytes of the body that are read.
            headers: of the request, without the login.
            others: further statuses that are no error.

        Raises:
            InputError: the server refuses, or knows no such file.
            WorkloadError: the server cannot be reached, or its answers are cut off.
        """

        def attempt() -> Answer:
            answer = self._follow(address, headers)
            try:
                if answer.status == wanted:
                    body = answer.read(size)
                    TRAFFIC.add(1, len(body))
                    return Answer(answer.status, answer.headers, body)
                TRAFFIC.add(1, 0)
                if answer.status in others:
                    return Answer(answer.status, answer.headers, b"")
                raise self._refusal(address, answer)
            finally:
                _release(answer)

        return self._tried(address, attempt)

    def receive(
        self, address: Address, take: Callable[[Mapping[str, str], Iterator[bytes]], None]
    ) -> None:
        """Receives a file as a whole, in up to 8 tries; errors are those of `get`.

        At each try, `take` is called with the headers and the chunks of the body.
        """

        def attempt() -> None:
            answer = self._follow(address, {})
            TRAFFIC.add(1, 0)
            try:
                if answer.status != HTTPStatus.OK:
                    raise self._refusal(address, answer)
                take(answer.headers, _chunks(answer))
            finally:
                _release(answer)

        self._tried(address, attempt)

    def _tried(self, address: Address, request: Callable[[], _Result]) -> _Result:
        for attempt in range(_TRIES):
            try:
                with _explained(address):
                    return request()
            except _TemporaryFailureError as error:
                failure = error
            if attempt + 1 < _TRIES:
                # Clients that failed together do not come back together.
                seconds = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0**attempt)
                seconds *= random.uniform(0.5, 1.0)
                if failure.retry_after is not None:
                    seconds = min(failure.retry_after, _LONGEST_RETRY_AFTER)
                _log.info("%s: %s; next try in %.1f s", address.url, failure, seconds)
                self._pause(seconds)
        raise WorkloadError(f"{address.url}: {failure}, in {_TRIES} tries")

    def close(self) -> None:
        self._pool.clear()

    def _refusal(self, address: Address, answer: urllib3.BaseHTTPResponse) -> Exception:
        # The server's own words may be anything.
        phrases = {known.value: known.phrase for known in HTTPStatus}
        status = f"{answer.status} {phrases.get(answer.status, '')}".rstrip()
        if answer.status in _TEMPORARY:
            return _TemporaryFailureError(
                f"the server answers {status}", _retry_after(answer.headers.get("Retry-After"))
            )
        # The host of a redirect knows nothing of the login.
        is_own = address.url not in self._redirected
        explained = {**_EXPLAINED, **(self._explained if is_own else {})}
        why = explained.get(answer.status, "the server does not answer this request")
        return InputError(f"{address.url}: {status}: {why}")

    def _follow(self, address: Address, headers: Mapping[str, str]) -> urllib3.BaseHTTPResponse:
        """Sends a request to where the address led before, or follows its redirects again."""
        before = self._redirected.get(address.url)
        if before is not None:
            answer = self._send(before, address, headers)
            if answer.status in (200, 206) or answer.status in _TEMPORARY:
                return answer
            # A signed link of a redirect expires within minutes.
            _release(answer)
            self._redirected.pop(address.url, None)
        target = address.target
        for _ in range(_REDIRECTS + 1):
            answer = self._send(target, address, headers)
            location = answer.get_redirect_location()
            if not location:
                if target != address.target:
                    self._redirected[address.url] = target
                return answer
            _release(answer)
            base, target = urlsplit(target).scheme, urljoin(target, location)
            scheme = urlsplit(target).scheme
            if scheme not in ("http", "https") or (scheme, base) == ("http", "https"):
                raise InputError(
                    f"{address.url}: its redirect leads to {scheme}, which is not secure"
                )
        raise InputError(f"{address.url}: leads through more than {_REDIRECTS} redirects")

    def _send(
        self, target: str, address: Address, headers: Mapping[str, str]
    ) -> urllib3.BaseHTTPResponse:
        sent = {"Accept-Encoding": "identity", **headers}
        if self._login is not None and _origin(target) == _origin(address.url):
            sent["Authorization"] = self._login.header
        return self._pool.urlopen(
            "GET", target, headers=sent, preload_content=False, retries=False, redirect=False
        )


def _chunks(answer: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
    while chunk := answer.read(_CHUNK):
        TRAFFIC.add(0, len(chunk))
        yield chunk


@contextmanager
def _explained(address: Address) -> Iterator[None]:
    try:
        yield
    except SSLError as error:
        if any(isinstance(cause, ssl.SSLCertVerificationError) for cause in error.args):
            raise InputError(f"{address.url}: the server's certificate is not trusted") from None
        raise _TemporaryFailureError("no encrypted connection to the server") from None
    except LocationValueError:
        raise InputError(f"{address.url}: leads to an address that is no URL") from None
    except NameResolutionError:
        host = urlsplit(address.url).hostname
        raise _TemporaryFailureError(f"the host name {host} cannot be resolved") from None
    except (ConnectTimeoutError, NewConnectionError):
        raise _TemporaryFailureError("the server cannot be reached") from None
    except ReadTimeoutError:
        raise _TemporaryFailureError("the server does not answer in time") from None
    except HTTPError:
        raise _TemporaryFailureError("the answer is cut off") from None


def _release(answer: urllib3.BaseHTTPResponse) -> None:
    """Reads a short rest of the body, without which the connection cannot be used again."""
    rest = getattr(answer, "length_remaining", None)
    if rest is not None and rest <= _LONGEST_REST:
        answer.drain_conn()
    else:
        answer.close()


def _origin(url: str) -> tuple[str, str | None, int]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)


def _retry_after(value: str | None) -> float | None:
    """The seconds of a header Retry-After: a number, or a date."""
    if value is None:
        return None
    if value.strip().isascii() and value.strip().isdigit():
        return float(value)
    try:
        seconds: float = parsedate_to_datetime(value).timestamp() - time.time()
    except ValueError:
        return None
    return max(0.0, seconds)
