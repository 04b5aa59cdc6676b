"""Files of a volume, in whose place a program may have put a pipe, a device or a socket."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from imagenet_spec import volume_files
from imagenet_spec.events import attempt_folders, read_runs
from imagenet_spec.volume_files import NotAFile


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "device").symlink_to("/dev/zero")
    (tmp_path / "folder").mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
        yield tmp_path


@pytest.mark.parametrize(
    ("name", "error", "words"),
    [
        ("pipe", NotAFile, "a pipe, not a file"),
        ("device", NotAFile, "a device, not a file"),
        ("socket", OSError, "socket"),
        ("folder", IsADirectoryError, "folder"),
        ("absent", FileNotFoundError, "absent"),
    ],
)
def test_what_is_no_file_is_an_error_at_once(
    name: str, error: type[OSError], words: str, place: Path
) -> None:
    with pytest.raises(error, match=words):
        volume_files.read_bytes(place / name)


def test_a_file_is_read_through_a_link(place: Path) -> None:
    (place / "file").write_bytes(b"caf\xe9")
    (place / "link").symlink_to("file")
    assert volume_files.read_bytes(place / "link") == b"caf\xe9"
    assert volume_files.read_text(place / "link") == "caf\ufffd"


def test_a_pipe_in_place_of_a_log_holds_no_reader_up(tmp_path: Path) -> None:
    attempt = tmp_path / "attempts" / "r0"
    attempt.mkdir(parents=True)
    os.mkfifo(attempt / "metrics.jsonl")
    with pytest.raises(NotAFile):
        read_runs(attempt_folders(tmp_path))
