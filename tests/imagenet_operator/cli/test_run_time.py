"""Faults of a known length land in their phase of `status.time`, on stand-ins."""

import os
import signal
import time
from datetime import datetime
from typing import Any

import pytest

from support.processes import wait_until
from support.stand_ins import Workplace

HELD = 4.0
RESOLUTION = 1.0
"""The times in a status are whole seconds."""
RESTART_DELAY = 1.0
"""The wait after the second failure of a row; there is none after the first."""


def status(workplace: Workplace) -> dict[str, Any]:
    found: dict[str, Any] = workplace.job_file()["job"]["status"]
    return found


def seconds_between(first: str, last: str) -> float:
    return (datetime.fromisoformat(last) - datetime.fromisoformat(first)).total_seconds()


def wait_out() -> None:
    """Wait until a fault has its length."""
    since = time.monotonic()
    wait_until(lambda: time.monotonic() - since >= HELD, "the fault is long enough")


def test_a_held_preparation_and_a_killed_worker(workplace: Workplace) -> None:
    """Each phase contains its fault; it lies between two moments that the test sees."""
    workplace.behaviour = {"pack": "hold", "worker@0": "hold", "worker@1": "exit 1"}
    began = time.monotonic()
    running = workplace.start_run("--output", "json")
    wait_until(workplace.pods, "the preparation starts")
    wait_out()
    (workplace.workdir.parent / "release-pack").touch()
    worker = workplace.wait_for_pod("digits-r0-worker-0")
    prepared = time.monotonic() - began
    workplace.wait_for_pod("digits-r0-worker-1")
    workplace.wait_for_record_of_attempt(0)
    wait_until(lambda: status(workplace)["training"].get("runningTime"), "all members run")
    wait_out()
    os.kill(worker["pid"], signal.SIGKILL)
    killed = time.monotonic()
    workplace.wait_for_pod("digits-r2-worker-0")
    restarted = time.monotonic() - killed

    assert running.finish().code == 0
    found = status(workplace)
    phases = found["time"]["phases"]
    assert HELD - RESOLUTION <= phases["preparing"] <= prepared + RESOLUTION
    assert phases["unreported"] >= HELD - RESOLUTION
    assert RESTART_DELAY <= phases["restarting"] <= restarted + RESOLUTION
    created = workplace.job_file()["job"]["metadata"]["creationTimestamp"]
    whole = seconds_between(created, found["completionTime"])
    assert sum(phases.values()) == pytest.approx(whole, abs=0.1)
    assert found["time"]["goodput"] == 0
