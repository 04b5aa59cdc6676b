"""Replica statuses: an attempt's members counted by role, as Kubeflow counts them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from imagenet_operator.api.status import MemberStatus, ReplicaStatus


def settled(statuses: Mapping[str, ReplicaStatus]) -> dict[str, ReplicaStatus]:
    """Return the counts of a job that has ended: whatever still runs is no active member of it."""
    return {role: found.model_copy(update={"active": 0}) for role, found in statuses.items()}


def count(members: Sequence[MemberStatus]) -> dict[str, ReplicaStatus]:
    """Return role → how many are active (pending or running), succeeded, failed (or vanished)."""
    phases: dict[str, list[str]] = {}
    for member in members:
        phases.setdefault(member.role, []).append(member.phase)
    return {
        role: ReplicaStatus(
            active=sum(phase in ("Pending", "Running") for phase in found),
            succeeded=found.count("Succeeded"),
            failed=found.count("Failed") + found.count("Unknown"),
        )
        for role, found in phases.items()
    }
