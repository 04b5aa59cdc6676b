from collections.abc import Iterator
from pathlib import Path

import pytest

from support.stand_ins import Workplace


@pytest.fixture
def workplace(tmp_path: Path) -> Iterator[Workplace]:
    """A place to run jobs on stand-ins; afterwards no process may be left."""
    place = Workplace(tmp_path)
    yield place
    assert place.left() == []
