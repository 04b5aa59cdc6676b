"""Horovod's rendezvous server, where the slots of an attempt exchange their addresses.

`commands.rendezvous` calls `run`. Slots publish their addresses here and read those of the others.
Then they communicate directly, but the attempt still ends if this member ends. It speaks the
protocol of Horovod's own RendezvousServer, and needs no Horovod.

Gloo connects the slots of one scope: all slots, those of a host, or those of one local rank.
Process sets do so again among fewer slots. The scopes and keys are those of Horovod 0.28.1; the
rendezvous knows no passwords, so it refuses all others.
"""

import logging
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler

from imagenet_spec import metrics
from imagenet_spec.names import IMAGENET_HOROVOD_HOSTS
from imagenet_workloads.environment import Environment
from imagenet_workloads.errors import InputError, WorkloadError
from imagenet_workloads.rendezvous import number
from imagenet_workloads.telemetry import server
from imagenet_workloads.telemetry.server import LimitedConnections, LimitedRequest, Registry

_log = logging.getLogger(__name__)

PORT = "HOROVOD_GLOO_RENDEZVOUS_PORT"
GLOBAL = "global"
"""The scope of all slots."""

# Gloo publishes an address of 136 bytes for each peer, under the rank, and the host's name.
_BYTES_PER_PEER = 256
_BYTES_OF_NAME = 1024
_MOST_PROCESS_SETS = 256
_ROOM = 16 * 2**20
_SCOPE = re.compile(r"(.+?)(?:_process_set_hash_([0-9a-f]{1,16}))?")
_KEY = re.compile(r"(?:rank_)?(0|[1-9][0-9]{0,9})")


class RefusedRequestError(Exception):
    """A request that no slot sends, with the HTTP status of the answer."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def scope_sizes(hosts: Sequence[tuple[str, int]]) -> dict[str, int]:
    """Return the number of slots that meet in each scope, from those of each host."""
    sizes = {GLOBAL: sum(slots for _, slots in hosts)}
    for name, slots in hosts:
        sizes[f"local_{name}"] = slots
        for local_rank in range(slots):
            scope = f"cross_{local_rank}"
            sizes[scope] = sizes.get(scope, 0) + 1
    return sizes


class Scopes:
    """The published values; methods are thread-safe and raise RefusedRequestError."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self._sizes = sizes
        self.slots = sizes[GLOBAL]
        self.most_bytes = _BYTES_OF_NAME + _BYTES_PER_PEER * self.slots
        self._room = _ROOM + 4 * _BYTES_PER_PEER * self.slots**2
        self._values: dict[str, dict[str, bytes]] = {}
        self._finished: dict[str, set[str]] = {}
        self._process_sets: set[str] = set()
        self._lock = threading.Lock()

    def check(self, scope: str, key: str) -> int:
        """Return the number of slots that may meet in a scope, of which the key is one."""
        known, asked = _SCOPE.fullmatch(scope), _KEY.fullmatch(key)
        size = self._sizes.get(known[1]) if known else None
        if size is None:
            raise RefusedRequestError(HTTPStatus.FORBIDDEN, "its scope is unknown")
        if asked is None or int(asked[1]) >= size:
            raise RefusedRequestError(HTTPStatus.FORBIDDEN, "its key is no rank of the scope")
        return size

    def get(self, scope: str, key: str) -> bytes | None:
        self.check(scope, key)
        with self._lock:
            return self._values.get(scope, {}).get(key)

    def put(self, scope: str, key: str, value: bytes) -> None:
        """Publish a value. A slot that got no answer may repeat it, but may not change it."""
        self.check(scope, key)
        with self._lock:
            known = self._values.get(scope, {}).get(key)
            if known is not None and known != value:
                raise RefusedRequestError(HTTPStatus.CONFLICT, "its key has another value")
            if known is None:
                _, _, process_set = scope.rpartition("_process_set_hash_")
                sets = self._process_sets | {process_set} if scope not in self._sizes else set()
                if len(sets) > _MOST_PROCESS_SETS or len(value) > self._room:
                    raise RefusedRequestError(
                        HTTPStatus.INSUFFICIENT_STORAGE, "there are too many values"
                    )
                self._process_sets |= sets
                self._room -= len(value)
                self._values.setdefault(scope, {})[key] = value

    def finish(self, scope: str, rank: str) -> None:
        """Record that a slot has read a scope; the last slot of a scope clears it."""
        size = self.check(scope, rank)
        if not rank.isdecimal():
            raise RefusedRequestError(HTTPStatus.FORBIDDEN, "its key is no rank of the scope")
        with self._lock:
            if scope not in self._sizes:
                # A process set: the number of its slots is not known.
                self._drop(scope, rank)
                return
            finished = self._finished.setdefault(scope, set())
            finished.add(rank)
            if len(finished) == size:
                del self._finished[scope]
                for key in list(self._values.get(scope, {})):
                    self._drop(scope, key)

    def _drop(self, scope: str, key: str) -> None:
        value = self._values.get(scope, {}).pop(key, None)
        if value is not None:
            self._room += len(value)


class Arrivals:
    """The slots that have published their address."""

    def __init__(self, expected: int) -> None:
        self._expected, self._ranks, self._lock = expected, set[str](), threading.Lock()

    def note(self, scope: str, rank: str) -> None:
        # A slot also publishes its host name, under rank_N.
        if scope != GLOBAL or not rank.isdecimal():
            return
        with self._lock:
            self._ranks.add(rank)
            if len(self._ranks) == self._expected:
                _log.info("all %d slots have joined", self._expected)

    def missing(self) -> str | None:
        left = self._expected - len(self._ranks)
        return f"{left} of {self._expected} slots to join" if left > 0 else None


def read_hosts(variables: Mapping[str, str]) -> list[tuple[str, int]]:
    """Parse the host assignments, such as "digits-worker-0:2,digits-worker-1:2".

    InputError if the variable is missing or invalid.
    """
    text = variables.get(IMAGENET_HOROVOD_HOSTS, "")
    hosts = []
    for part in text.split(","):
        name, _, slots = part.strip().rpartition(":")
        if not name or not slots.isascii() or not slots.isdecimal() or int(slots) < 1:
            raise InputError(f"{IMAGENET_HOROVOD_HOSTS} is {text!r}; write NAME:SLOTS,NAME:SLOTS,…")
        hosts.append((name, int(slots)))
    if len({name for name, _ in hosts}) < len(hosts):
        raise InputError(f"{IMAGENET_HOROVOD_HOSTS} is {text!r}; a name may occur once")
    return hosts


def run(variables: Mapping[str, str]) -> None:
    """Serve until SIGTERM.

    InputError if a variable is missing or invalid, WorkloadError if the port cannot be opened.
    """
    hosts = read_hosts(variables)
    port = number(variables, PORT, 1, 65535)
    environment = Environment.from_mapping(variables)
    address = environment.pod_ip or server.ANY_ADDRESS
    if ":" in address:
        raise InputError(
            f"POD_IP is {address}, and Horovod's rendezvous supports only IPv4; give the pods IPv4 "
            "addresses, or use another strategy"
        )
    scopes = Scopes(scope_sizes(hosts))
    arrivals = Arrivals(scopes.slots)
    registry = server.start(environment, arrivals.missing)
    registry.add(metrics.PEER_REQUESTS_REFUSED, 0)
    try:
        rendezvous = _Server((address, port), scopes, arrivals, registry)
    except OSError as error:
        raise WorkloadError(f"cannot listen on {address} port {port}: {error.strerror}") from error
    _log.info("rendezvous for %s at %s:%d", variables[IMAGENET_HOROVOD_HOSTS], address, port)
    with rendezvous:
        rendezvous.serve_forever()


class _Server(LimitedConnections):
    # A probe may close its connection and come again at once.
    allow_reuse_address = True
    longest_seconds = 30.0

    def __init__(
        self, address: tuple[str, int], scopes: Scopes, arrivals: Arrivals, registry: Registry
    ) -> None:
        self.scopes, self.arrivals, self.registry = scopes, arrivals, registry
        # A slot sends one request at a time.
        self.most_connections = scopes.slots + 64
        super().__init__(address, _Handler)


class _Handler(LimitedRequest, BaseHTTPRequestHandler):
    """Answers the requests of Horovod's HTTPStore: /SCOPE/KEY."""

    server: _Server

    def setup(self) -> None:
        self.most_bytes += self.server.scopes.most_bytes
        super().setup()

    def do_GET(self) -> None:
        self._answer(self.server.scopes.get)

    def do_PUT(self) -> None:
        self._answer(self._put)

    def do_DELETE(self) -> None:
        self._answer(self._delete)

    def log_message(self, format: str, *arguments: object) -> None:
        pass

    def _answer(self, act: Callable[[str, str], bytes | None]) -> None:
        try:
            parts = self.path.split("/")
            if len(parts) != 3 or parts[0]:
                raise RefusedRequestError(HTTPStatus.BAD_REQUEST, "its path is not /SCOPE/KEY")
            value = act(parts[1], parts[2])
            status = HTTPStatus.NOT_FOUND if value is None else HTTPStatus.OK
        except RefusedRequestError as refusal:
            self.server.registry.add(metrics.PEER_REQUESTS_REFUSED, 1)
            _log.warning("refused %.200r of a client: %s", self.requestline, str(refusal))
            value, status = None, refusal.status
        self.send_response(status)
        self.send_header("Content-Length", str(len(value or b"")))
        self.end_headers()
        self.wfile.write(value or b"")

    def _put(self, scope: str, key: str) -> bytes:
        self.server.scopes.check(scope, key)
        text = self.headers.get("Content-Length", "")
        if not (text.isascii() and text.isdecimal()):
            raise RefusedRequestError(HTTPStatus.LENGTH_REQUIRED, "it does not say its length")
        if len(text) > 9 or int(text) > self.server.scopes.most_bytes:
            raise RefusedRequestError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "its value is too long")
        value = self.rfile.read(int(text))
        if len(value) < int(text):
            raise RefusedRequestError(HTTPStatus.BAD_REQUEST, "its value is incomplete")
        self.server.scopes.put(scope, key, value)
        # Before the answer: a slot that has it finds itself counted.
        self.server.arrivals.note(scope, key)
        return b""

    def _delete(self, scope: str, key: str) -> bytes:
        self.server.scopes.finish(scope, key)
        return b""
