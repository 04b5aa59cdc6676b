"""The library that images/build_horovod.py has built."""

from __future__ import annotations

import sys
from importlib.metadata import files, version
from pathlib import Path

from imagenet_spec import metrics
from support.horovod_cluster import HorovodCluster

TEN_MINUTES = {"HOROVOD_IDLE_CYCLE_TIME": "600000"}


def test_it_has_no_debugging_information() -> None:
    """Which would be most of it, in every image."""
    built = [file for file in files("horovod") or [] if file.name.startswith("mpi_lib")]
    assert built
    assert all(b".debug_info" not in file.locate().read_bytes() for file in built)  # type: ignore[attr-defined]


def test_it_says_that_it_is_patched() -> None:
    assert version("horovod") == "0.28.1+idle.cycle"


IDLE = """
import time
import horovod.mxnet as hvd
import mxnet as mx

hvd.init()
for step in range(10):
    assert hvd.allreduce(mx.nd.ones(3), op=hvd.Sum, name="tensor").asnumpy().tolist() == [2] * 3
    time.sleep(0.5)  # what is measured: nothing to reduce
"""


def cycles(folder: Path, **variables: str) -> int:
    """How many cycles two processes begin, idle for five seconds, by Horovod's own timeline."""
    timeline = folder / "timeline.json"
    marked = {"HOROVOD_TIMELINE": str(timeline), "HOROVOD_TIMELINE_MARK_CYCLES": "1"}
    run(folder, IDLE, {**marked, "HOROVOD_CYCLE_TIME": "1", **variables})
    return timeline.read_text().count('"CYCLE_START"')


def run(folder: Path, script: str, variables: dict[str, str]) -> None:
    program = (sys.executable, "-c", script)
    with HorovodCluster(folder, (), environment=variables, program=program) as cluster:
        assert set(cluster.wait().values()) == {0}, cluster.output("pod-0")


def test_its_thread_sleeps_until_it_has_something_to_reduce(tmp_path: Path) -> None:
    patched = cycles(tmp_path / "patched", **TEN_MINUTES)
    # More than two a step, as long as one process waits for the other, which may lack a processor.
    assert patched >= 10
    # Five thousand on a machine that has nothing else to do.
    assert cycles(tmp_path / "as-it-comes") > 2 * patched


LATE = """
import horovod.mxnet as hvd
import mxnet as mx

def reduced(name):
    return hvd.allreduce(mx.nd.ones(3), op=hvd.Sum, name=name)

for start in range(2):
    hvd.init()
    if hvd.rank() == 0:
        # The other is asked about the first long before it has it.
        awaited = [reduced("late"), reduced("early")]
    else:
        reduced("early").wait_to_read()
        awaited = [reduced("late")]
    assert all(value.asnumpy().tolist() == [2] * 3 for value in awaited)
    hvd.shutdown()
"""


def test_what_others_are_not_ready_for_keeps_it_awake(tmp_path: Path) -> None:
    """Also after another init; shutdown does not wait for the next cycle."""
    run(tmp_path, LATE, TEN_MINUTES)


PROCESS_SETS = """
import horovod.mxnet as hvd
import mxnet as mx

for time in range(2):
    hvd.init(process_sets="dynamic")
    # The same set again has the same keys in the rendezvous.
    for again in range(2):
        added = hvd.add_process_set([0, 2])
        if added.included():
            total = hvd.allreduce(mx.nd.ones(1), op=hvd.Sum, name="tensor", process_set=added)
            assert total.asnumpy().tolist() == [2]
        hvd.remove_process_set(added)
    hvd.shutdown()
"""


def test_process_sets_meet_and_all_meet_again(tmp_path: Path) -> None:
    program = (sys.executable, "-c", PROCESS_SETS)
    with HorovodCluster(tmp_path, (), pods=2, slots=2, program=program) as cluster:
        assert set(cluster.wait().values()) == {0}, cluster.output("pod-0")
        page = cluster.get("rendezvous", "/metrics")[1]
        assert f"{metrics.PEER_REQUESTS_REFUSED.name}{{" in page
        assert "refused" not in cluster.output("rendezvous")
