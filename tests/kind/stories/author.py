"""A user of a story's namespace, with no rights but those that the story gives."""

from __future__ import annotations

import json

import pytest

from kind.kubectl import KubectlError
from kind.stories.jobs import Manifest
from kind.stories.namespace import StoryNamespace
from support.processes import wait_until

AUTHOR = "author"


class Author:
    """A user with no rights but those that it is given."""

    def __init__(self, story: StoryNamespace) -> None:
        self._kubectl = story.kubectl
        self._kubectl.create("serviceaccounts", {"metadata": {"name": AUTHOR}})
        self.name = f"system:serviceaccount:{story.name}:{AUTHOR}"

    def may(self, verbs: str, resource: str, name: str = "") -> None:
        """Give it a right, and wait until the API server knows."""
        role = resource.partition(".")[0]
        of_name = [f"--resource-name={name}"] if name else []
        self._kubectl("create", "role", role, f"--verb={verbs}", f"--resource={resource}", *of_name)
        account = f"--serviceaccount={self._kubectl.namespace}:{AUTHOR}"
        self._kubectl("create", "rolebinding", role, f"--role={role}", account)
        last = verbs.rpartition(",")[2]
        question = ("auth", "can-i", last, f"{resource}/{name}" if name else resource)
        wait_until(
            lambda: self._run(*question, check=False).startswith("yes"), f"{AUTHOR} may {question}"
        )

    def apply(self, job: Manifest) -> None:
        """Apply a job as this user."""
        self._run("apply", "--filename=-", given=json.dumps(job))

    def label(self, job: str, label: str) -> None:
        """Label a job as this user."""
        self._run("label", "imagenetjob", job, label)

    def refusal(self, job: Manifest) -> str:
        """Return what the API server says when this user applies a job."""
        with pytest.raises(KubectlError) as refused:
            self.apply(job)
        return str(refused.value)

    def _run(self, *arguments: str, given: str | None = None, check: bool = True) -> str:
        return self._kubectl(*arguments, f"--as={self.name}", given=given, check=check)
