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


def status(workplace: Workplace) -> dict[str, Any]:
    found: dict[str, Any] = workplace.job_file()["job"]["status"]
    return found


def seconds_between(first: str, last: str) -> float:
    return (datetime.fromisoformat(last) - datetime.fromisoformat(first)).total_seconds()


def wait_out(since: float) -> None:
    """Wait until a fault has its length."""
    wait_until(lambda: time.monotonic() - since >= HELD, "the fault is long enough")


def test_a_held_preparation_and_a_killed_worker(workplace: Workplace) -> None:
    workplace.behaviour = {"pack": "hold", "worker@0": "hold"}
    running = workplace.start_run("--output", "json")
    wait_until(workplace.pods, "the preparation starts")
    held = time.monotonic()
    wait_out(held)
    (workplace.workdir.parent / "release-pack").touch()
    worker = workplace.wait_for_pod("digits-r0-worker-0")
    prepared = time.monotonic() - held
    workplace.wait_for_pod("digits-r0-worker-1")
    workplace.wait_for_record_of_attempt(0)
    wait_until(lambda: status(workplace)["training"].get("runningTime"), "all members run")
    ran = time.monotonic()
    wait_out(ran)
    os.kill(worker["pid"], signal.SIGKILL)
    killed = time.monotonic()
    workplace.wait_for_pod("digits-r1-worker-0")
    restarted = time.monotonic() - killed

    assert running.finish().code == 0
    found = status(workplace)
    phases = found["time"]["phases"]
    assert phases["preparing"] == pytest.approx(prepared, abs=2)
    assert phases["unreported"] >= HELD - 2
    assert phases["restarting"] == pytest.approx(restarted, abs=2)
    created = workplace.job_file()["job"]["metadata"]["creationTimestamp"]
    whole = seconds_between(created, found["completionTime"])
    assert sum(phases.values()) == pytest.approx(whole, abs=0.1)
    assert found["time"]["goodput"] == 0
