"""The preparation in a sample: what its pods have done, and what they expect.

`sample` puts it beside the figures of the training.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final

from imagenet_operator.reconcile.scrape import Scrape, count, summed
from imagenet_spec import metrics

SERIES: Final[Mapping[str, str]] = {
    "images": metrics.PREPARE_IMAGES.name,
    "planned": metrics.PREPARE_IMAGES_PLANNED.name,
    "bytes": metrics.PREPARE_BYTES.name,
    "skipped": metrics.PREPARE_SKIPPED_IMAGES.name,
    "fetched": metrics.PREPARE_FETCHED_BYTES.name,
    "to_fetch": metrics.PREPARE_FETCH_PLANNED_BYTES.name,
    "fetch_files": metrics.PREPARE_FETCH_FILES.name,
    "asked_files": metrics.PREPARE_FETCH_ASKED_FILES.name,
    "listing_requests": metrics.PREPARE_LISTING_REQUESTS.name,
    "listing_bytes": metrics.PREPARE_LISTING_BYTES.name,
    "listing_seconds": metrics.PREPARE_LISTING_SECONDS.name,
    "packing_requests": metrics.PREPARE_PACKING_REQUESTS.name,
    "packing_bytes": metrics.PREPARE_PACKING_BYTES.name,
    "packing_seconds": metrics.PREPARE_PACKING_SECONDS.name,
}
"""The series of the preparation that the operator reads, by the attribute of `Preparation`."""


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
        role: Preparation(**{name: count(summed(pods, SERIES[name])) or 0 for name in SERIES})
        for role in ("fetch", "index", "pack", "seal")
        if (pods := [item for item in heard if item.role == role])
    }
    if "fetch" in found and seconds > 0:
        former = (before or {}).get("fetch")
        found["fetch"] = _with_speed(found["fetch"], former, seconds)
    return found


def _with_speed(fetch: Preparation, before: Preparation | None, seconds: float) -> Preparation:
    """Return the progress of fetch with its speed: a moving average over the samples."""
    if before is None:
        return fetch
    latest = max(0, fetch.fetched - before.fetched) / seconds
    speed = latest if not before.fetch_speed else (latest + 3 * before.fetch_speed) / 4
    return replace(fetch, fetch_speed=speed)
