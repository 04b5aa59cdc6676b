"""Progress of a call that writes files and says nothing meanwhile, such as a framework's save."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

INTERVAL_SECONDS = 1.0


@contextmanager
def growth_reported(
    folder: Path,
    report: Callable[[], None],
    interval: float = INTERVAL_SECONDS,
    pattern: str = "**/*",
) -> Iterator[None]:
    """Looks at the files below a folder until the block ends.

    Args:
        folder: that the block writes to.
        report: called from another thread if the files have changed in size since the last look.
        interval: seconds between two looks.
        pattern: of the files, below the folder.
    """
    ended = threading.Event()
    at_start = _sizes(folder, pattern)

    def watch() -> None:
        before = at_start
        while not ended.wait(interval):
            now = _sizes(folder, pattern)
            if now != before:
                report()
            before = now

    thread = threading.Thread(target=watch, name="file growth", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _sizes(folder: Path, pattern: str) -> dict[Path, int]:
    found = {}
    for path in folder.glob(pattern):
        try:
            found[path] = path.stat().st_size
        except FileNotFoundError:  # renamed meanwhile
            continue
    return found
