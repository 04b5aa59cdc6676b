"""The table of a job's training: the events of its attempts, a row each.

Rank 0 appends them to a file of each attempt on the output volume. A working directory has the
volume as a folder; from a cluster, the client brings the files first. Rank 0 says the most of each
event in its log too, which needs no pod to be read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

from imagenet_operator.sdk.errors import NotFound
from imagenet_operator.sdk.interface import Jobs, Selection
from imagenet_operator.sdk.logs import member_of
from imagenet_spec import volume_files
from imagenet_spec.events import attempt_folders, from_log_line, to_line
from imagenet_spec.names import ATTEMPTS_FOLDER, EVENTS_FILE
from imagenet_spec.resource import ImageNetJob

Rows = list[dict[str, Any]]

_FILE: Final = re.compile(rf"{ATTEMPTS_FOLDER}/r[0-9]+/{re.escape(EVENTS_FILE)}")


def table(rows: Rows) -> Any:
    """Return a pandas DataFrame if pandas is installed, else the rows."""
    try:
        from pandas import DataFrame
    except ImportError:
        return rows
    return DataFrame(rows)


def is_file(name: str) -> bool:
    """Whether a file below the folder of a job's results has the events of an attempt."""
    return _FILE.fullmatch(name) is not None


def of_files(results: Path) -> Rows:
    """Return the events in the files of a job's folder."""
    return [
        {"attempt": int(folder.name[1:]), **row}
        for folder in attempt_folders(results)
        for row in objects(folder / EVENTS_FILE)
    ]


def objects(file: Path) -> Rows:
    """Return the objects of a file of JSON lines, without a line that is not whole."""
    found = []
    for line in volume_files.read_text(file).split("\n"):
        try:
            item = json.loads(line)
        except (ValueError, RecursionError):
            # It is being written, or a crash has cut it.
            continue
        if isinstance(item, dict):
            found.append(item)
    return found


async def of_logs(jobs: Jobs, job: ImageNetJob, pods: Collection[str]) -> Rows:
    """Return what the logs of rank 0 say of the events, as far as the job's pods are there."""
    name = job.metadata.name
    attempts = {member.attempt for pod in pods if (member := member_of(name, pod)) is not None}
    rows: Rows = []
    for attempt in sorted(attempts):
        try:
            async for line in jobs.logs(name, Selection(attempt=attempt, from_volume=False)):
                if line.time is None or (event := from_log_line(line.text)) is None:
                    continue
                row = json.loads(to_line(event, line.time.timestamp()))
                rows.append({"attempt": attempt, **row})
        except NotFound:
            # Its pod has not started, or is gone since.
            continue
    return rows
