"""Users who may create ImageNetJobs use no rights beyond their own: a policy of the chart asks."""

from __future__ import annotations

import json

import pytest

from kind.kubectl import KubectlError
from kind.stories.jobs import IMAGE, Manifest, played
from kind.stories.namespace import StoryNamespace
from support.processes import wait_until

AUTHOR = "author"
LOGIN = "login"


def test_an_author_of_jobs_needs_the_rights_that_its_pods_use(story: StoryNamespace) -> None:
    author = Author(story)
    author.may("create,get,patch", "imagenetjobs.imagenet.dev")
    assert f"{author.name} may not create pods in the namespace" in author.refusal(played())

    author.may("create", "pods")
    with_secret = played(template=reading(LOGIN))
    refusal = author.refusal(with_secret)
    assert f"{author.name} may not get the Secret {LOGIN} in the namespace" in refusal

    author.may("get", "secrets", LOGIN)
    story.kubectl("create", "secret", "generic", LOGIN, "--from-literal=key=value")
    author.apply(with_secret)
    story.wait_for_condition("Succeeded")


def test_an_update_is_asked_about_if_it_changes_the_spec(story: StoryNamespace) -> None:
    author = Author(story)
    author.may("create,get,patch", "imagenetjobs.imagenet.dev")
    # The operator leaves it alone, so its template may change.
    elsewhere: Manifest = {"managedBy": "example.com/other"}
    story.kubectl.apply(played(run_policy=elsewhere))

    author.label("story", "team=vision")
    assert "may not create pods" in author.refusal(
        played(run_policy={**elsewhere, "suspend": True})
    )
    author.may("create", "pods")
    author.apply(played(run_policy={**elsewhere, "suspend": True}))
    refusal = author.refusal(played(run_policy=elsewhere, template=reading(LOGIN)))
    assert f"{author.name} may not get the Secret {LOGIN} in the namespace" in refusal


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


def reading(secret: str) -> Manifest:
    """Return fields of a pod that fails unless it reads the value of a Secret."""
    key = {"secretKeyRef": {"name": secret, "key": "key"}}
    reader = {
        "name": "reader",
        "image": IMAGE,
        "command": ["sh", "-c", 'test "$KEY" = value'],
        "env": [{"name": "KEY", "valueFrom": key}],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    return {"initContainers": [reader]}
