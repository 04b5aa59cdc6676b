"""Images and models in a bucket, with the keys of a Secret.

Images come from a cache, in place, and published; a model is uploaded, another job starts from it,
and a user downloads it when its claim is gone.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from pathlib import Path

from kind.seaweedfs import server as bucket
from kind.stories.author import Author
from kind.stories.jobs import (
    ARCHIVE,
    AT_CHECKPOINT,
    CLAIM,
    VALIDATED,
    Manifest,
    from_archive,
    trained,
)
from kind.stories.namespace import OF_JOB, ROLE, StoryNamespace
from kind.stories.release import Release
from kind.stories.user import User

STEPS = {"story-index", "story-pack", "story-seal"}
PLACE = {"bucket": bucket.BUCKET, "endpoint": bucket.ENDPOINT, "secretName": bucket.SECRET}
ON_CLAIM = {"volume": {"claimName": CLAIM}}
UPLOADED_FROM_CLAIM = {**ON_CLAIM, "upload": {"s3": {**PLACE, "prefix": "models"}}}
PUBLISHED = {"s3": {**PLACE, "prefix": "published/digits"}}


def test_a_job_trains_on_an_archive_that_it_fetches_from_a_bucket(story: StoryNamespace) -> None:
    fill_bucket(story)
    story.kubectl.apply(from_bucket(cache={"claimName": CLAIM}))
    check_training(story)
    assert steps(story) == {*STEPS, "story-fetch"}
    assert steps_with_keys(story) == {"story-fetch"}


def test_an_author_under_the_strict_profile_needs_the_right_to_get_the_secret(
    story: StoryNamespace, release: Release
) -> None:
    release.upgrade("--set=templates.profile=strict")
    fill_bucket(story)
    author = Author(story)
    author.may("create,get,patch", "imagenetjobs.imagenet.dev")
    author.may("create", "pods")
    refusal = author.refusal(from_bucket())
    assert f"{author.name} may not get the Secret {bucket.SECRET} in the namespace" in refusal

    author.may("get", "secrets", bucket.SECRET)
    with_volume = {"volumes": [{"name": "keys", "secret": {"secretName": bucket.SECRET}}]}
    author.apply(from_bucket(name="copies", template=with_volume))
    story.wait_for_condition("Failed", "copies", reason="InvalidTemplate")

    author.apply(from_bucket())
    check_training(story)
    assert steps(story) == STEPS
    assert steps_with_keys(story) == STEPS - {"story-seal"}


def test_a_job_trains_from_the_dataset_that_another_one_publishes(
    story: StoryNamespace, tmp_path: Path
) -> None:
    fill_bucket(story)
    at = {"worker": AT_CHECKPOINT.format(1)}
    story.kubectl.apply(from_bucket(publish=PUBLISHED, hold_at=at))
    story.wait_until_held("worker")
    story.wait_for_condition("DatasetPublished")
    story.release("worker")
    check_training(story)
    assert steps(story) == {*STEPS, "story-publish"}
    assert steps_with_keys(story) == {"story-index", "story-pack", "story-publish"}

    key = story.job()["status"]["dataset"]["key"]
    shutil.rmtree(story.data / "datasets")
    story.kubectl.apply(from_published("second", {"output": UPLOADED_FROM_CLAIM}))

    status = story.wait_for_condition("ModelUploaded", "second")
    assert (status["restarts"], status["disruptions"]) == (0, 0)
    result = story.result(status, "second")
    assert (result["dataset"]["key"], result["validation"]["images"]) == (key, VALIDATED)
    assert not (story.data / "datasets").exists()
    pods = story.pods(job="second")
    assert {role(pod) for pod in pods} == {"scheduler", "server", "worker", "upload"}
    with_keys = {role(pod) for pod in pods if bucket.SECRET in str(pod["spec"])}
    assert with_keys == {"worker", "upload"}

    model, attempt = status["model"], story.output("second") / "attempts" / "r0"
    assert model["bucket"] == bucket.BUCKET
    assert model["sha256"] == hashlib.sha256((attempt / "result.json").read_bytes()).hexdigest()
    shutil.rmtree(story.data / "jobs")
    start = {"s3": {**PLACE, "prefix": model["path"].partition("/attempts/")[0]}}
    story.kubectl.apply(from_published("third", {"checkpoint": {"initFromRemote": start}}))
    story.wait_for_condition("Succeeded", "third")
    begun = (story.output("third") / "attempts" / "r0" / "metrics.jsonl").read_text()
    assert "/epoch-0001-batch-00000000" in json.loads(begun.splitlines()[0])["resumedFrom"]

    # Pods keep it, also those that have ended.
    story.kubectl("delete", "pods", f"--selector={OF_JOB}")
    story.kubectl("delete", "pods", "upload")
    story.kubectl("delete", "persistentvolumeclaims", CLAIM, "--timeout=120s")
    user = User(story, tmp_path)
    assert f"the claim {CLAIM} is gone" in user.imagenetctl("download", "second", "--to", "model")
    document = (tmp_path / "model" / "result.json").read_bytes()
    assert hashlib.sha256(document).hexdigest() == model["sha256"]
    for name, file in json.loads(document)["files"].items():
        content = (tmp_path / "model" / name).read_bytes()
        assert hashlib.sha256(content).hexdigest() == file["sha256"], name


def fill_bucket(story: StoryNamespace) -> None:
    """Leave the archive of raw images in a bucket alone."""
    story.make_archive()
    bucket.start(story.kubectl)
    bucket.upload(story.kubectl, ARCHIVE)
    (story.data / ARCHIVE).unlink()


def from_bucket(
    name: str = "story",
    cache: Manifest | None = None,
    template: Manifest | None = None,
    publish: Manifest | None = None,
    hold_at: Mapping[str, str] | None = None,
) -> Manifest:
    """Return a job with one worker that trains on the archive in the bucket."""
    source = {"s3": {**PLACE, "key": ARCHIVE, **({} if cache is None else {"cache": cache})}}
    dataset = {**from_archive(), "source": source}
    return trained(
        name,
        epochs=2,
        strategy={"single": {"kvStore": "local"}},
        workers={"replicas": 1},
        dataset=dataset if publish is None else {**dataset, "publish": publish},
        hold_at=hold_at,
        template=template,
    )


def from_published(name: str, training: Manifest) -> Manifest:
    """Return a job whose two workers train from the published dataset; all its pods stay.

    `training` has fields to add or replace.
    """
    return trained(
        name,
        epochs=1,
        dataset={"source": {"prepared": PUBLISHED}},
        workers={"cache": {"size": "100Mi"}},
        training={"output": ON_CLAIM, **training},
        run_policy={"cleanPodPolicy": "None"},
    )


def check_training(story: StoryNamespace) -> None:
    """Check that the job succeeds with all classes, at once."""
    status = story.wait_for_condition("Succeeded")
    assert (status["restarts"], status["disruptions"]) == (0, 0)
    assert status["dataset"]["classes"] == 9


def steps(story: StoryNamespace) -> set[str]:
    """The Jobs of the preparation."""
    return {item["metadata"]["name"] for item in story.kubectl.all("jobs")}


def steps_with_keys(story: StoryNamespace) -> set[str]:
    """Those that name the Secret with the keys."""
    return {
        name
        for name in steps(story)
        if bucket.SECRET in str(story.kubectl.get("jobs", name)["spec"])
    }


def role(pod: Manifest) -> str:
    """The role of a job's pod."""
    return str(pod["metadata"]["labels"][ROLE])
