"""Files that grow are progress; files that do not are none."""

import threading
from pathlib import Path

from imagenet_workloads.train.reporter import growth_reported

INTERVAL = 0.01


def test_each_growth_is_reported(tmp_path: Path) -> None:
    reports = threading.Semaphore(0)
    with growth_reported(tmp_path, reports.release, INTERVAL):
        for size in (1, 2, 3):
            (tmp_path / "weights").write_bytes(bytes(size))
            assert reports.acquire(timeout=60)


def test_nothing_is_reported_after_the_block(tmp_path: Path) -> None:
    reports: list[None] = []
    with growth_reported(tmp_path, lambda: reports.append(None), INTERVAL):
        pass
    assert "file growth" not in [thread.name for thread in threading.enumerate()]
    assert reports == []


def test_files_that_others_write_are_no_progress(tmp_path: Path) -> None:
    reports = threading.Semaphore(0)
    with growth_reported(tmp_path, reports.release, INTERVAL, pattern="model-*"):
        (tmp_path / "another").write_bytes(b"1")
        assert not reports.acquire(timeout=10 * INTERVAL)
        (tmp_path / "model-0001").write_bytes(b"1")
        assert reports.acquire(timeout=60)
