"""Images in a bucket, with the keys of a Secret: by way of a cache, and read in place."""

from __future__ import annotations

from kind.seaweedfs import server as bucket
from kind.stories.author import Author
from kind.stories.jobs import ARCHIVE, CLAIM, Manifest, from_archive, trained
from kind.stories.namespace import StoryNamespace
from kind.stories.release import Release

STEPS = {"story-index", "story-pack", "story-seal"}


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


def fill_bucket(story: StoryNamespace) -> None:
    """Leave the archive of raw images in a bucket alone."""
    story.make_archive()
    bucket.start(story.kubectl)
    bucket.upload(story.kubectl, ARCHIVE)
    (story.data / ARCHIVE).unlink()


def from_bucket(
    name: str = "story", cache: Manifest | None = None, template: Manifest | None = None
) -> Manifest:
    """Return a job with one worker that trains on the archive in the bucket."""
    place = {
        "bucket": bucket.BUCKET,
        "key": ARCHIVE,
        "endpoint": bucket.ENDPOINT,
        "secretName": bucket.SECRET,
    }
    source = {"s3": {**place, **({} if cache is None else {"cache": cache})}}
    return trained(
        name,
        epochs=2,
        strategy={"single": {"kvStore": "local"}},
        workers={"replicas": 1},
        dataset={**from_archive(), "source": source},
        template=template,
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
