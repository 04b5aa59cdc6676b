"""Reading: what a source takes that is read in place, before index and before pack begin.

Index estimates both steps by the first images of an archive. After it, the requests and bytes of
pack are those of the plan.
"""

from __future__ import annotations

from imagenet_operator.api import ImageNetJob
from imagenet_operator.api.dataset_status import DatasetStatus, ReadingStatus
from imagenet_operator.reconcile.preparation_sample import Preparation
from imagenet_operator.reconcile.sample import Sample

ROLE = "index"

_MIB, _GIB = 1 << 20, 1 << 30
_MINUTE = 60
_HOUR = 60 * _MINUTE


def estimates(job: ImageNetJob, sample: Sample | None) -> dict[str, ReadingStatus]:
    """Return the newest estimates by their field; empty if there are none, as for a volume.

    Args:
        job: The job, whose pods of pack read at the same time.
        sample: The newest, of any pods.
    """
    heard = _heard(sample)
    if not heard.listing_requests:
        return {}
    listing = ReadingStatus(
        requests=heard.listing_requests,
        bytes=heard.listing_bytes,
        estimated_seconds=heard.listing_seconds,
    )
    if not heard.packing_requests:
        return {"listing": listing}
    packing = ReadingStatus(
        requests=heard.packing_requests,
        bytes=heard.packing_bytes,
        estimated_seconds=heard.packing_seconds,
    )
    return {"listing": listing, "packing": by_all_pods(job, packing)}


def by_all_pods(job: ImageNetJob, in_one_pod: ReadingStatus) -> ReadingStatus:
    """Return what pack takes with all its pods, from what it would take in one."""
    preprocessing = job.spec.dataset.preprocessing
    pods = min(preprocessing.parallelism, preprocessing.shards)
    seconds = round(in_one_pod.estimated_seconds / pods)
    return in_one_pod.model_copy(update={"estimated_seconds": seconds})


def is_visible(before: Sample, after: Sample) -> bool:
    """Whether a sample changes the estimates."""
    return _estimated(_heard(before)) != _estimated(_heard(after))


def index_message(found: DatasetStatus) -> str:
    """Return the message of DatasetReady while index runs."""
    words = index_words(found)
    return f"reading the source in place: {words}" if words else "listing the images of the source"


def index_words(found: DatasetStatus) -> str:
    """Return the estimates of both steps; empty without any."""
    if found.listing is None:
        return ""
    words = f"index takes about {_in_words(found.listing)}, {_duration(found.listing)}"
    packing = pack_words(found)
    return f"{words}; pack about {packing}" if packing else words


def pack_message(found: DatasetStatus) -> str:
    """Return the message of DatasetReady while pack runs."""
    words = pack_words(found)
    return f"writing the shards: the images take {words}" if words else "writing the shards"


def pack_words(found: DatasetStatus) -> str:
    """Return what pack takes, such as ``1,200 requests, 12 GiB, at least 4 minutes``."""
    if found.packing is None:
        return ""
    return f"{_in_words(found.packing)}, at least {_duration(found.packing)}"


def _heard(sample: Sample | None) -> Preparation:
    by_role = (sample.preparation or {}) if sample is not None else {}
    return by_role.get(ROLE, Preparation())


def _estimated(heard: Preparation) -> tuple[int, ...]:
    return (
        *(heard.listing_requests, heard.listing_bytes, heard.listing_seconds),
        *(heard.packing_requests, heard.packing_bytes, heard.packing_seconds),
    )


def _in_words(found: ReadingStatus) -> str:
    requests = f"{found.requests:,} request{'' if found.requests == 1 else 's'}"
    unit, name = (_MIB, "MiB") if found.bytes < 10 * _GIB else (_GIB, "GiB")
    return f"{requests}, {found.bytes / unit:,.0f} {name}"


def _duration(found: ReadingStatus) -> str:
    seconds = found.estimated_seconds
    if seconds < 2 * _MINUTE:
        return f"{seconds} second{'' if seconds == 1 else 's'}"
    if seconds < 2 * _HOUR:
        return f"{seconds / _MINUTE:.0f} minutes"
    return f"{seconds / _HOUR:,.0f} hours"
