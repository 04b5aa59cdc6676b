"""The preparation in a sample: what its pods have done, and what they expect.

`sample` puts it beside the figures of the training.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final

from imagenet_operator.reconcile.scrape import Scrape, count, summed

PREPARE_IMAGES = "imagenet_prepare_images_total"
PREPARE_PLANNED = "imagenet_prepare_images_planned"
PREPARE_BYTES = "imagenet_prepare_bytes_total"
PREPARE_SKIPPED = "imagenet_prepare_skipped_images_total"
PREPARE_FETCHED = "imagenet_prepare_fetched_bytes"
PREPARE_TO_FETCH = "imagenet_prepare_fetch_planned_bytes"
FETCH_FILES = "imagenet_prepare_fetch_files"
FETCH_ASKED_FILES = "imagenet_prepare_fetch_asked_files"
LISTING_REQUESTS = "imagenet_prepare_listing_requests"
LISTING_BYTES = "imagenet_prepare_listing_bytes"
LISTING_SECONDS = "imagenet_prepare_listing_seconds"
PACKING_REQUESTS = "imagenet_prepare_packing_requests"
PACKING_BYTES = "imagenet_prepare_packing_bytes"
PACKING_SECONDS = "imagenet_prepare_packing_seconds"

PREPARATION_METRICS: Final = frozenset(
    {
        *(PREPARE_IMAGES, PREPARE_PLANNED, PREPARE_BYTES, PREPARE_SKIPPED),
        *(PREPARE_FETCHED, PREPARE_TO_FETCH, FETCH_FILES, FETCH_ASKED_FILES),
        *(LISTING_REQUESTS, LISTING_BYTES, LISTING_SECONDS),
        *(PACKING_REQUESTS, PACKING_BYTES, PACKING_SECONDS),
    }
)
"""Every series of the preparation that the operator reads."""


@dataclass(frozen=True)
class Preparation:
    """The progress of one role of the preparation, summed over its pods that answered.

    Attributes:
        images: Done.
        planned: To be done by these pods, as far as they know.
        bytes: Written.
        skipped: Damaged images left out.
        fetched: Bytes of the source's files in the cache.
        to_fetch: Bytes of all files; 0 while they are unknown.
        fetch_speed: Bytes per second, over the last minutes; 0 while it is unknown.
        fetch_files: Of the source; 0 while they are unknown.
        asked_files: Those of them whose version is known.
        listing_requests: Of listing an archive on a server, estimated; 0 without an estimate.
        listing_bytes: The same.
        listing_seconds: The same.
        packing_requests: Of reading its images, estimated; 0 without an estimate.
        packing_bytes: The same.
        packing_seconds: The same, in one pod.
    """

    images: int = 0
    planned: int = 0
    bytes: int = 0
    skipped: int = 0
    fetched: int = 0
    to_fetch: int = 0
    fetch_speed: float = 0.0
    fetch_files: int = 0
    asked_files: int = 0
    listing_requests: int = 0
    listing_bytes: int = 0
    listing_seconds: int = 0
    packing_requests: int = 0
    packing_bytes: int = 0
    packing_seconds: int = 0


def preparation_by_role(
    heard: Collection[Scrape], before: Mapping[str, Preparation] | None, seconds: float
) -> dict[str, Preparation]:
    """Return the progress of each role of which a pod answered.

    Args:
        heard: What the job's pods answered.
        before: That of the previous sample.
        seconds: Since the previous sample.
    """
    found = {
        role: _preparation([item for item in heard if item.role == role])
        for role in ("fetch", "index", "pack", "seal")
        if any(item.role == role for item in heard)
    }
    if "fetch" in found and seconds > 0:
        former = (before or {}).get("fetch")
        found["fetch"] = _with_speed(found["fetch"], former, seconds)
    return found


def _preparation(pods: list[Scrape]) -> Preparation:
    return Preparation(
        images=int(summed(pods, PREPARE_IMAGES) or 0),
        planned=int(summed(pods, PREPARE_PLANNED) or 0),
        bytes=int(summed(pods, PREPARE_BYTES) or 0),
        skipped=int(summed(pods, PREPARE_SKIPPED) or 0),
        fetched=count(summed(pods, PREPARE_FETCHED)) or 0,
        to_fetch=count(summed(pods, PREPARE_TO_FETCH)) or 0,
        fetch_files=count(summed(pods, FETCH_FILES)) or 0,
        asked_files=count(summed(pods, FETCH_ASKED_FILES)) or 0,
        listing_requests=count(summed(pods, LISTING_REQUESTS)) or 0,
        listing_bytes=count(summed(pods, LISTING_BYTES)) or 0,
        listing_seconds=count(summed(pods, LISTING_SECONDS)) or 0,
        packing_requests=count(summed(pods, PACKING_REQUESTS)) or 0,
        packing_bytes=count(summed(pods, PACKING_BYTES)) or 0,
        packing_seconds=count(summed(pods, PACKING_SECONDS)) or 0,
    )


def _with_speed(fetch: Preparation, before: Preparation | None, seconds: float) -> Preparation:
    """Return the progress of fetch with its speed: a moving average over the samples."""
    if before is None:
        return fetch
    latest = max(0, fetch.fetched - before.fetched) / seconds
    speed = latest if not before.fetch_speed else (latest + 3 * before.fetch_speed) / 4
    return replace(fetch, fetch_speed=speed)
