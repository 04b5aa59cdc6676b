"""What holds for every test."""

import signal
import time
import zlib

import pytest
from hypothesis import HealthCheck, settings

from imagenet_workloads.frameworks.mxnet.description import make_operators_late

# As in the programs under test; the processes that test are many, too.
make_operators_late()

# A shell ignores SIGINT for what it runs in the background, nohup SIGHUP; children inherit that.
# Programs keep ignoring a signal that was ignored at their start; tests need them to handle it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# How long a machine that does other things takes over an example says nothing about the code.
settings.register_profile(
    "untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("untimed")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--one-in", type=int, default=1, help="run one of so many tests, by name")
    parser.addoption("--part", type=int, default=0, help="which of these parts (default: 0)")
    parser.addoption("--costly-one-in", type=int, default=1, help="of the costly alone, as few")
    parser.addoption("--within", type=float, help="begin no test after so many seconds")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "costly: takes long, alone or with its parameters")
    if config.getoption("--within"):
        config.pluginmanager.register(Within(config.getoption("--within")))


class Within:
    """Ends a run whose time is over; tests that were not begun are no failure."""

    def __init__(self, seconds: float) -> None:
        self.end = time.monotonic() + seconds
        self.is_over = False

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        self.session = session

    def pytest_runtest_logfinish(self) -> None:
        if time.monotonic() > self.end:
            self.is_over = True
            self.session.shouldstop = "the time is over; make test runs the rest"

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.is_over:
            session.exitstatus = 1 if session.testsfailed else 0


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out all but a part of the tests that is the same everywhere, and spread over all."""
    part: int = config.getoption("--part")
    parts: int = config.getoption("--one-in")
    costly = sorted(item.nodeid for item in items if item.get_closest_marker("costly"))
    costly_parts: int = max(parts, config.getoption("--costly-one-in"))
    wanted = set(costly[part % costly_parts :: costly_parts])

    def is_wanted(item: pytest.Item) -> bool:
        if item.get_closest_marker("costly"):
            return item.nodeid in wanted
        return zlib.crc32(item.nodeid.encode()) % parts == part % parts

    left_out = [item for item in items if not is_wanted(item)]
    if left_out:
        items[:] = [item for item in items if item not in set(left_out)]
        config.hook.pytest_deselected(items=left_out)
