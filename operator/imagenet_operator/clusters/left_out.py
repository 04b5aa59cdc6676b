"""The members that are left out of a sample, in one bounded sentence for the log and the status.

Each change of the sentence is a write of the status. So it changes only when it is no longer true:
which members have no time left may differ in every sample.
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
        """Return what is said after another sample: the same, as long as it is true.

        Args:
            found: Pod name → the limit that it exceeds, of all that are left out.
            members: The names of the pods that were sampled.
        """
        limits = frozenset(found.values())
        if limits == self.limits and all(
            pod in (members if limit == NO_TIME else found) for pod, limit in self.named.items()
        ):
            return self
        # Members that exceed a limit of their own first: they explain why others have no time.
        order = sorted(found, key=lambda pod: (found[pod] == NO_TIME, pod))
        named = {pod: found[pod] for pod in order[:_MOST_NAMES]}
        sentence = ", ".join(f"{pod} ({limit})" for pod, limit in named.items())
        others = len(found) - len(named)
        return LeftOut(limits, named, f"{sentence} and {others} more" if others else sentence)
