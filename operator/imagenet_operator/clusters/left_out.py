"""The members that are left out of a sample, in one bounded sentence for the log and the status.

Each change of the sentence is a write of the status. So it changes only when it is no longer true,
or lacks a member that exceeds a limit of its own. Which members have no time left may differ in
every sample: such a member keeps the limit that it exceeded before.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from imagenet_operator.clusters.scraper import NO_TIME

_MOST_NAMES: Final = 5


@dataclass(frozen=True)
class LeftOut:
    """Members that are left out.

    Attributes:
        limits: The limits that they exceed.
        named: Pod name → the limit that it exceeds, of those in the sentence.
        sentence: All of it in words; empty if no member is left out.
    """

    limits: frozenset[str] = frozenset()
    named: Mapping[str, str] = field(default_factory=dict)
    sentence: str = ""

    def updated(self, found: Mapping[str, str], members: Collection[str]) -> LeftOut:
        """Return what is said after another sample: the same, as long as it is true and complete.

        Args:
            found: Pod name → the limit that it exceeds, of all that are left out.
            members: The names of the pods that were sampled.
        """
        limits = frozenset(found.values())
        is_true = limits == self.limits and all(
            pod in (members if limit == NO_TIME else found) for pod, limit in self.named.items()
        )
        own = {pod: limit for pod, limit in self.named.items() if limit != NO_TIME}
        lacks_none = len(own) == _MOST_NAMES or all(
            pod in own for pod, limit in found.items() if limit != NO_TIME
        )
        if is_true and lacks_none:
            return self
        known = {
            pod: own.get(pod, limit) if limit == NO_TIME else limit for pod, limit in found.items()
        }
        # Members that exceed a limit of their own first: they explain why others have no time.
        order = sorted(known, key=lambda pod: (known[pod] == NO_TIME, pod))
        named = {pod: known[pod] for pod in order[:_MOST_NAMES]}
        sentence = ", ".join(f"{pod} ({limit})" for pod, limit in named.items())
        others = len(found) - len(named)
        return LeftOut(limits, named, f"{sentence} and {others} more" if others else sentence)
