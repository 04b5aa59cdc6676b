"""What reading a source in place takes: from index's metrics to the status and its condition."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from imagenet_operator.api.dataset_status import DatasetStatus, ListingStatus
from imagenet_operator.reconcile.policies import listing
from imagenet_operator.reconcile.preparation_sample import Preparation
from imagenet_operator.reconcile.sample import Sample
from support.samples import parse_sample

NOW = datetime(2026, 1, 2, tzinfo=UTC)
FOUND = ListingStatus(requests=1200, bytes=310 << 20, estimated_seconds=240)
SCRAPED = """\
imagenet_prepare_listing_requests{imagenet_job="d",namespace="n",role="index",attempt=""} 1200
imagenet_prepare_listing_bytes{imagenet_job="d",namespace="n",role="index",attempt=""} 325058560
imagenet_prepare_listing_seconds{imagenet_job="d",namespace="n",role="index",attempt=""} 240
"""


def test_the_metrics_of_index_become_the_estimate() -> None:
    sample = parse_sample({"digits-index-x": SCRAPED}, None, NOW)
    assert listing.estimate(None, sample) == FOUND
    assert listing.is_visible(Sample(NOW), sample)
    assert not listing.is_visible(sample, sample)


@pytest.mark.parametrize(
    "sample", [None, Sample(NOW), Sample(NOW, preparation={"index": Preparation(images=7)})]
)
def test_without_an_estimate_the_former_one_stays(sample: Sample | None) -> None:
    assert listing.estimate(FOUND, sample) == FOUND
    assert listing.estimate(None, sample) is None


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (None, "listing the images of the source"),
        (FOUND, "reading the source in place: about 1,200 requests, 310 MiB, 4 minutes"),
        (
            ListingStatus(requests=1, bytes=0, estimated_seconds=1),
            "reading the source in place: about 1 request, 0 MiB, 1 second",
        ),
        (
            ListingStatus(requests=1_300_000, bytes=5 << 30, estimated_seconds=9000),
            "reading the source in place: about 1,300,000 requests, 5,120 MiB, 2 hours",
        ),
    ],
)
def test_the_estimate_in_words(found: ListingStatus | None, words: str) -> None:
    assert listing.message(found) == words


def test_a_status_has_it_before_the_images_are_listed() -> None:
    assert DatasetStatus(listing=FOUND).to_manifest() == {
        "listing": {"requests": 1200, "bytes": 310 << 20, "estimatedSeconds": 240}
    }
