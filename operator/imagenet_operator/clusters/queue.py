"""The work queue: which job `loop` reconciles next, with controller-runtime's semantics.

A key is never worked on twice at once. Adding a key that waits changes nothing; adding one that is
being worked on adds it again when that work is done. Failures back off, per key. Keys of low
priority come after all others: jobs that were only listed, as at the operator's start, and jobs
with debounced events alone.

The queue neither waits nor reads a clock, so that every order of events can be tested; `loop` does.
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
    """Keys to work on, now or later."""

    _urgent: deque[Key] = field(default_factory=deque)
    _low_priority: deque[Key] = field(default_factory=deque)
    _waiting: dict[Key, bool] = field(default_factory=dict)
    _working: set[Key] = field(default_factory=set)
    _due: dict[Key, float] = field(default_factory=dict)
    _timers: list[tuple[float, int, Key]] = field(default_factory=list)
    _failures: dict[Key, int] = field(default_factory=dict)
    _count: int = 0

    def __len__(self) -> int:
        """How many keys wait to be worked on now; those that are due later do not count."""
        return len(self._waiting)

    def add(self, key: Key, *, low_priority: bool = False) -> None:
        """Add a key.

        Args:
            key: The key.
            low_priority: Whether every other key goes before it.
        """
        if key in self._waiting:
            if low_priority or not self._waiting[key]:
                return
        elif key in self._working:
            self._waiting[key] = False
            return
        self._waiting[key] = low_priority
        if key not in self._working:
            (self._low_priority if low_priority else self._urgent).append(key)

    def add_at(self, key: Key, due: float) -> None:
        """Add a key at a time; the earliest of several times counts."""
        if key in self._due and self._due[key] <= due:
            return
        self._due[key] = due
        self._count += 1
        heapq.heappush(self._timers, (due, self._count, key))

    def get(self, now: float, *, low_priority: bool = True) -> Key | None:
        """Return the next key and mark it as being worked on; None if there is none.

        This drops every other entry of the key, also one for later.

        Args:
            now: The time.
            low_priority: Whether a key of low priority will do.
        """
        while (due := self.next_due()) is not None and due <= now:
            _, _, timed = heapq.heappop(self._timers)
            del self._due[timed]
            self.add(timed)
        for line in (self._urgent, self._low_priority) if low_priority else (self._urgent,):
            while line:
                key = line.popleft()
                if key in self._waiting and key not in self._working:
                    del self._waiting[key]
                    self._due.pop(key, None)
                    self._working.add(key)
                    return key
        return None

    def done(self, key: Key) -> None:
        """Mark the work on a key as ended, successful or not."""
        self._working.discard(key)
        if key in self._waiting:
            self._urgent.append(key)

    def succeeded(self, key: Key) -> None:
        """Forget the failures of a key."""
        self._failures.pop(key, None)

    def failed(self, key: Key, now: float) -> float:
        """Add a key again after a wait that grows with each failure in a row.

        Returns:
            The wait in seconds.
        """
        count = self._failures.get(key, 0)
        self._failures[key] = count + 1
        delay: float = min(FIRST_DELAY * 2.0 ** min(count, 32), LONGEST_DELAY)
        self.add_at(key, now + delay)
        return delay

    def forget(self, key: Key) -> None:
        """Drop the later entry of a key and its failures: its job is gone."""
        self._due.pop(key, None)
        self._failures.pop(key, None)

    def next_due(self) -> float | None:
        """Return when the next delayed key is due; None if there is none."""
        while self._timers:
            due, _, key = self._timers[0]
            if self._due.get(key) == due:
                return due
            heapq.heappop(self._timers)
        return None
