"""Listing: what reading the source in place takes, as index estimates it before it begins."""

from __future__ import annotations

from imagenet_operator.api.dataset_status import ListingStatus
from imagenet_operator.reconcile.sample import Sample

ROLE = "index"

_MIB = 1 << 20
_MINUTE = 60
_HOUR = 60 * _MINUTE


def estimate(former: ListingStatus | None, sample: Sample | None) -> ListingStatus | None:
    """Return the newest estimate; None if there is none, as for a volume.

    Args:
        former: The recorded one.
        sample: The newest, of any pods.
    """
    heard = (sample.preparation or {}).get(ROLE) if sample is not None else None
    if heard is None or not heard.listing_requests:
        return former
    return ListingStatus(
        requests=heard.listing_requests,
        bytes=heard.listing_bytes,
        estimated_seconds=heard.listing_seconds,
    )


def is_visible(before: Sample, after: Sample) -> bool:
    """Whether a sample changes the estimate."""
    return estimate(None, before) != estimate(None, after)


def message(found: ListingStatus | None) -> str:
    """Return the message of DatasetReady while index runs."""
    if found is None:
        return "listing the images of the source"
    return f"reading the source in place: about {in_words(found)}"


def in_words(found: ListingStatus) -> str:
    """Return an estimate such as ``1,200 requests, 310 MiB, 4 minutes``."""
    requests = f"{found.requests:,} request{'' if found.requests == 1 else 's'}"
    return f"{requests}, {found.bytes / _MIB:,.0f} MiB, {_duration(found.estimated_seconds)}"


def _duration(seconds: int) -> str:
    if seconds < 2 * _MINUTE:
        return f"{seconds} second{'' if seconds == 1 else 's'}"
    if seconds < 2 * _HOUR:
        return f"{seconds / _MINUTE:.0f} minutes"
    return f"{seconds / _HOUR:,.0f} hours"
