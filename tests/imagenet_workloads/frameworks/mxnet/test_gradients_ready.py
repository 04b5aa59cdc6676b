"""When a worker of a parameter server has computed its gradients, before it waits for others."""

from pathlib import Path

from support.exchange_times import ENDLESS_TRAINING, assert_half_is_slower
from support.training_cluster import TrainingCluster


def test_a_worker_that_is_throttled_to_half_takes_longer_than_the_other(tmp_path: Path) -> None:
    options = [*ENDLESS_TRAINING, "--output", str(tmp_path / "out")]
    with TrainingCluster(tmp_path / "members", "dist_sync", options) as running:
        running.wait_for_line("worker-1", "INFO rank ")
        hosts = [running.address(f"worker-{number}") for number in (0, 1)]
        assert_half_is_slower(hosts, running.process("worker-1"))
