"""Estimates what listing a remote archive takes, before index begins.

A request costs time, and money in most buckets. The estimate lists the first images one by one, and
extrapolates their requests and bytes by their share of the archives. Its time is that of the first
images, divided by the requests that the listing sends at the same time.
"""

import logging
import time

from imagenet_workloads.clients.traffic import TRAFFIC
from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare.sources.source import ListingEstimate, Notes, Source

MOST_REQUESTS = 2_000_000
"""The default limit: ILSVRC2012 takes 1.3 million requests, one for each image."""

# A sample has so many images and requests. A request has many headers of small images, or of a
# zip: then the images end the sample.
_IMAGES, _REQUESTS = 256, 32
_MOST_IMAGES = 32_768

_log = logging.getLogger(__name__)


def estimate(source: Source) -> ListingEstimate:
    """Estimates by the first images.

    Args:
        source: the archives, which no other thread reads meanwhile.

    Raises:
        InputError: it cannot be listed.
    """
    requests, bytes, started = TRAFFIC.requests, TRAFFIC.bytes, time.monotonic()
    notes, factor = Notes(), 1.0
    for images, _ in enumerate(source.scan_in_turn(notes), 1):
        is_enough = images >= _IMAGES and TRAFFIC.requests - requests >= _REQUESTS
        if (is_enough or images >= _MOST_IMAGES) and notes.share > 0:
            factor = max(1.0, 1 / notes.share)
            break
    seconds = (time.monotonic() - started) * factor / source.lists_at_once
    return ListingEstimate(
        round((TRAFFIC.requests - requests) * factor),
        round((TRAFFIC.bytes - bytes) * factor),
        round(seconds),
    )


def require_few_requests(source: Source, most: int, cache_field: str) -> ListingEstimate:
    """Logs the estimate, checks and returns it.

    Args:
        source: the archives.
        most: the most requests.
        cache_field: the field of the manifest that has the archive stored first.

    Raises:
        InputError: listing takes more requests than allowed.
    """
    expected = estimate(source)
    _log.info(
        "%s: listing takes about %d requests, %.1f MiB and %d s",
        source.where,
        expected.requests,
        expected.bytes / 2**20,
        expected.seconds,
    )
    if expected.requests > most:
        raise InputError(
            f"{source.where}: listing takes about {expected.requests} requests, and {most} are "
            f"allowed; raise maxRequests, or write {cache_field}, which stores the archive first"
        )
    return expected
