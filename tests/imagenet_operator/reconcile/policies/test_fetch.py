"""The progress of a fetch: from the sample, after the end from the Job, in words by percent."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from imagenet_operator.reconcile.policies import job_status, reading
from imagenet_operator.reconcile.sample import Preparation, Sample, sample_of
from imagenet_operator.reconcile.scrape import Scrape
from imagenet_operator.reconcile.types import PreparationJob
from imagenet_spec.resource.dataset_status import DatasetStatus, FetchStatus, ImageCounts
from imagenet_spec.resource.status import Status
from support.sentences import assert_says

NOW = datetime(2026, 1, 2, tzinfo=UTC)
GIB = 1 << 30
RUNNING = PreparationJob("fetch", "digits-fetch", "uid-f", active=1)
HALF = FetchStatus(bytes=GIB, total_bytes=2 * GIB, estimated_remaining_seconds=60)


def sample(fetched: int, to_fetch: int, speed: float = 0.0) -> Sample:
    heard = Preparation(fetched=fetched, to_fetch=to_fetch, fetch_speed=speed)
    return Sample(NOW, preparation={"fetch": heard})


def scraped(previous: Sample | None, seconds: int, fetched: int) -> Sample:
    """Return the sample of a pod that reports so many bytes after so many seconds."""
    values = {
        "imagenet_prepare_fetched_bytes": float(fetched),
        "imagenet_prepare_fetch_planned_bytes": 2.0 * GIB,
    }
    now = NOW + timedelta(seconds=seconds)
    return sample_of({"digits-fetch-x": Scrape("fetch", None, values)}, previous, now)


def test_the_remaining_time_follows_from_the_speed_between_samples() -> None:
    first = scraped(None, 0, 0)
    assert reading.fetch_progress(None, RUNNING, first) == FetchStatus(bytes=0, total_bytes=2 * GIB)
    second = scraped(first, 16, GIB)
    assert reading.fetch_progress(None, RUNNING, second) == FetchStatus(
        bytes=GIB, total_bytes=2 * GIB, estimated_remaining_seconds=16
    )
    slower = reading.fetch_progress(None, RUNNING, scraped(second, 32, GIB + GIB // 2))
    assert slower is not None
    assert slower.estimated_remaining_seconds == 9, "three quarters of it are the former speed"


def asking(asked: int, files: int = 1200, to_fetch: int = 0) -> Sample:
    heard = Preparation(fetch_files=files, asked_files=asked, to_fetch=to_fetch)
    return Sample(NOW, preparation={"fetch": heard})


def test_before_the_bytes_are_known_the_files_are_counted_that_were_asked_for() -> None:
    values = {"imagenet_prepare_fetch_files": 1200.0, "imagenet_prepare_fetch_asked_files": 300.0}
    first = sample_of({"digits-fetch-x": Scrape("fetch", None, values)}, None, NOW)
    found = reading.fetch_progress(None, RUNNING, first)
    assert found == FetchStatus(files=1200, asked_files=300)
    assert_says(reading.fetch_message(found), "1,200 files", "25 %")
    assert DatasetStatus(fetch=found).to_manifest()["fetch"] == {
        "bytes": 0,
        "files": 1200,
        "askedFiles": 300,
    }
    # They are of no use when the bytes are known.
    found = reading.fetch_progress(found, RUNNING, asking(1200, to_fetch=2 * GIB))
    assert found == FetchStatus(total_bytes=2 * GIB)
    done = PreparationJob("fetch", "f", "u", complete=True)
    assert reading.fetch_progress(FetchStatus(files=2, asked_files=1), done, None) == FetchStatus()


def test_one_file_is_not_counted_in_words() -> None:
    assert (
        reading.fetch_message(reading.fetch_progress(None, RUNNING, asking(0, files=1)))
        == "fetching the source"
    )


def test_each_percent_of_the_files_is_news_and_worth_a_write_by_its_condition() -> None:
    assert not reading.is_visible(asking(300), asking(311))
    assert reading.is_visible(asking(300), asking(312))
    before, after = (FetchStatus(files=1200, asked_files=asked) for asked in (300, 311))
    statuses = (Status(dataset=DatasetStatus(fetch=one)) for one in (before, after))
    assert not job_status.is_worth_a_write(*statuses)


def test_without_a_pod_that_answers_the_progress_stays() -> None:
    assert reading.fetch_progress(HALF, RUNNING, None) == HALF
    assert reading.fetch_progress(HALF, RUNNING, Sample(NOW)) == HALF
    assert reading.fetch_progress(None, None, None) is None


@pytest.mark.parametrize("job", [None, PreparationJob("fetch", "f", "u", suspended=True)])
def test_a_fetch_that_does_not_run_has_no_remaining_time(job: PreparationJob | None) -> None:
    found = reading.fetch_progress(HALF, job, sample(GIB, 2 * GIB, 1.0))
    assert found == FetchStatus(bytes=GIB, total_bytes=2 * GIB)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (f'{{"bytes": {3 * GIB}, "totalBytes": {3 * GIB}, "later": 1}}', 3 * GIB),
        (None, 2 * GIB),
        ("no result", 2 * GIB),
    ],
)
def test_after_the_end_all_bytes_are_there(message: str | None, expected: int) -> None:
    job = PreparationJob("fetch", "f", "u", complete=True, message=message)
    found = FetchStatus(bytes=expected, total_bytes=expected)
    assert reading.fetch_progress(HALF, job, None) == found


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (None, "fetching the source"),
        (FetchStatus(bytes=5), "fetching the source"),
        (HALF, "fetching the source: 50 % of 2.0 GiB"),
        (FetchStatus(bytes=3 * GIB, total_bytes=2 * GIB), "fetching the source: 100 % of 2.0 GiB"),
    ],
)
def test_the_words_change_with_the_percents(found: FetchStatus | None, words: str) -> None:
    assert reading.fetch_message(found) == words


def test_a_sample_is_news_with_each_percent() -> None:
    assert not reading.is_visible(sample(GIB, 2 * GIB), sample(GIB + 1000, 2 * GIB))
    assert reading.is_visible(sample(GIB, 2 * GIB), sample(GIB + GIB // 40, 2 * GIB))
    assert reading.is_visible(Sample(NOW), sample(0, GIB))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"bytes": GIB + 1}, False),
        ({"estimated_remaining_seconds": 59}, False),
        ({"total_bytes": 3 * GIB}, True),
    ],
)
def test_bytes_alone_are_not_worth_a_write(changes: dict[str, Any], expected: bool) -> None:
    before = Status(dataset=DatasetStatus(fetch=HALF))
    after = Status(dataset=DatasetStatus(fetch=HALF.model_copy(update=changes)))
    assert job_status.is_worth_a_write(before, after) is expected


def test_a_status_without_listed_images_has_no_counts() -> None:
    assert DatasetStatus(fetch=HALF).to_manifest() == {
        "fetch": {"bytes": GIB, "totalBytes": 2 * GIB, "estimatedRemainingSeconds": 60}
    }
    assert Status(dataset=DatasetStatus(fetch=HALF)).listed is None
    listed = DatasetStatus(key="k", classes=1, images=ImageCounts(), shards=0)
    assert listed.to_manifest()["shards"] == 0
    assert Status(dataset=listed).listed == listed
