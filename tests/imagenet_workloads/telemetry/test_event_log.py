import logging
import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from imagenet_spec.events import (
    Finished,
    Progress,
    Started,
    Validated,
    from_log_line,
    read_events,
)
from imagenet_spec.names import EVENTS_FILE
from imagenet_workloads.errors import StorageError
from imagenet_workloads.telemetry.event_log import EventLog, log_readably


def test_a_log_holds_its_events_in_order_with_their_times(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    times = iter([10.0, 11.5])
    with (
        caplog.at_level(logging.INFO),
        closing(EventLog(tmp_path / "r0", lambda: next(times))) as log,
    ):
        log.write(Started(0, 2, 0, 0))
        assert len(log.path.read_text().splitlines()) == 1, "each line is there at once"
        log.write(Finished(1))
    assert list(read_events(tmp_path / "r0" / EVENTS_FILE)) == [
        (10.0, Started(0, 2, 0, 0)),
        (11.5, Finished(1)),
    ]
    assert caplog.messages == [Started(0, 2, 0, 0).sentence(), Finished(1).sentence()]


def test_a_second_writer_appends_after_a_line_that_was_cut_off(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(EventLog(tmp_path)) as log:
        log.write(Started(0, 2, 0, 0))
    with (tmp_path / EVENTS_FILE).open("a") as file:
        file.write('{"time": 3, "eve')
    with closing(EventLog(tmp_path)) as log:
        log.write(Finished(1))
    events = [event for _, event in read_events(tmp_path / EVENTS_FILE)]
    assert events == [Started(0, 2, 0, 0), Finished(1)]
    assert f"{tmp_path / EVENTS_FILE}:2 is ignored" in caplog.text


def test_a_log_that_cannot_be_read_or_written(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        list(read_events(tmp_path / EVENTS_FILE))
    (tmp_path / EVENTS_FILE).mkdir()
    with pytest.raises(
        StorageError, match=f"cannot write {tmp_path}/metrics.jsonl: Is a directory"
    ):
        EventLog(tmp_path)


def test_a_full_volume_is_named(tmp_path: Path) -> None:
    (tmp_path / EVENTS_FILE).symlink_to("/dev/full")
    with (
        pytest.raises(StorageError, match=r"metrics\.jsonl: No space left on device"),
        closing(EventLog(tmp_path)) as log,
    ):
        log.write(Finished(1))


WRITER = """
import sys
from pathlib import Path
from imagenet_spec.events import Progress
from imagenet_workloads.telemetry.event_log import EventLog

log = EventLog(Path(sys.argv[1]))
for batch in range(10_000_000):
    log.write(Progress(0, batch, 100.0))
    if batch == 200:
        print("ready", flush=True)
"""


def test_a_killed_writer_leaves_all_of_its_lines(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == b"ready\n"
        process.kill()
        assert process.wait(timeout=30) == -signal.SIGKILL
    # Linux may end a write at the end of a page, so only the line in progress can be cut off.
    written, _, _ = (tmp_path / EVENTS_FILE).read_text().rpartition("\n")
    events = [event for _, event in read_events(tmp_path / EVENTS_FILE)]
    assert [event.batch for event in events if isinstance(event, Progress)] == list(
        range(len(written.splitlines()))
    )
    assert len(events) > 200


def test_the_readable_log_goes_to_stderr_and_a_file(tmp_path: Path) -> None:
    program = (
        "import logging, sys\n"
        "from pathlib import Path\n"
        "from imagenet_spec.events import Validated\n"
        "from imagenet_workloads.telemetry.event_log import EventLog, log_readably\n"
        "folder = Path(sys.argv[1])\n"
        "log_readably(folder / 'r0' / 'train.log')\n"
        "EventLog(folder).write(Validated(2, 36, 0.5))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        check=True,
        capture_output=True,
        text=True,
        env=dict(os.environ),
    )
    (line,) = done.stderr.splitlines()
    assert from_log_line(line) == Validated(2, 36, 0.5)
    assert (tmp_path / "r0" / "train.log").read_text() == done.stderr
    with pytest.raises(StorageError, match="cannot write"):
        log_readably(tmp_path)


def test_the_readable_log_keeps_its_last_10_mb(tmp_path: Path) -> None:
    program = (
        "import logging, sys\n"
        "from pathlib import Path\n"
        "from imagenet_workloads.telemetry.event_log import log_readably\n"
        "log_readably(Path(sys.argv[1]))\n"
        "for number in range(24):\n"
        "    logging.info('%d %s', number, 'x' * 1_000_000)\n"
    )
    log = tmp_path / "train.log"
    subprocess.run([sys.executable, "-c", program, str(log)], check=True, capture_output=True)
    former = tmp_path / "train.log.1"
    assert sorted(tmp_path.iterdir()) == [log, former]
    assert former.stat().st_size + log.stat().st_size <= 10_000_000
    kept = [line.split()[3] for file in (former, log) for line in file.read_text().splitlines()]
    assert kept == [str(number) for number in range(24 - len(kept), 24)]


def test_a_writer_that_comes_late_overwrites_nothing(tmp_path: Path) -> None:
    with closing(EventLog(tmp_path)) as first, closing(EventLog(tmp_path)) as second:
        for epochs in range(4):
            (first, second)[epochs % 2].write(Finished(epochs))
    assert [event for _, event in read_events(tmp_path / EVENTS_FILE)] == [
        Finished(epochs) for epochs in range(4)
    ]
