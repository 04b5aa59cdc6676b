"""Jobs that do not start: the condition names the cause, nothing is charged, and a cure helps."""

from __future__ import annotations

import pytest

from kind.stories.jobs import Manifest, played
from kind.stories.namespace import StoryNamespace, condition

NO_IMAGE = "localhost:9/no-such-image:1"


def says(status: Manifest, kind: str, reasons: set[str], words: str) -> bool:
    """Whether a condition has one of the reasons, and these words in its message."""
    found = {item["type"]: item for item in status.get("conditions", ())}.get(kind, {})
    return found.get("reason") in reasons and words in found["message"]


def was_not_charged(status: Manifest) -> bool:
    """Whether a job has had no restart and no second attempt."""
    return (status["restarts"], status["training"]["attempt"]) == (0, 0)


def test_an_image_that_does_not_exist_ends_the_job_uncharged(story: StoryNamespace) -> None:
    policy = {"startDeadlineSeconds": 40, "progressDeadlineSeconds": 20}
    story.kubectl.apply(played(prepared=True, training={"image": NO_IMAGE}, run_policy=policy))

    reasons = {"ImagePullBackOff", "ErrImageNeverPull"}
    story.wait_for_job(lambda status: says(status, "Running", reasons, "worker"))
    status = story.wait_for_condition("Failed", reason="StartDeadlineExceeded")

    failed = condition(status, "Failed")
    assert failed is not None
    assert NO_IMAGE in failed["message"]
    assert "spec.training.image" in failed["message"] or "imagePullPolicy" in failed["message"]
    assert was_not_charged(status)


@pytest.mark.parametrize(
    ("hard", "words"),
    [
        ("count/jobs.batch=0", "the API server refuses it"),
        ("pods=0", "its pods cannot be created"),
    ],
)
def test_a_quota_is_in_the_condition_until_it_is_raised(
    story: StoryNamespace, hard: str, words: str
) -> None:
    story.set_quota("small", hard)
    story.kubectl.apply(played())
    story.wait_for_job(lambda status: says(status, "DatasetReady", {"QuotaExceeded"}, words))

    story.kubectl("delete", "quota", "small")

    assert was_not_charged(story.wait_for_condition("Succeeded"))


def test_a_missing_secret_is_in_the_condition_until_it_is_created(story: StoryNamespace) -> None:
    job = played(prepared=True)
    pod = job["spec"]["training"]["workers"]["template"]["spec"]
    pod["volumes"].append({"name": "keys", "secret": {"secretName": "keys"}})
    # A kubelet ignores volumes that no container mounts.
    pod["containers"][0]["volumeMounts"].append({"name": "keys", "mountPath": "/keys"})
    story.kubectl.apply(job)
    story.wait_for_job(lambda status: says(status, "Running", {"FailedMount"}, 'secret "keys"'))

    story.kubectl("create", "secret", "generic", "keys", "--from-literal=token=t")

    status = story.wait_for_condition("Succeeded")
    assert was_not_charged(status)
    # A job that ends at once may have ended before the cure was recorded.
    assert status["startErrors"].keys() in ({"since"}, {"cleared"})
