"""What a fetch reports while it asks a server for the versions of its files."""

from pathlib import Path

import pytest

from imagenet_spec import metrics
from imagenet_spec.metrics import Metric
from imagenet_workloads.commands.fetch import build_parser
from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare import fetch
from imagenet_workloads.prepare.sources import kinds as sources
from imagenet_workloads.telemetry.preparation import NullSink, PreparationRecorder
from support.file_server import FileServer
from support.remote_preparation import files_on_server

FILES = [f"{number}.tar" for number in range(5)]
PROGRESS = (metrics.PREPARE_FETCH_FILES, metrics.PREPARE_FETCH_ASKED_FILES)


class Reports(NullSink):
    """What was set, in turn, up to the first byte."""

    def __init__(self) -> None:
        self.values: list[tuple[Metric, float]] = []
        self.is_over = False

    def set(self, metric: Metric, value: float) -> None:
        self.is_over |= metric is metrics.PREPARE_FETCH_PLANNED_BYTES
        if not self.is_over:
            self.values.append((metric, value))


def run(server: FileServer, cache: Path) -> Reports:
    given = files_on_server(server.url, *FILES)
    parsed = build_parser().parse_args([*given, "--cache", str(cache)])
    reports = Reports()
    request = fetch.FetchRequest(sources.files_to_fetch(parsed), cache, connections=2)
    try:
        fetch.run(request, PreparationRecorder(reports))
    except InputError:
        assert not reports.is_over
    return reports


@pytest.fixture
def server() -> FileServer:
    return FileServer({f"/{name}": name.encode() for name in FILES})


def test_each_file_is_counted_as_the_server_answers(server: FileServer, tmp_path: Path) -> None:
    files, asked = PROGRESS
    expected = [(files, 5), *((asked, number) for number in range(6))]
    with server.running():
        assert run(server, tmp_path / "cache").values == expected
        # Files in the cache are compared too.
        assert run(server, tmp_path / "cache").values == expected


def test_a_file_that_the_server_lacks_is_not_counted(server: FileServer, tmp_path: Path) -> None:
    del server.content["/0.tar"]
    with server.running():
        values = run(server, tmp_path / "cache").values
    assert values[0] == (PROGRESS[0], 5)
    assert max(value for metric, value in values if metric is PROGRESS[1]) < 5
