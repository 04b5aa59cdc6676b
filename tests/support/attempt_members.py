"""Members of an attempt in both shapes, for tests of policies: as seen now, and as recorded."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from imagenet_operator.reconcile.types import MemberPod, Phase
from imagenet_spec.resource.status import MemberStatus

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
GPU = "nvidia.com/gpu"


def later(seconds: float) -> datetime:
    """A time after `NOW`."""
    return NOW + timedelta(seconds=seconds)


def seen(name: str, phase: Phase = Phase.RUNNING, **fields: Any) -> MemberPod:
    """A pod, named ROLE-INDEX for short."""
    role, _, index = name.partition("-")
    known = {"uid": f"uid-of-{name}", "attempt": 0, **fields}
    return MemberPod(role=role, index=int(index), name=name, phase=phase, **known)


def recorded(name: str, phase: str = "Running", **fields: Any) -> MemberStatus:
    """A pod in the status, named ROLE-INDEX for short."""
    known: dict[str, Any] = {"uid": f"uid-of-{name}", **fields}
    if phase in ("Succeeded", "Failed", "Unknown"):
        known.setdefault("finished_at", NOW)
    return MemberStatus.model_validate(
        {"name": name, "role": name.partition("-")[0], "phase": phase, **known}
    )
