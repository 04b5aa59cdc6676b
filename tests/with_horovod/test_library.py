"""The library that images/build_horovod.py has built."""

from __future__ import annotations

from importlib.metadata import files
from pathlib import Path

from support.horovod_cluster import HorovodCluster
from support.judged_trainings import SMALL
from support.tiny_dataset import write_dataset


def test_it_has_no_debugging_information() -> None:
    """Which would be most of it, in every image."""
    built = [file for file in files("horovod") or [] if file.name.startswith("mpi_lib")]
    assert built
    assert all(b".debug_info" not in file.locate().read_bytes() for file in built)  # type: ignore[attr-defined]


def test_its_thread_sleeps_until_gradients_wake_it(tmp_path: Path) -> None:
    """By its own timeline: cycles of no length would start again and again."""
    timeline = tmp_path / "timeline.json"
    variables = {
        "HOROVOD_CYCLE_TIME": "0",
        "HOROVOD_IDLE_CYCLE_TIME": "600000",
        "HOROVOD_TIMELINE": str(timeline),
        "HOROVOD_TIMELINE_MARK_CYCLES": "1",
    }
    data = write_dataset(tmp_path / "data", train=96, validation=32, shards=2)
    arguments = [*SMALL, "--dataset", str(data.folder), "--output", str(tmp_path / "out")]
    arguments += ["--network", "mlp", "--batch-size", "8", "--num-epochs", "2"]
    with HorovodCluster(tmp_path / "members", arguments, environment=variables) as cluster:
        assert set(cluster.wait().values()) == {0}, cluster.output("pod-0")
    told = timeline.read_text()
    cycles, tensors = told.count('"CYCLE_START"'), told.count('"NEGOTIATE_ALLREDUCE"')
    assert 0 < cycles <= 2 * tensors
