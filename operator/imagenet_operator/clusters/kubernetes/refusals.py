"""Refusals of the API server, as the reconciler keeps them until a decision is applied whole.

The last one of each job is part of the next `Observed`, so that its condition can say it. Each one
is an event of the job; those that differ only in names and numbers are one series.
"""

import re
from typing import Final

from imagenet_operator.clusters.interface import JobKey
from imagenet_operator.clusters.kubernetes.client import ApiError
from imagenet_operator.reconcile.context import EVENT_MAXIMUM
from imagenet_operator.reconcile.types import Event, Refusal

_NAMES_AND_NUMBERS: Final = re.compile(r'"[^"]*"|[0-9]+')

_PASSING: Final = frozenset({401, 404, 409, 429})
"""Codes that say nothing about what was sent."""


class Refusals:
    """The last refusal of each job.

    Attributes:
        latest: The job → what the API server said last.
    """

    def __init__(self) -> None:
        self.latest: dict[JobKey, Refusal] = {}
        self._episodes: dict[JobKey, int] = {}

    def note(self, key: JobKey, error: ApiError) -> Refusal | None:
        """Keep an error as the job's last refusal; None if it is none."""
        if not _is_refusal(error):
            return None
        self.latest[key] = Refusal(error.message)
        return self.latest[key]

    def end(self, key: JobKey) -> None:
        """End a job's refusals: a decision was applied whole. The next one begins a new series."""
        if self.latest.pop(key, None) is not None:
            self._episodes[key] = self._episodes.get(key, 0) + 1

    def forget(self, key: JobKey) -> None:
        """Drop what is known of a job that is gone."""
        self.latest.pop(key, None)
        self._episodes.pop(key, None)

    def event(self, key: JobKey, error: ApiError) -> Event | None:
        """Return the event about an error; None if it is not about what was sent."""
        if not 400 <= error.code < 500:
            return None
        series = f"{self._episodes.get(key, 0)} {_NAMES_AND_NUMBERS.sub('', error.message)}"
        return Event("Warning", "ApiServerRefused", error.message[:EVENT_MAXIMUM], series)


def _is_refusal(error: ApiError) -> bool:
    """Whether the same request would be refused again.

    A create that fails was sent several times. The refusal of a status cannot be in the status.
    """
    if error.code in _PASSING or error.request.startswith("PUT "):
        return False
    return 400 <= error.code < 500 or (error.code >= 500 and error.request.startswith("POST "))
