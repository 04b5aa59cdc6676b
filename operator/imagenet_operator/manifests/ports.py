"""The ports of an attempt's members, beside that of the metrics: the same in every strategy.

A strategy's module takes from here what its members need; `imagenetctl run` keeps the metrics off
them.
"""

from __future__ import annotations

MEETING = 9091
"""Where the member listens that introduces the others: a scheduler, a rendezvous."""

MEMBER = 9092
"""Where every other member listens."""
