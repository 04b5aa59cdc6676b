"""Estimates the requests that listing a remote archive takes, before index begins.

A request costs time, and money in most buckets. The estimate lists the first images one by one, and
extrapolates their requests and bytes by their share of the archive.
"""

import logging
from itertools import islice
from typing import NamedTuple

from imagenet_workloads.clients.traffic import TRAFFIC
from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare.sources.source import Notes, Source

MOST_REQUESTS = 2_000_000
"""The default limit: ILSVRC2012 takes 1.3 million requests, one for each image."""

_SAMPLE = 256

_log = logging.getLogger(__name__)


class ListingEstimate(NamedTuple):
    """The requests and bytes that listing an archive takes, as far as its start shows."""

    requests: int
    bytes: int


def estimate(source: Source, size: int) -> ListingEstimate:
    """Estimates by the first 256 images.

    Args:
        source: the archive, which no other thread reads meanwhile.
        size: its bytes.

    Raises:
        InputError: it cannot be listed.
    """
    requests, bytes, end, images = TRAFFIC.requests, TRAFFIC.bytes, 0, 0
    for image in islice(source.scan(Notes()), _SAMPLE):
        end, images = max(end, image.offset + image.size), images + 1
    used = ListingEstimate(TRAFFIC.requests - requests, TRAFFIC.bytes - bytes)
    if images < _SAMPLE:
        return used
    factor = max(1.0, size / end)
    return ListingEstimate(round(used.requests * factor), round(used.bytes * factor))


def require_few_requests(source: Source, size: int, most: int, cache_field: str) -> None:
    """Logs the estimate, and checks it.

    Args:
        source: the archive.
        size: its bytes.
        most: the most requests.
        cache_field: the field of the manifest that has the archive stored first; empty without.

    Raises:
        InputError: listing takes more requests than allowed.
    """
    expected = estimate(source, size)
    _log.info(
        "%s: listing takes about %d requests and %.1f MiB",
        source.where,
        expected.requests,
        expected.bytes / 2**20,
    )
    if expected.requests > most:
        stored = f"write {cache_field}, which stores the archive first"
        raise InputError(
            f"{source.where}: listing takes about {expected.requests} requests, and {most} are "
            f"allowed; raise maxRequests, or {stored if cache_field else 'copy it to a claim'}"
        )
