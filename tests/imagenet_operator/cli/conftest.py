from collections.abc import Iterator
from pathlib import Path

import pytest

from imagenet_operator.sdk.interface import Jobs
from support.client_jobs import UserCluster
from support.stand_ins import Workplace


@pytest.fixture
def workplace(tmp_path: Path) -> Iterator[Workplace]:
    """A working directory for jobs on stand-ins; checks that no process remains."""
    place = Workplace(tmp_path)
    yield place
    assert place.left() == []


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[UserCluster]:
    """A cluster that the current context of KUBECONFIG names."""
    found = UserCluster(tmp_path)
    monkeypatch.setenv("KUBECONFIG", str(found.kubeconfig))
    monkeypatch.setattr(Jobs, "poll_seconds", 0.01)
    yield found
    found.close()
