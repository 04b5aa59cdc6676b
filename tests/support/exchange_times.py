"""What two workers report of their time before each exchange of gradients, with one throttled."""

import time
from collections.abc import Sequence

from imagenet_spec.metrics import TRAIN_BEFORE_EXCHANGE, TRAIN_EXCHANGES
from support.processes import wait_until
from support.throttled import processor_seconds, throttled
from support.training_cluster import METRICS_PORT, ask

ENDLESS_TRAINING = (
    *("--network", "lenet", "--batch-size", "16", "--benchmark", "1", "--num-epochs", "100000"),
    *("--image-shape", "3,28,28", "--num-classes", "10", "--num-examples", "9600"),
)
"""Options of imagenet-train: a training without images, which the test ends."""


EXCHANGES = 100
"""In each mean; with 30, other tests on the machine decided."""


def assert_half_is_slower(hosts: Sequence[str], process: int) -> None:
    """Assert that the second worker, a process, takes longer than the first with half of a core.

    Without a limit both take about as long before an exchange. Then the process gets half of the
    processor that it has used.
    """
    wait_until(lambda: all(_totals(host)[1] for host in hosts), "both train")

    def is_seen() -> bool:
        began, used = time.monotonic(), processor_seconds(process)
        first, second = _means(hosts)
        cores = (processor_seconds(process) - used) / (time.monotonic() - began)
        if second >= 1.5 * first:
            return False
        with throttled(process, cores / 2):
            other, slow = _means(hosts)
        return slow > 1.5 * other

    # Other programs on the machine may slow down either worker for a while.
    wait_until(is_seen, "alike without a limit, and slower with half of a core")


def _totals(host: str) -> tuple[float, float]:
    """The seconds before the exchanges of a worker, and how many these were."""
    _, text = ask(host, METRICS_PORT, "/metrics")
    found = {line.partition("{")[0]: line.split()[-1] for line in text.splitlines() if line}
    seconds, exchanges = (
        float(found.get(name, 0)) for name in (TRAIN_BEFORE_EXCHANGE.name, TRAIN_EXCHANGES.name)
    )
    return seconds, exchanges


def _means(hosts: Sequence[str]) -> list[float]:
    before = [_totals(host) for host in hosts]
    enough = before[0][1] + EXCHANGES
    wait_until(lambda: _totals(hosts[0])[1] >= enough, f"{EXCHANGES} exchanges")
    after = [_totals(host) for host in hosts]
    return [(b[0] - a[0]) / (b[1] - a[1]) for a, b in zip(before, after, strict=True)]
