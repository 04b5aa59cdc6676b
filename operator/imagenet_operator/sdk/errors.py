"""The errors of a client. All of them are `ImageNetJobError`, with a text that says what to do.

Other failures of the API server stay `ClusterError`, such as no answer. A login that is missing or
cannot be used is `NoConnection`, which is an OSError too.
"""

from __future__ import annotations

from collections.abc import Sequence

from imagenet_operator.clusters.interface import ClusterError
from imagenet_spec.errors import ImageNetJobError, InvalidJob, Problem


class NotFound(ImageNetJobError):  # noqa: N818 - the API server's reason of the same name
    """There is no such job, or no such pod of it."""


class Forbidden(ClusterError):  # noqa: N818 - the API server's reason of the same name
    """The user lacks a right.

    Attributes:
        right: The right that is missing: a verb and a resource, as a Role has them.
        namespace: Where it is missing.
    """

    def __init__(self, right: str, namespace: str, said: str) -> None:
        super().__init__(
            f"the right to {right} is missing in the namespace {namespace!r}: {said}; "
            "ask its administrator for a Role with it"
        )
        self.right = right
        self.namespace = namespace


class Rejected(InvalidJob):
    """A job was not accepted: it is invalid, or another one has its name.

    Attributes:
        problems: Each with the path of a field, what is wrong, and a hint what to write instead.
    """

    def __init__(self, problems: Sequence[Problem], head: str = "", remedy: str = "") -> None:
        super().__init__(problems)
        lines = [head, *map(str, self.problems), remedy]
        self.args = ("\n".join(line for line in lines if line),)


class Timeout(ImageNetJobError, TimeoutError):  # noqa: N818 - reads as what happened
    """A job was not in the wanted state in time."""


class JobEnded(ImageNetJobError):  # noqa: N818 - reads as what happened
    """A job has ended before the wanted state, so that it will never be in it.

    Attributes:
        reason: Why it ended: the reason of its condition.
    """

    def __init__(self, text: str, reason: str) -> None:
        super().__init__(text)
        self.reason = reason
