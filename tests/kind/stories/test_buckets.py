"""Images in a bucket, with the keys of a Secret: read in place, and by way of a cache."""

from __future__ import annotations

import pytest

from kind.seaweedfs import server as bucket
from kind.stories.jobs import ARCHIVE, CLAIM, Manifest, from_archive, trained
from kind.stories.namespace import StoryNamespace


@pytest.mark.parametrize("cache", [{}, {"cache": {"claimName": CLAIM}}], ids=["in place", "cached"])
def test_a_job_trains_on_an_archive_in_a_bucket(story: StoryNamespace, cache: Manifest) -> None:
    story.make_archive()
    bucket.start(story.kubectl)
    bucket.upload(story.kubectl, ARCHIVE)
    (story.data / ARCHIVE).unlink()
    place = {
        "bucket": bucket.BUCKET,
        "key": ARCHIVE,
        "endpoint": bucket.ENDPOINT,
        "secretName": bucket.SECRET,
    }
    story.kubectl.apply(
        trained(
            epochs=2,
            strategy={"single": {"kvStore": "local"}},
            workers={"replicas": 1},
            dataset={**from_archive(), "source": {"s3": {**place, **cache}}},
        )
    )

    status = story.wait_for_condition("Succeeded")

    assert (status["restarts"], status["disruptions"]) == (0, 0)
    assert status["dataset"]["classes"] == 9
    jobs = {job["metadata"]["name"] for job in story.kubectl.all("jobs")}
    fetched = {"story-fetch"} if cache else set()
    assert jobs == {"story-index", "story-pack", "story-seal", *fetched}
    with_keys = {
        name for name in jobs if bucket.SECRET in str(story.kubectl.get("jobs", name)["spec"])
    }
    assert with_keys == (fetched or {"story-index", "story-pack"})
