"""A scrape: the series of one pod that the operator reads, from its Prometheus text.

A pod is not trusted. Its text is read in pieces as they arrive, in time that grows with its length
alone. Only the series that the operator reads are kept, so a scrape is small whatever the pod
answers. `clusters.sampler` limits the length of a text; `sample` puts scrapes together.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Final

from imagenet_spec import metrics
from imagenet_spec.metrics import ATTEMPT_LABEL, PHASE_LABEL, ROLE_LABEL, SLOT_LABEL
from imagenet_spec.resource.figures import COUNT
from imagenet_spec.resource.time_status import WORKER_PHASES

_BEFORE_EXCHANGE: Final = metrics.TRAIN_BEFORE_EXCHANGE.name
_EXCHANGES: Final = metrics.TRAIN_EXCHANGES.name

BY_LABEL: Final = (
    metrics.TRAIN_PHASE.name,
    metrics.TRAIN_SECONDS.name,
    _BEFORE_EXCHANGE,
    _EXCHANGES,
)
"""The series of which a scrape keeps the values by a label: the phase or the slot."""

_LABELS: Final = (ROLE_LABEL, ATTEMPT_LABEL, PHASE_LABEL, SLOT_LABEL)

LINE_MAXIMUM: Final = 1024
"""Bytes of a line that is read. Lines of the workloads have 300; longer ones are passed over."""

_MOST_DIGITS: Final = 10
"""Of the number of an attempt: as many as 2³¹ has."""

_LONGEST_PHASE: Final = 32

_LABEL: Final = re.compile(r'\s*([a-zA-Z_]\w*)\s*=\s*"([^"\\]*(?:\\.[^"\\]*)*)"\s*(?:,|$)')


@dataclass(frozen=True)
class BeforeExchange:
    """The seconds of a process before its exchanges of gradients, and how many these were."""

    seconds: float
    exchanges: float

    def since(self, earlier: BeforeExchange) -> BeforeExchange:
        return BeforeExchange(self.seconds - earlier.seconds, self.exchanges - earlier.exchanges)


@dataclass(frozen=True)
class Scrape:
    """One pod's series: name → value, with the labels that all of them carry."""

    role: str
    attempt: int | None
    values: Mapping[str, float]
    phase: str = ""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """By phase of a worker's time."""
    before_exchange: Mapping[str, BeforeExchange] = field(default_factory=dict)
    """By slot; the slot is empty if the worker has only one process."""


class ScrapeReader:
    """Reads one pod's text, piece by piece."""

    def __init__(self, wanted: Collection[str]) -> None:
        self._wanted = wanted
        self._rest = b""
        self._passes_over = False
        self._is_damaged = False
        self._labels: dict[str, str] = {}
        self._values: dict[str, float] = {}
        self._phase = ""
        self._seconds: dict[str, float] = {}
        self._slots: dict[str, dict[str, float]] = {_BEFORE_EXCHANGE: {}, _EXCHANGES: {}}

    def feed(self, piece: bytes) -> None:
        *lines, rest = piece.split(b"\n")
        for line in lines:
            self._extend(line)
            if not self._passes_over:
                try:
                    self._read(self._rest.decode())
                except ValueError:
                    self._is_damaged = True
            self._rest, self._passes_over = b"", False
        self._extend(rest)

    def scrape(self) -> Scrape | None:
        """Return what was read; None if the text is damaged or does not end with a line's end.

        The answer of a pod that is killed may be cut anywhere, even within a number.
        """
        if self._is_damaged or self._rest or self._passes_over:
            return None
        attempt = attempt_number(self._labels.get(ATTEMPT_LABEL, ""))
        seconds, exchanges = self._slots[_BEFORE_EXCHANGE], self._slots[_EXCHANGES]
        return Scrape(
            self._labels.get(ROLE_LABEL, ""),
            attempt,
            self._values,
            self._phase,
            self._seconds,
            {
                slot: BeforeExchange(spent, exchanges[slot])
                for slot, spent in seconds.items()
                if slot in exchanges
            },
        )

    def _extend(self, text: bytes) -> None:
        """Keep the beginning of a line; no more of it than a line may have."""
        if len(self._rest) + len(text) > LINE_MAXIMUM:
            self._passes_over = True
        self._rest = b"" if self._passes_over else self._rest + text

    def _read(self, line: str) -> None:
        """Read a line: a comment, or ``name{label="value",…} value [timestamp]``."""
        line = line.strip()
        if not line or line.startswith("#"):
            return
        name, labels, value = _parts(line)
        is_wanted = name in self._wanted
        self._labels.pop(SLOT_LABEL, None)  # not every series has it
        if is_wanted or not self._labels:
            found = {}
            position = 0
            while position < len(labels):
                label = _LABEL.match(labels, position)
                if label is None:
                    raise ValueError("a label is malformed")
                position = label.end()
                if label[1] in _LABELS:
                    found[label[1]] = label[2]
            self._labels |= found
        phase = self._labels.get(PHASE_LABEL, "")
        if name == metrics.TRAIN_PHASE.name and value:
            self._phase = phase[:_LONGEST_PHASE]
        if name == metrics.TRAIN_SECONDS.name and phase in WORKER_PHASES:
            self._seconds[phase] = value
        slot = self._labels.get(SLOT_LABEL, "")
        if (
            name in self._slots
            and isfinite(value)
            and (not slot or (slot.isdecimal() and len(slot) <= _MOST_DIGITS))
        ):
            self._slots[name][slot] = value
        # NaN and infinity, which a gauge may hold, are ignored.
        if is_wanted and isfinite(value):
            self._values[name] = self._values.get(name, 0.0) + value


def attempt_number(text: str) -> int | None:
    """Return the number of an attempt; None for any other text that an image may report."""
    return int(text) if text.isdecimal() and len(text) <= _MOST_DIGITS else None


def _parts(line: str) -> tuple[str, str, float]:
    name, brace, rest = line.partition("{")
    labels = ""
    if brace:
        labels, brace, rest = rest.rpartition("}")
        if not brace:
            raise ValueError("the labels have no end")
    else:
        name, _, rest = line.replace("\t", " ").partition(" ")
    numbers = rest.split()
    if len(numbers) not in (1, 2):
        raise ValueError("a series has one value, and perhaps a time")
    return name.strip(), labels, float(numbers[0])


def summed(scrapes: list[Scrape], name: str) -> float | None:
    """Return the sum of a series over pods; None if none of them has it."""
    values = [item.values[name] for item in scrapes if name in item.values]
    return sum(values) if values else None


def count(value: float | None) -> int | None:
    """Return a count; None for a value that an image may report and no status could hold."""
    accepted = COUNT.accepted(value)
    return None if accepted is None else int(accepted)
