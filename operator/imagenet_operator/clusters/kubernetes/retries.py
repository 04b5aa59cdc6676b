"""When a request to the API server is sent again, and after which pause.

The work queue retries most requests, with the reconcile that they belong to. `client` sends two
kinds again itself: a request to an API server that is too busy, and a create that failed. One pod
that could not be created ends its attempt, so a gang of 1,000 would rarely start whole. Children
have fixed names, so a second create of one name changes nothing.
"""

from dataclasses import dataclass
from typing import Final

TRIES: Final = 5
"""How often a request is sent to a busy API server, and a create to one that fails."""

QUOTA: Final = 100
"""How many creates are sent again if none succeeds, as if a webhook is down."""

QUOTA_OF_SUCCESS: Final = 0.1
"""What each success adds to the quota."""

FIRST_PAUSE: Final = 0.2
"""The pause before a failed create is sent again, in seconds; each further failure doubles it."""

LONGEST_PAUSE: Final = 10.0
"""The longest pause in seconds, even if the API server asks for more."""

TOO_MANY_REQUESTS: Final = 429


@dataclass(frozen=True)
class Answer:
    """What came back for a request that was sent once.

    Attributes:
        code: The HTTP status; 0 if there was no answer.
        text: The content.
        retry_after: The header of that name.
        error: Why there was no answer.
    """

    code: int
    text: bytes = b""
    retry_after: str | None = None
    error: Exception | None = None

    @property
    def is_failure(self) -> bool:
        """Whether the API server failed, or the connection was lost.

        A request that took its whole time is no failure, since the next one may take as long.
        """
        is_lost = self.error is not None and not isinstance(self.error, TimeoutError)
        return is_lost or self.code >= 500


class Retries:
    """The quota of retries that all requests of a client share."""

    def __init__(self) -> None:
        self._quota: float = QUOTA

    def take(self, verb: str, answer: Answer) -> bool:
        """Return whether a request is sent again after an answer; count the answer."""
        if 0 < answer.code < 400:
            self._quota = min(QUOTA, self._quota + QUOTA_OF_SUCCESS)
        if answer.code == TOO_MANY_REQUESTS:
            return True
        if verb != "POST" or not answer.is_failure or self._quota < 1:
            return False
        self._quota -= 1
        return True


def pause(answer: Answer, sent: int) -> float:
    """Return the seconds to wait before a request is sent again.

    Args:
        answer: Its last answer.
        sent: How often it was sent.
    """
    asked = answer.retry_after
    if asked is not None and asked.isdecimal():
        return min(float(asked), LONGEST_PAUSE)
    wait = 1.0 if answer.code == TOO_MANY_REQUESTS else FIRST_PAUSE * 2 ** (sent - 1)
    return min(wait, LONGEST_PAUSE)
