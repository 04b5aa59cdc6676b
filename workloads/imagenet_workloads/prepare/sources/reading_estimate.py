"""Estimates what reading a remote source in location takes: listing by index, and images by pack.

A request costs time, and money in most buckets. Before index begins, the first images are listed
one by one. Their requests and bytes are extrapolated by their share of the archives. The time of
the listing is that of the first images, divided by the requests that it sends at the same time.
Pack reads each image by a request. Its time follows from the speed of a few reads, as many at the
same time as pack has.
"""

import logging
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import NamedTuple

from imagenet_workloads.clients.traffic import TRAFFIC
from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare.damaged_image import DamagedImageError
from imagenet_workloads.prepare.source import Location, Notes, ReadingEstimate, Source
from imagenet_workloads.prepare.stores.remote import Limit

# A sample has so many images and requests. A request has many headers of small images, or of a
# zip: then the images end the sample.
_IMAGES, _REQUESTS = 256, 32
_MOST_IMAGES = 32_768
# Larger images are not read to measure the speed.
_LARGEST = 16 << 20

_log = logging.getLogger(__name__)


class FirstImages(NamedTuple):
    """What the first images show.

    Attributes:
        listing: of the whole source, as often as index lists it.
        images: of the whole source.
        bytes: of its images.
        locations: of some images.
    """

    listing: ReadingEstimate
    images: int
    bytes: int
    locations: list[Location]


def estimate(source: Source) -> tuple[ReadingEstimate, ReadingEstimate]:
    """Estimates listing and packing by the first images.

    Args:
        source: the archives, which no other thread reads meanwhile.

    Raises:
        InputError: it cannot be listed.
    """
    first = _list_first(source, listings=1)
    return first.listing, _packing(source, first)


def require_few_requests(source: Source, limit: Limit, listings: int = 1) -> FirstImages:
    """Lists the first images, and checks what they show.

    Args:
        source: the archives, which no other thread reads meanwhile.
        limit: of listing and packing.
        listings: how often index lists them.

    Raises:
        InputError: they take more requests than allowed, or cannot be listed.
    """
    first = _list_first(source, listings)
    if first.listing.requests + first.images > limit.most:
        raise InputError(
            f"{source.where}: listing takes about {first.listing.requests} requests and packing "
            f"{first.images}, and {limit.most} are allowed; raise maxRequests, or write "
            f"{limit.cache_field}, which stores the archive first"
        )
    return first


def limited_estimates(
    source: Source, limit: Limit, listings: int = 1
) -> tuple[ReadingEstimate, ReadingEstimate]:
    """Checks the estimates of listing and packing, logs and returns them.

    Args:
        source: the archives, which no other thread reads meanwhile.
        limit: of both.
        listings: how often index lists them.

    Raises:
        InputError: they take more requests than allowed, or cannot be listed.
    """
    first = require_few_requests(source, limit, listings)
    packing = _packing(source, first)
    for step, expected in (("listing", first.listing), ("packing in one pod", packing)):
        _log.info("%s: %s takes about %s", source.where, step, expected)
    return first.listing, packing


def seconds_to_read(source: Source, locations: Sequence[Location], bytes: int) -> int:
    """The time in which one pod of pack reads images, if decoding is faster than reading.

    Args:
        source: of the images.
        locations: of a sample of the images; `sample_size` of them are read.
        bytes: of all images.
    """
    at_once = source.reads_at_once
    sample = locations[: sample_size(source)]
    # The first reads open the connections.
    timed = () if source.reads_in_order else sample[at_once:]
    with ThreadPoolExecutor(at_once, thread_name_prefix="sample") as pool:
        if timed:
            list(pool.map(lambda location: _read(source, location), sample[:at_once]))
        before, started = TRAFFIC.bytes, time.monotonic()
        list(pool.map(lambda location: _read(source, location), timed or sample))
        seconds = time.monotonic() - started
    received = TRAFFIC.bytes - before
    return round(seconds * bytes / received) if received else 0


def sample_size(source: Source) -> int:
    """The images that `seconds_to_read` reads; those of a Parquet file take a row group each."""
    return source.reads_at_once * (1 if source.reads_in_order else 3)


def _list_first(source: Source, listings: int) -> FirstImages:
    requests, bytes, started = TRAFFIC.requests, TRAFFIC.bytes, time.monotonic()
    notes, factor, images, size = Notes(), 1.0, 0, 0
    locations: list[Location] = []
    for image in source.scan_in_turn(notes):
        images, size = images + 1, size + image.size
        if len(locations) < sample_size(source) and image.size <= _LARGEST:
            locations.append(Location(image.name, image.offset, image.size))
        is_enough = images >= _IMAGES and TRAFFIC.requests - requests >= _REQUESTS
        if (is_enough or images >= _MOST_IMAGES) and notes.share > 0:
            factor = max(1.0, 1 / notes.share)
            break
    seconds = (time.monotonic() - started) * factor / source.lists_at_once
    listing = ReadingEstimate(
        round((TRAFFIC.requests - requests) * factor * listings),
        round((TRAFFIC.bytes - bytes) * factor * listings),
        round(seconds * listings),
    )
    return FirstImages(listing, round(images * factor), round(size * factor), locations)


def _packing(source: Source, first: FirstImages) -> ReadingEstimate:
    seconds = seconds_to_read(source, first.locations, first.bytes)
    return ReadingEstimate(first.images, first.bytes, seconds)


def _read(source: Source, location: Location) -> None:
    with suppress(DamagedImageError, PermissionError):
        source.read(*location)
