"""A registry whose process has waited 3.5 s for processors."""

from __future__ import annotations

import pytest

from imagenet_workloads.environment import Environment
from imagenet_workloads.telemetry import training as recorders
from imagenet_workloads.telemetry.server import Registry


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Registry:
    monkeypatch.setattr(recorders, "throttled_seconds", lambda: 3.5)
    return Registry(Environment(job="digits", role="worker"))
