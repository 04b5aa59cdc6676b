"""What reading a source in place takes: from index's metrics to the status and its condition."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from imagenet_operator.reconcile.policies import reading
from imagenet_operator.reconcile.sample import Preparation, Sample
from imagenet_spec.resource import ImageNetJob
from imagenet_spec.resource.dataset_status import DatasetStatus, ReadingStatus
from support.job_table import manifest
from support.samples import parse_sample
from support.sentences import assert_says

NOW = datetime(2026, 1, 2, tzinfo=UTC)
LISTING = ReadingStatus(requests=1200, bytes=310 << 20, estimated_seconds=240)
PACKING = ReadingStatus(requests=1250, bytes=30 << 30, estimated_seconds=3600)


def scraped(step: str, *values: int) -> str:
    labels = '{imagenet_job="d",namespace="n",role="index",attempt=""}'
    units = zip(("requests", "bytes", "seconds"), values, strict=True)
    return "".join(f"imagenet_prepare_{step}_{unit}{labels} {value}\n" for unit, value in units)


SCRAPED = scraped("listing", 1200, 310 << 20, 240)


def job(parallelism: int, shards: int) -> ImageNetJob:
    document = manifest()
    document["spec"]["dataset"]["preprocessing"] = {"parallelism": parallelism, "shards": shards}
    return ImageNetJob.model_validate(document)


def test_the_metrics_of_index_become_the_estimates() -> None:
    former = parse_sample({"digits-index-x": SCRAPED}, None, NOW)
    # Programs of an earlier version know nothing of pack.
    assert reading.estimates(job(1, 8), former) == {"listing": LISTING}
    both = SCRAPED + scraped("packing", 1250, 30 << 30, 3600)
    sample = parse_sample({"digits-index-x": both}, None, NOW)
    assert reading.estimates(job(1, 8), sample) == {"listing": LISTING, "packing": PACKING}
    assert reading.is_visible(Sample(NOW), former)
    assert reading.is_visible(former, sample)
    assert not reading.is_visible(sample, sample)


@pytest.mark.parametrize(
    "sample", [None, Sample(NOW), Sample(NOW, preparation={"index": Preparation(images=7)})]
)
def test_a_sample_may_have_no_estimate(sample: Sample | None) -> None:
    assert reading.estimates(job(1, 8), sample) == {}


@pytest.mark.parametrize(("parallelism", "shards", "seconds"), [(6, 8, 600), (100, 8, 450)])
def test_the_pods_of_pack_divide_its_time(parallelism: int, shards: int, seconds: int) -> None:
    found = reading.by_all_pods(job(parallelism, shards), PACKING)
    assert found == ReadingStatus(requests=1250, bytes=30 << 30, estimated_seconds=seconds)


@pytest.mark.parametrize(
    ("found", "facts"),
    [
        (DatasetStatus(), ["listing the images"]),
        (
            DatasetStatus(listing=LISTING),
            ["in place", "index", "about 1,200 requests, 310 MiB, 4 minutes"],
        ),
        (
            DatasetStatus(listing=LISTING, packing=PACKING),
            [
                "in place",
                "index",
                "about 1,200 requests, 310 MiB, 4 minutes; ",
                "pack",
                "about 1,250 requests, 30 GiB, at least 60 minutes",
            ],
        ),
        (
            DatasetStatus(listing=ReadingStatus(requests=1, bytes=0, estimated_seconds=1)),
            ["in place", "index", "about 1 request, 0 MiB, 1 second"],
        ),
    ],
)
def test_the_words_while_index_runs(found: DatasetStatus, facts: list[str]) -> None:
    message = reading.index_message(found)
    assert_says(message, *facts)
    # It ends with the last figure: no other, nor a plural, follows.
    assert message.endswith(facts[-1]) or found.listing is None


@pytest.mark.parametrize(
    ("packing", "figures"),
    [
        (None, "shards"),
        (
            ReadingStatus(requests=1_300_000, bytes=9 << 30, estimated_seconds=9000),
            " 1,300,000 requests, 9,216 MiB, at least 2 hours",
        ),
    ],
)
def test_the_words_while_pack_runs(packing: ReadingStatus | None, figures: str) -> None:
    message = reading.pack_message(DatasetStatus(packing=packing))
    assert_says(message, "writing the shards")
    assert message.endswith(figures)


def test_a_status_has_them_before_the_images_are_listed() -> None:
    assert DatasetStatus(listing=LISTING, packing=PACKING).to_manifest() == {
        "listing": {"requests": 1200, "bytes": 310 << 20, "estimatedSeconds": 240},
        "packing": {"requests": 1250, "bytes": 30 << 30, "estimatedSeconds": 3600},
    }
