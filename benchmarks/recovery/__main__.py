"""Measures what a killed worker costs, in parts: from the kill to the next step that is trained.

    make bench-recovery                             # about 6 minutes on 2 cores
    make bench-recovery-kind                        # on a kind cluster; needs a Docker engine
    .venv/bin/python -m benchmarks.recovery --strategies horovod:MXNet --runs 1

Prints Markdown; with --page, it also replaces the table of that page. Each strategy trains with two
workers, under `imagenetctl run` or on a cluster, and the last worker is killed with SIGKILL once an
epoch is trained. Every part is a difference of times on this machine: of the kill, of what the
operator does, of the attempt's pods, of the first step in the metrics of rank 0. Within the last
part, rank 0's own account of time says what it did. On a cluster, a deleted pod is measured beside
JobSet as well.
"""

import argparse
import os
import platform
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.recovery import here
from benchmarks.recovery.parts import Place, replace, table

STRATEGIES = (
    "parameterServer:dist_sync,horovod:MXNet,multiWorkerMirrored,horovod:TensorFlow,"
    "distributedDataParallel"
)


def main() -> None:
    """Run the benchmark."""
    parsed = parser().parse_args()
    # SIGTERM also removes what the run created.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    strategies = [one for one in parsed.strategies.split(",") if one]
    found: dict[str, list[dict[str, float]]] = {one: [] for one in strategies}
    with place(on_kind=parsed.kind) as measures:
        for number in range(parsed.runs):
            for index, (strategy, runs) in enumerate(found.items()):
                runs.append(measures.recovery(strategy, f"bench-{number}-{index}"))
                print(f"{strategy}: {sum(runs[-1].values()):.2f} s", file=sys.stderr, flush=True)
        if measures.beside_jobset is not None and parsed.beside:
            beside = measures.beside_jobset(parsed.beside)
            show(beside, parsed.page, "bench-recovery-jobset")
    if not found:
        return
    cores = f"{len(os.sched_getaffinity(0))} cores ({platform.machine()})"
    where = "on a kind cluster with two nodes for pods, " if parsed.kind else ""
    measured = f"resnet-20, two workers, {where}{cores}, seconds, median of {parsed.runs} rounds."
    name = "bench-recovery-kind" if parsed.kind else "bench-recovery"
    show(f"{measured}\n\n{table(found)}", parsed.page, name)


def show(text: str, page: Path | None, name: str) -> None:
    """Print a table, and put it into the page between the marks of its name."""
    print(text, flush=True)
    if page is not None:
        replace(page, name, text)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--runs", type=int, default=3, help="rounds")
    made.add_argument("--strategies", default=STRATEGIES, help="of two workers")
    made.add_argument("--kind", action="store_true", help="measure on a kind cluster instead")
    made.add_argument("--beside", type=int, default=10, help="with --kind: rounds beside JobSet")
    made.add_argument("--page", type=Path, help="a page whose table is replaced")
    return made


@contextmanager
def place(*, on_kind: bool) -> Iterator[Place]:
    """Give what measures a recovery, on this machine or on a kind cluster."""
    if not on_kind:
        yield Place(here.recovery)
        return
    # Of the tests, which are on the path only where they are asked for.
    from benchmarks.recovery import on_kind as kind

    with kind.bench() as found:
        yield found


if __name__ == "__main__":
    main()
