"""The errors of the control side: one small tree, caught as a whole by the command line.

Everything a user can cause is an `ImageNetJobError`; its text alone says what to change.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from imagenet_operator.api.problems import Problem


class ImageNetJobError(Exception):
    """The root of every error that this package raises on purpose."""


class UnreadableManifest(ImageNetJobError):  # noqa: N818 - named for the file's state, as its siblings
    """A file is missing, or is not YAML that Kubernetes would take."""

    def __init__(self, source: str, message: str) -> None:
        super().__init__(f"{source}: {message}")
        self.source = source
        self.message = message


class InvalidJob(ImageNetJobError):  # noqa: N818 - the reason of the Failed condition
    """A manifest that the API server, or the operator after it, would refuse."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


class InvalidTemplate(ImageNetJobError):  # noqa: N818 - the reason of the Failed condition
    """A pod template that overrides a field the operator owns, or that cannot be merged.

    Attributes:
        path: Where, from the root of the manifest, as ``spec.training.workers.template.spec``.
        message: What is wrong there and what to write instead.
    """

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}")
        self.path = path
        self.message = message
