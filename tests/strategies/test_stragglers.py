"""A worker of a whole job that is throttled to half is named; and no one before."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from imagenet_spec.metrics import TRAIN_EXCHANGES
from support.processes import wait_until
from support.sentences import assert_says
from support.throttled import processor_seconds, throttled
from support.training_cluster import ask
from support.whole_jobs import WholeJob, digits, make_digits

pytestmark = pytest.mark.timeout(900)


def straggling(whole: WholeJob) -> dict[str, Any] | None:
    stored = json.loads((whole.workdir / "jobs" / whole.name / "job.json").read_text())
    conditions = stored["job"]["status"].get("conditions", [])
    return next((item for item in conditions if item["type"] == "Straggling"), None)


def exchanges(place: tuple[str, int]) -> float:
    lines = ask(*place, "/metrics")[1].splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(TRAIN_EXCHANGES.name))


def test_a_worker_that_is_throttled_to_half_is_named(tmp_path: Path) -> None:
    make_digits(tmp_path)
    manifest = digits("distributedDataParallel:PyTorch", "digits-slow")
    manifest["spec"]["training"] |= {"epochs": 100_000}
    whole = WholeJob(tmp_path, manifest)
    with whole.running():
        place = wait_until(lambda: address(whole), "a worker runs")
        assert place is not None
        wait_until(lambda: exchanges(place) > 20, "both train")
        slow = child_of(whole.program("r0-worker-1"))
        began, used = time.monotonic(), processor_seconds(slow)
        enough = exchanges(place) + 30
        wait_until(lambda: exchanges(place) > enough, "30 exchanges")
        cores = (processor_seconds(slow) - used) / (time.monotonic() - began)
        assert straggling(whole) is None
        with throttled(slow, cores / 2):
            found = wait_until(lambda: straggling(whole), "a straggler is named")
    assert found is not None
    assert found["status"] == "True"
    assert found["message"].startswith("worker 1 (pod digits-slow-r0-worker-1 on node ")
    assert_says(found["message"], " times as long", "exchange of gradients", "median of 2 workers")


def child_of(init: int) -> int:
    """The process that trains; the first process of a pod is its init."""
    (child,) = Path(f"/proc/{init}/task/{init}/children").read_text().split()
    return int(child)


def address(whole: WholeJob) -> tuple[str, int] | None:
    """Where the first worker serves its metrics; None before it runs."""
    try:
        return whole.address("r0-worker-0")
    except AssertionError:
        return None
