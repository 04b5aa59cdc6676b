from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.local_driver import LocalDriver


@pytest.fixture
def make_driver(tmp_path: Path) -> Iterator[Callable[..., LocalDriver]]:
    drivers: list[LocalDriver] = []

    def make(**options: object) -> LocalDriver:
        drivers.append(LocalDriver(tmp_path, **options))  # type: ignore[arg-type]
        return drivers[-1]

    yield make
    for driver in drivers:
        driver.close()


@pytest.fixture
def driver(make_driver: Callable[..., LocalDriver]) -> LocalDriver:
    return make_driver()
