"""Records trainings on a machine with noise, as the operator's sampler sees them.

    make noisy-steps                                # 100 recordings, about 40 minutes on 2 cores
    PYTHONPATH=tests .venv/bin/python -m benchmarks.noisy_steps --seeds 0-2 --output FILE

Two to four workers of DistributedDataParallel train a small network on the CPU, without a limit, so
they compete for the cores. Beside them, other processes take a core for up to 4 seconds at a time,
with pauses. Each line of the output is one recording of 40 seconds: the workers' times before an
exchange of gradients, in milliseconds, and the exchanges, each as the increase over about two
seconds. tests/imagenet_operator/reconcile/policies/test_noisy_steps.py replays the recordings.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from imagenet_operator.reconcile.sample import METRICS
from imagenet_operator.reconcile.scrape import BeforeExchange, ScrapeReader
from support.ddp_processes import DdpProcesses
from support.processes import wait_until
from support.training_cluster import METRICS_PORT, ask

PROGRAMS = Path(".venv-pytorch/bin").resolve()
NETWORKS = (("mlp",), ("lenet",), ("resnet", "--num-layers", "8"))
INTERVAL_SECONDS = 2.0
SAMPLES = 20
FEWEST_EXCHANGES = 30
"""A recording with fewer is not written: played twice, it would decide nothing."""


def record(seed: int, recordings: int) -> list[dict[str, Any]]:
    """Train once, and record what the workers report; the seed chooses how."""
    chosen = random.Random(seed)
    workers, network = chosen.randint(2, 4), chosen.choice(NETWORKS)
    batch = chosen.choice((4, 8, 16))
    with tempfile.TemporaryDirectory() as folder, _noise(chosen):
        options = ["--network", *network, "--batch-size", str(batch), "--benchmark", "1"]
        options += ["--image-shape", "3,28,28", "--num-classes", "10", "--num-examples", "6400"]
        options += ["--num-epochs", "100000", "--data-nthreads", "1", "--disp-batches", "1000"]
        options += ["--output", str(Path(folder, "out")), "--checkpoint-every-epochs", "0"]
        members = Path(folder, "members")
        with DdpProcesses(
            members, options, pods=workers, present=workers, programs=PROGRAMS
        ) as running:
            hosts = [running.host(index) for index in range(workers)]
            wait_until(lambda: all(_heard(host) for host in hosts), "all workers train")
            found = [list(_samples(hosts)) for _ in range(recordings)]
    name = network[0] if len(network) == 1 else f"{network[0]}-{network[-1]}"
    common = {"seed": seed, "network": name, "batch": batch, "workers": workers}
    return [{**common, "part": part, "samples": samples} for part, samples in enumerate(found)]


def _has_enough(recorded: dict[str, Any]) -> bool:
    """Whether each worker has exchanged gradients often enough."""
    of_workers = zip(*[added for _, *added in recorded["samples"]], strict=True)
    return all(sum(number for _, number in worker) >= FEWEST_EXCHANGES for worker in of_workers)


def _samples(hosts: Sequence[str]) -> Iterator[list[object]]:
    """Yield the seconds since the former sample, then what each worker adds in them."""
    before, at = [_heard(host) for host in hosts], time.monotonic()
    for _ in range(SAMPLES):
        time.sleep(INTERVAL_SECONDS)
        after, now = [_heard(host) for host in hosts], time.monotonic()
        yield [round(now - at, 2), *map(_added, before, after)]
        before, at = after, now


def _added(early: BeforeExchange | None, late: BeforeExchange | None) -> list[int]:
    """Return the milliseconds and exchanges between two answers of a worker."""
    if early is None or late is None:
        raise RuntimeError("a worker does not answer any more")
    more = late.since(early)
    return [round(more.seconds * 1000), int(more.exchanges)]


def _heard(host: str) -> BeforeExchange | None:
    """Ask a worker; None if it has not exchanged gradients yet."""
    _, text = ask(host, METRICS_PORT, "/metrics")
    reader = ScrapeReader(METRICS)
    reader.feed(text.encode() + b"\n")
    found = reader.scrape()
    return None if found is None else found.before_exchange.get("")


@contextmanager
def _noise(chosen: random.Random) -> Iterator[None]:
    """Have another process take a core now and then."""
    ended = threading.Event()

    def disturb() -> None:
        while not ended.wait(chosen.uniform(0.2, 4)):
            busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
            ended.wait(chosen.uniform(0.2, 4))
            busy.kill()
            busy.wait()

    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def main(arguments: Sequence[str] | None = None) -> int:
    """Record; return the exit code."""
    parser = argparse.ArgumentParser(prog="benchmarks.noisy_steps", description=__doc__)
    parser.add_argument("--seeds", default="0-99", help="of the trainings (default: %(default)s)")
    parser.add_argument("--recordings", type=int, default=1, help="of each (default: %(default)s)")
    parser.add_argument("--at-once", type=int, default=2, help="trainings (default: %(default)s)")
    parser.add_argument("--output", type=Path, required=True, help="file to write, one line a run")
    options = parser.parse_args(arguments)
    with ThreadPoolExecutor(options.at_once) as pool, options.output.open("w") as output:
        first, _, last = options.seeds.partition("-")
        runs = [
            pool.submit(record, seed, options.recordings)
            for seed in range(int(first), int(last or first) + 1)
        ]
        for run in as_completed(runs):
            for recorded in filter(_has_enough, run.result()):
                print(json.dumps(recorded, separators=(",", ":")), file=output, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
