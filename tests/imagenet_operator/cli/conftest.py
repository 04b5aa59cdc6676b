from collections.abc import Iterator
from pathlib import Path

import pytest

from support.stand_ins import Workplace


@pytest.fixture
def workplace(tmp_path: Path) -> Iterator[Workplace]:
    """A working directory for jobs on stand-ins; checks that no process remains."""
    place = Workplace(tmp_path)
    yield place
    assert place.left() == []
