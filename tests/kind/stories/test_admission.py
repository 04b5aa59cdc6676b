"""Users who may create ImageNetJobs use no rights beyond their own: a policy of the chart asks."""

from __future__ import annotations

from kind.stories.author import Author
from kind.stories.jobs import IMAGE, Manifest, played
from kind.stories.namespace import StoryNamespace

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
