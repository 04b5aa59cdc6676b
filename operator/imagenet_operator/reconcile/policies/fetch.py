"""Fetch: the progress of the source's files into the cache, from the newest sample.

After the end of the Job, its pod's termination message has the bytes, because no sample follows it.
"""

from __future__ import annotations

from pydantic import ValidationError

from imagenet_operator.api import stored
from imagenet_operator.api.dataset_status import FetchStatus
from imagenet_operator.api.fields import COUNT_MAXIMUM
from imagenet_operator.reconcile.sample import Sample
from imagenet_operator.reconcile.types import PreparationJob

ROLE = "fetch"

_GIB = 1 << 30
_WITHOUT_ESTIMATE = {"estimated_remaining_seconds": None}
_ASKED = {"files": None, "asked_files": None}


def progress(
    former: FetchStatus | None, job: PreparationJob | None, sample: Sample | None
) -> FetchStatus | None:
    """Return how much of the source is in the cache; None if it is not known yet.

    Args:
        former: The recorded progress.
        job: The fetch Job, if it exists.
        sample: The newest, of any pods.
    """
    if job is not None and job.complete:
        return _result(job) or (former and _finished(former))
    if job is None or job.suspended:
        return former and former.model_copy(update=_WITHOUT_ESTIMATE)
    return _heard(sample) or former


def is_visible(before: Sample, after: Sample) -> bool:
    """Whether a sample changes the message."""
    return message(_heard(before)) != message(_heard(after))


def message(found: FetchStatus | None) -> str:
    """Return the message of DatasetReady; it changes with each percent, not with each byte."""
    if found is None:
        return "fetching the source"
    if is_asking(found):
        files, asked = found.files or 0, found.asked_files or 0
        return f"asking the server for the versions of {files:,} files: {asked * 100 // files} %"
    if not found.total_bytes:
        return "fetching the source"
    percent = min(100, found.bytes * 100 // found.total_bytes)
    return f"fetching the source: {percent} % of {found.total_bytes / _GIB:,.1f} GiB"


def is_asking(found: FetchStatus) -> bool:
    """Whether a server is asked for the versions of several files, before any is fetched."""
    return not found.total_bytes and (found.files or 0) > 1


def without_figures(found: FetchStatus | None) -> FetchStatus | None:
    """Return a progress without what every sample changes; its condition has the percents."""
    if found is None:
        return None
    return found.model_copy(update={"bytes": 0, **_WITHOUT_ESTIMATE, "asked_files": None})


def _heard(sample: Sample | None) -> FetchStatus | None:
    """Return the progress that the pod of the Job reported; None if it reported none."""
    heard = (sample.preparation or {}).get(ROLE) if sample is not None else None
    if heard is None:
        return None
    total = heard.to_fetch or None
    if total is None and heard.fetch_files:
        asked = min(heard.asked_files, heard.fetch_files)
        return FetchStatus(bytes=heard.fetched, files=heard.fetch_files, asked_files=asked)
    return FetchStatus(
        bytes=heard.fetched,
        total_bytes=total,
        estimated_remaining_seconds=_remaining(heard.fetched, total, heard.fetch_speed),
    )


def _finished(former: FetchStatus) -> FetchStatus:
    """Return the progress of a Job whose pod has vanished after its success."""
    done = {"bytes": former.total_bytes or former.bytes}
    return former.model_copy(update={**done, **_WITHOUT_ESTIMATE, **_ASKED})


def _result(job: PreparationJob) -> FetchStatus | None:
    try:
        return stored.read_known(FetchStatus, job.message or "")
    except ValidationError:
        return None


def _remaining(done: int, total: int | None, speed: float) -> int | None:
    if total is None or speed <= 0:
        return None
    seconds = max(0, total - done) / speed
    return round(seconds) if seconds <= COUNT_MAXIMUM else None
