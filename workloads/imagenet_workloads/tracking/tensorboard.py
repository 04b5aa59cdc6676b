"""Writes a job's history as the event files that TensorBoard reads.

    RESULTS/tensorboard/events.out.tfevents.0000000000.r0, …0000000001.r1, …

Each run of an attempt has one file, and all are one run of TensorBoard. A file's bytes follow from
the events alone: a program that comes later continues it where the one before was killed, and
writing again changes nothing. So points are written at once, not after their checkpoint. An attempt
that resumes begins its file with the mark by which TensorBoard drops the steps that were lost
(SessionLog.START, as tf.summary's FileWriter writes it).

A file is a TFRecord of tensorflow/core/util/event.proto, in protobuf's wire format; the numbers are
those of its fields and of tensorflow/core/framework/{summary,tensor}.proto.
"""

import fcntl
import os
import struct
from contextlib import suppress
from pathlib import Path

from imagenet_spec.events import Event, Started
from imagenet_spec.names import TENSORBOARD_FOLDER
from imagenet_workloads.records.tfrecord import encode, varint
from imagenet_workloads.tracking.history import History, Point

_DOUBLE, _BYTES, _FLOAT = 1, 2, 5
_WALL_TIME, _STEP, _FILE_VERSION, _SUMMARY, _SESSION_LOG = 1, 2, 3, 5, 7
_START = 1
_STRING = 7


class EventFiles:
    """The event files of one job."""

    def __init__(self, results: Path) -> None:
        self._folder = results / TENSORBOARD_FOLDER
        self._runs = 0
        self._file: Path | None = None
        self._position = 0

    def add(self, time: float, event: Event, points: list[Point], history: History) -> None:
        """Write what an event has added to the history, if the file does not have it yet.

        OSError if the file cannot be written.
        """
        records: list[bytes] = []
        if isinstance(event, Started):
            name = f"events.out.tfevents.{self._runs:010}.r{event.attempt}"
            self._file, self._position = self._folder / name, 0
            restart = history.restarts[-1] if self._runs else None
            records.append(_event(time, 0, _field(_FILE_VERSION, b"brain.Event:2")))
            # TensorBoard drops this step and later ones, unless it is the first such mark.
            mark = _field(_SESSION_LOG, _number(1, _START))
            records.append(_event(time, 0 if restart is None else restart.step + 1, mark))
            if restart is None:
                rows = [f"| {key} | {value} |" for key, value in sorted(history.parameters.items())]
                table = "\n".join(["| parameter | value |", "|---|---|", *rows])
                records.append(_text(time, 0, "parameters", table))
            else:
                records.append(_text(time, restart.step, "restarts", restart.text))
            self._runs += 1
        records += [_scalar(point) for point in points]
        if not records or self._file is None:
            return
        content = b"".join(part for record in records for part in encode([record]))
        start, self._position = self._position, self._position + len(content)
        self._folder.mkdir(parents=True, exist_ok=True)
        with self._file.open("ab") as file:
            # `imagenetctl tracking sync` may run beside a job. Some file systems have no locks.
            with suppress(OSError):
                fcntl.flock(file, fcntl.LOCK_EX)
            written = file.seek(0, os.SEEK_END)
            if written < self._position:
                file.write(content[max(0, written - start) :])


def _scalar(point: Point) -> bytes:
    value = _field(1, point.series.encode()) + bytes((2 << 3 | _FLOAT,))
    value += struct.pack("<f", point.value)
    return _event(point.time, point.step, _field(_SUMMARY, _field(1, value)))


def _text(time: float, step: int, tag: str, text: str) -> bytes:
    """An event with Markdown, for TensorBoard's tab of texts."""
    plugin = _field(9, _field(1, _field(1, b"text")))
    shape = _field(2, _field(2, _number(1, 1)))
    tensor = _number(1, _STRING) + shape + _field(8, text.encode())
    value = _field(1, f"{tag}/text_summary".encode()) + plugin + _field(8, tensor)
    return _event(time, step, _field(_SUMMARY, _field(1, value)))


def _event(time: float, step: int, content: bytes) -> bytes:
    wall_time = bytes((_WALL_TIME << 3 | _DOUBLE,)) + struct.pack("<d", time)
    return wall_time + _number(_STEP, step) + content


def _field(number: int, content: bytes) -> bytes:
    return bytes((number << 3 | _BYTES,)) + varint(len(content)) + content


def _number(number: int, value: int) -> bytes:
    return bytes((number << 3,)) + varint(value)
