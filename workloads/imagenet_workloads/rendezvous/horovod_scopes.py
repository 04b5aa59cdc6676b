"""What Horovod's slots publish to each other: values by scope and key, within bounds.

`horovod_server` answers requests from it. Gloo connects the slots of one scope: all slots, those of
a host, or those of one local rank. Process sets do so again among fewer slots. The scopes and keys
are those of Horovod 0.28.1; the rendezvous knows no passwords, so it refuses all others.
"""

import re
import threading
from collections.abc import Mapping, Sequence
from http import HTTPStatus

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
    """A request that no slot sends.

    Attributes:
        status: The HTTP status of the answer.
    """

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        """Take the status and the reason."""
        super().__init__(reason)
        self.status = status


def scope_sizes(hosts: Sequence[tuple[str, int]]) -> dict[str, int]:
    """Return the number of slots that meet in each scope.

    Args:
        hosts: The names of the hosts and the numbers of their slots.
    """
    sizes = {GLOBAL: sum(slots for _, slots in hosts)}
    for name, slots in hosts:
        sizes[f"local_{name}"] = slots
        for local_rank in range(slots):
            scope = f"cross_{local_rank}"
            sizes[scope] = sizes.get(scope, 0) + 1
    return sizes


class Scopes:
    """The published values; methods are thread-safe and raise RefusedRequestError.

    Attributes:
        slots: The number of all slots.
        most_bytes: The limit of a value.
    """

    def __init__(self, sizes: Mapping[str, int]) -> None:
        """Start empty, for the scopes of `scope_sizes`."""
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
        """Return a value; None if it is not published yet."""
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
                self._make_room(scope, len(value))
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

    def _make_room(self, scope: str, length: int) -> None:
        _, _, process_set = scope.rpartition("_process_set_hash_")
        sets = self._process_sets | {process_set} if scope not in self._sizes else set()
        if len(sets) > _MOST_PROCESS_SETS or length > self._room:
            raise RefusedRequestError(HTTPStatus.INSUFFICIENT_STORAGE, "there are too many values")
        self._process_sets |= sets
        self._room -= length

    def _drop(self, scope: str, key: str) -> None:
        value = self._values.get(scope, {}).pop(key, None)
        if value is not None:
            self._room += len(value)
