"""The work queue: which job is to be looked at next, with controller-runtime's semantics.

A key is never worked on twice at once; wishes for a key that waits collapse into one, and a wish
for a key that is being worked on is kept until that work is done. Failures back off, per key. Keys
that were only listed, as all are when the operator starts, or of which only what can wait is new,
wait behind the others: somebody may be waiting for an answer there.

Nothing here waits or reads a clock, so that every order of events can be tested; `loop` does both.
"""

import heapq
from collections import deque
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Key = TypeVar("Key")

FIRST_DELAY = 0.1
"""Seconds before the first retry; doubled with each further one."""

LONGEST_DELAY = 60.0
"""The longest wait between two retries, in seconds."""


@dataclass
class WorkQueue(Generic[Key]):
    """Keys that somebody wants looked at, now or later."""

    _urgent: deque[Key] = field(default_factory=deque)
    _patient: deque[Key] = field(default_factory=deque)
    _waiting: dict[Key, bool] = field(default_factory=dict)
    _working: set[Key] = field(default_factory=set)
    _due: dict[Key, float] = field(default_factory=dict)
    _timers: list[tuple[float, int, Key]] = field(default_factory=list)
    _failures: dict[Key, int] = field(default_factory=dict)
    _count: int = 0

    def __len__(self) -> int:
        """How many keys wait to be worked on now; those that are due later do not count."""
        return len(self._waiting)

    def add(self, key: Key, *, patient: bool = False) -> None:
        """Wish that a key be looked at.

        Args:
            key: Whom to look at.
            patient: Whether every other key may go before it.
        """
        if key in self._waiting:
            if patient or not self._waiting[key]:
                return
        elif key in self._working:
            self._waiting[key] = False
            return
        self._waiting[key] = patient
        if key not in self._working:
            (self._patient if patient else self._urgent).append(key)

    def add_at(self, key: Key, due: float) -> None:
        """Wish that a key be looked at at a time, or before; the earliest such wish counts."""
        if key in self._due and self._due[key] <= due:
            return
        self._due[key] = due
        self._count += 1
        heapq.heappush(self._timers, (due, self._count, key))

    def take(self, now: float, *, patient: bool = True) -> Key | None:
        """Return the next key to work on, and call it being worked on; None if there is none.

        Looking at a key fulfils every wish for it, also one for later.

        Args:
            now: The time.
            patient: Whether it may be one that would let others go first.
        """
        self._wake(now)
        for line in (self._urgent, self._patient) if patient else (self._urgent,):
            while line:
                key = line.popleft()
                if key in self._waiting and key not in self._working:
                    del self._waiting[key]
                    self._due.pop(key, None)
                    self._working.add(key)
                    return key
        return None

    def done(self, key: Key) -> None:
        """Say that the work on a key has ended, well or not."""
        self._working.discard(key)
        if key in self._waiting:
            self._urgent.append(key)

    def succeeded(self, key: Key) -> None:
        """Forget the failures of a key."""
        self._failures.pop(key, None)

    def failed(self, key: Key, now: float) -> float:
        """Have a key looked at again after a wait that grows with each failure in a row.

        Returns:
            The wait in seconds.
        """
        count = self._failures.get(key, 0)
        self._failures[key] = count + 1
        delay: float = min(FIRST_DELAY * 2.0 ** min(count, 32), LONGEST_DELAY)
        self.add_at(key, now + delay)
        return delay

    def forget(self, key: Key) -> None:
        """Drop every later wish for a key, and its failures: its job is gone."""
        self._due.pop(key, None)
        self._failures.pop(key, None)

    def next_due(self) -> float | None:
        """Return when the next delayed wish is due; None if there is none."""
        while self._timers:
            due, _, key = self._timers[0]
            if self._due.get(key) == due:
                return due
            heapq.heappop(self._timers)
        return None

    def _wake(self, now: float) -> None:
        while (due := self.next_due()) is not None and due <= now:
            _, _, key = heapq.heappop(self._timers)
            del self._due[key]
            self.add(key)
