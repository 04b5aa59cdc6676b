"""`make chaos-training`: kills real workers, resumes them with other numbers, checks the ledgers.

One schedule again: PYTHONPATH=tests python -m chaos.training --seed 3
"""

from __future__ import annotations

import argparse
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from imagenet_spec.program.train import PROCESSES, THREADS
from imagenet_workloads.dataset import read_dataset
from imagenet_workloads.records.split import open_split
from imagenet_workloads.train.ledger import check, find_runs
from support.processes import wait_until
from support.tiny_dataset import write_dataset
from support.training_cluster import PROGRAM, TrainingCluster, plain_environment

TABLE = re.compile(
    "(?<=<!-- make chaos-training -->\n).*(?=<!-- end of chaos-training -->)", re.DOTALL
)
HEAD = """
| Seed | Images | Epochs | Workers of the attempts | Images trained again | Mistakes |
|--:|--:|--:|---|--:|--:|
"""
JOB = {"IMAGENET_JOB_UID": "uid", "IMAGENET_SPEC_HASH": "hash"}


@dataclass(frozen=True)
class Attempt:
    """One attempt of a schedule.

    Attributes:
        workers: how many.
        batch_size: images a step of a worker.
        killed_after: lines of rank 0's log; None to train to the end.
    """

    workers: int
    batch_size: int
    killed_after: int | None


@dataclass(frozen=True)
class Schedule:
    """What happens to one job.

    Attributes:
        images: of its dataset.
        epochs: planned.
        attempts: in their order.
    """

    images: int
    epochs: int
    attempts: tuple[Attempt, ...]


def draw(seed: int) -> Schedule:
    """Draw a schedule: one to three attempts are killed, and the last one is not."""
    drawn = random.Random(seed)
    killed = [
        Attempt(drawn.choice((1, 1, 2, 3)), drawn.randint(2, 6), drawn.randint(3, 25))
        for _ in range(drawn.randint(1, 3))
    ]
    last = Attempt(drawn.choice((1, 1, 2, 3)), drawn.randint(2, 6), None)
    return Schedule(drawn.randint(60, 160), drawn.randint(1, 3), (*killed, last))


def play(schedule: Schedule, folder: Path) -> None:
    """Train, kill and resume; `folder` gets the dataset and the output."""
    dataset, output = folder / "data", folder / "out"
    write_dataset(dataset, train=schedule.images, validation=0, shards=2)
    for number, attempt in enumerate(schedule.attempts):
        arguments = ["--dataset", str(dataset), "--output", str(output), "--network", "mlp"]
        arguments += ["--image-shape", "3,28,28", "--batch-size", str(attempt.batch_size)]
        arguments += ["--num-epochs", str(schedule.epochs), "--data-nthreads", "1"]
        arguments += ["--checkpoint-every-seconds", "0.02", "--disp-batches", "1"]
        arguments += ["--decoding", (THREADS, PROCESSES)[number % 2]]
        _train(attempt, arguments, folder, number)


def row(seed: int, schedule: Schedule, folder: Path) -> str:
    """Check the ledgers of a schedule that was played; return its row of the table."""
    dataset = folder / "data"
    sealed = read_dataset(dataset)
    identities = open_split(sealed.train, sealed.format, dataset).identities()
    runs = find_runs(folder / "out")
    epochs = list(check(runs, is_finished=True, dataset=identities))
    mistakes = sum(len(epoch.mistakes) for epoch in epochs)
    mistakes += schedule.epochs * schedule.images - sum(epoch.trained for epoch in epochs)
    workers = ", ".join(str(attempt.workers) for attempt in schedule.attempts)
    redone = sum(epoch.redone for epoch in epochs)
    cells = (seed, schedule.images, schedule.epochs, workers, redone, mistakes)
    return f"| {' | '.join(map(str, cells))} |\n"


def has_mistakes(row: str) -> bool:
    """Whether a row of the table has any."""
    return not row.endswith(" 0 |\n")


def _train(attempt: Attempt, arguments: Sequence[str], folder: Path, number: int) -> None:
    environment = JOB | {"IMAGENET_ATTEMPT": str(number)}
    written = folder / f"out/attempts/r{number}"

    def is_due() -> bool:
        if (written / "result.json").exists():
            return True
        log = written / "train.log"
        lines = log.read_text().count(" batch ") if log.exists() else 0
        return attempt.killed_after is not None and lines >= attempt.killed_after

    if attempt.workers == 1:
        command = [str(PROGRAM), "--kv-store", "local", *arguments]
        with subprocess.Popen(
            command, env=plain_environment(**environment), stderr=subprocess.DEVNULL
        ) as process:
            try:
                wait_until(is_due, f"attempt {number}")
            finally:
                process.kill()
        return
    members = folder / f"members-{number}"
    with TrainingCluster(
        members, "dist_sync", arguments, attempt.workers, environment=environment
    ) as cluster:
        wait_until(is_due, f"attempt {number}")
        for member in cluster.members.values():
            member.kill()


def main() -> int:
    """Play the schedules; return 1 if a ledger has a mistake."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--schedules", type=int, default=20, help="how many (default: 20)")
    parser.add_argument("--seed", type=int, help="play only this one")
    parser.add_argument("--page", type=Path, help="write the table into this page")
    options = parser.parse_args()
    seeds = range(options.schedules) if options.seed is None else [options.seed]
    rows = []
    for seed in seeds:
        schedule = draw(seed)
        with tempfile.TemporaryDirectory() as folder:
            play(schedule, Path(folder))
            rows.append(row(seed, schedule, Path(folder)))
        print(rows[-1], end="", file=sys.stderr, flush=True)
    if options.page is not None:
        table = "".join((HEAD, *rows))
        text = options.page.read_text()
        options.page.write_text(TABLE.sub(lambda _: f"{table}\n", text))
    return int(any(map(has_mistakes, rows)))


if __name__ == "__main__":
    sys.exit(main())
