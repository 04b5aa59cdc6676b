"""Reading a source, as status and words: its files into the cache first, or its images in place.

The newest sample has the progress of the files. After the end of their Job, its pod's termination
message has the bytes, because no sample follows it. A source that is read in place takes requests
instead: index estimates its own and those of pack by the first images of an archive. After index,
the requests and bytes of pack are those of the plan.
"""

from __future__ import annotations

from pydantic import ValidationError

from imagenet_operator.manifests import dataset
from imagenet_operator.reconcile.sample import Preparation, Sample
from imagenet_operator.reconcile.types import PreparationJob
from imagenet_spec import stored
from imagenet_spec.resource import ImageNetJob
from imagenet_spec.resource.dataset_status import DatasetStatus, FetchStatus, ReadingStatus
from imagenet_spec.resource.fields import COUNT_MAXIMUM

_MIB, _GIB = 1 << 20, 1 << 30
_MINUTE = 60
_HOUR = 60 * _MINUTE
_WITHOUT_ESTIMATE = {"estimated_remaining_seconds": None}


def fetch_progress(
    former: FetchStatus | None, job: PreparationJob | None, sample: Sample | None
) -> FetchStatus | None:
    """Return how much of the source is in the cache; None if it is not known yet."""
    if job is not None and job.complete:
        try:
            return stored.read_known(FetchStatus, job.message or "")
        except ValidationError:
            if former is None:
                return None
            # Its pod has vanished after its success.
            done = {"bytes": former.total_bytes or former.bytes, "files": None, "asked_files": None}
            return former.model_copy(update={**done, **_WITHOUT_ESTIMATE})
    if job is None or job.suspended:
        return former and former.model_copy(update=_WITHOUT_ESTIMATE)
    return _fetched(sample) or former


def _fetched(sample: Sample | None) -> FetchStatus | None:
    heard = reported(sample, dataset.FETCH)
    if heard is None:
        return None
    total, speed = heard.to_fetch or None, heard.fetch_speed
    if total is None and heard.fetch_files:
        asked = min(heard.asked_files, heard.fetch_files)
        return FetchStatus(bytes=heard.fetched, files=heard.fetch_files, asked_files=asked)
    seconds = None if total is None or speed <= 0 else max(0, total - heard.fetched) / speed
    return FetchStatus(
        bytes=heard.fetched,
        total_bytes=total,
        estimated_remaining_seconds=(
            None if seconds is None or seconds > COUNT_MAXIMUM else round(seconds)
        ),
    )


def fetch_message(fetch: FetchStatus | None) -> str:
    """Return the message of DatasetReady; it changes with each percent, not with each byte."""
    if fetch is None:
        return "fetching the source"
    if is_asking(fetch):
        files, asked = fetch.files or 0, fetch.asked_files or 0
        return f"asking the server for the versions of {files:,} files: {asked * 100 // files} %"
    if not fetch.total_bytes:
        return "fetching the source"
    percent = min(100, fetch.bytes * 100 // fetch.total_bytes)
    return f"fetching the source: {percent} % of {fetch.total_bytes / _GIB:,.1f} GiB"


def is_asking(fetch: FetchStatus) -> bool:
    """Whether a server is asked for the versions of several files, before any is fetched."""
    return not fetch.total_bytes and (fetch.files or 0) > 1


def without_figures(fetch: FetchStatus | None) -> FetchStatus | None:
    """Return a progress without what every sample changes; its condition has the percents."""
    if fetch is None:
        return None
    return fetch.model_copy(update={"bytes": 0, **_WITHOUT_ESTIMATE, "asked_files": None})


def estimates(job: ImageNetJob, sample: Sample | None) -> dict[str, ReadingStatus]:
    """Return the newest estimates by their field; empty if there are none, as for a volume."""
    heard = reported(sample, dataset.INDEX) or Preparation()
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


def index_message(dataset: DatasetStatus) -> str:
    """Return the message of DatasetReady while index runs."""
    words = index_words(dataset)
    return f"reading the source in place: {words}" if words else "listing the images of the source"


def index_words(dataset: DatasetStatus) -> str:
    """Return the estimates of both steps; empty without any."""
    if dataset.listing is None:
        return ""
    words = f"index takes about {_described(dataset.listing)}, {_duration(dataset.listing)}"
    packing = pack_words(dataset)
    return f"{words}; pack about {packing}" if packing else words


def pack_message(dataset: DatasetStatus) -> str:
    """Return the message of DatasetReady while pack runs."""
    words = pack_words(dataset)
    return f"writing the shards: the images take {words}" if words else "writing the shards"


def pack_words(dataset: DatasetStatus) -> str:
    """Return what pack takes, such as ``1,200 requests, 12 GiB, at least 4 minutes``."""
    if dataset.packing is None:
        return ""
    return f"{_described(dataset.packing)}, at least {_duration(dataset.packing)}"


def _described(estimate: ReadingStatus) -> str:
    requests = f"{estimate.requests:,} request{'' if estimate.requests == 1 else 's'}"
    unit, name = (_MIB, "MiB") if estimate.bytes < 10 * _GIB else (_GIB, "GiB")
    return f"{requests}, {estimate.bytes / unit:,.0f} {name}"


def _duration(estimate: ReadingStatus) -> str:
    seconds = estimate.estimated_seconds
    if seconds < 2 * _MINUTE:
        return f"{seconds} second{'' if seconds == 1 else 's'}"
    if seconds < 2 * _HOUR:
        return f"{seconds / _MINUTE:.0f} minutes"
    return f"{seconds / _HOUR:,.0f} hours"


def is_visible(before: Sample, after: Sample) -> bool:
    """Whether a sample changes the words of a fetch, or the estimates."""
    words = [fetch_message(_fetched(sample)) for sample in (before, after)]
    return words[0] != words[1] or _estimated(before) != _estimated(after)


def _estimated(sample: Sample) -> tuple[int, ...]:
    heard = reported(sample, dataset.INDEX) or Preparation()
    return (
        *(heard.listing_requests, heard.listing_bytes, heard.listing_seconds),
        *(heard.packing_requests, heard.packing_bytes, heard.packing_seconds),
    )


def reported(sample: Sample | None, role: str) -> Preparation | None:
    """Return what the pods of a role reported; None if they reported nothing."""
    return None if sample is None or sample.preparation is None else sample.preparation.get(role)
