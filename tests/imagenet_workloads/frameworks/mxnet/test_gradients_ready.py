"""When a worker of a parameter server has computed its gradients, before it waits for others."""

from pathlib import Path

from support.exchange_times import with_half
from support.training_cluster import TrainingCluster


def test_a_worker_that_is_throttled_to_half_takes_longer_than_the_other(tmp_path: Path) -> None:
    options = ["--network", "lenet", "--batch-size", "16", "--benchmark", "1"]
    options += ["--image-shape", "3,28,28", "--num-classes", "10", "--num-examples", "9600"]
    options += ["--num-epochs", "100000", "--output", str(tmp_path / "out")]
    with TrainingCluster(tmp_path / "members", "dist_sync", options) as running:
        running.wait_for_line("worker-1", "INFO rank ")
        hosts = [running.address(f"worker-{number}") for number in (0, 1)]
        found = with_half(hosts, running.process("worker-1"))
    assert found.free[1] < 1.5 * found.free[0]
    assert found.throttled > 1.5 * found.other
