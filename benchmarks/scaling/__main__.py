"""Measures what a job costs over the program by itself, and two workers over two single processes.

    make bench-training                             # about 25 minutes on 2 cores
    .venv/bin/python -m benchmarks.scaling --runs 1 --epochs 1
    .venv/bin/python -m benchmarks.scaling --strategies distributedDataParallel
    PYTHONPATH=tests .venv/bin/python -m benchmarks.scaling --kind        # needs a Docker engine

Prints Markdown; docs/benchmarks.md holds a run's output. Everything trains resnet-20 on packed
images of 32 pixels; a speed is the median of its rounds, a ratio that of the rounds' ratios. Speeds
are those of result.json, which counts training alone: no start, evaluation or checkpoint.

Both sides of a comparison have the same cores and as many threads, whatever OMP_NUM_THREADS says in
the environment. Each process makes the same number of equally large steps in an epoch, and as many
epochs: a job of two workers has twice the images and twice the global batch.

Two comparisons are made on this machine, on two of its cores with nothing else on them. A job under
`imagenetctl run` and the bare command, which serves no metrics, train at once, each on a
separate core, and again with the cores exchanged. Jobs of two workers, and two single processes,
each pinned to a core, train in turn. Each framework of the strategies has both comparisons, with
its own program. The wait for data is that of rank 0, from result.json, and the median of all jobs
of a strategy. All files stay under build/bench/training. With --kind there
is one, on a cluster: a job and its worker's pod, applied once more as a plain pod on the same node,
train at once with one thread each.
"""

import argparse
import platform
import signal
import sys

from benchmarks.scaling import here
from benchmarks.scaling.bare_program import take_cores
from benchmarks.scaling.jobs import BATCH, EDGE, IMAGES

from imagenet_spec.errors import ImageNetJobError


def main() -> None:
    """Runs the benchmark."""
    parsed = parser().parse_args()
    # SIGTERM also removes what the run created.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    cores = take_cores(2)
    print(
        f"resnet-20, {IMAGES} images of {EDGE}x{EDGE} and {BATCH} a step for each process, "
        f"{parsed.epochs} epochs, {len(cores)} cores ({platform.machine()}), median of "
        f"{parsed.runs} rounds.",
        flush=True,
    )
    if parsed.kind:
        # Of the tests, which are on the path only where they are asked for.
        from benchmarks.scaling import on_kind

        on_kind.compare(parsed.runs, parsed.epochs)
    else:
        try:
            here.compare(parsed.runs, parsed.epochs, parsed.strategies.split(","), cores)
        except ImageNetJobError as error:
            sys.exit(f"benchmarks.scaling: {error}")


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--runs", type=int, default=3, help="rounds")
    made.add_argument("--epochs", type=int, default=4, help="of each run")
    made.add_argument(
        "--strategies", default="parameterServer:dist_sync,horovod:MXNet", help="of two workers"
    )
    made.add_argument("--kind", action="store_true", help="measure on a kind cluster instead")
    return made


if __name__ == "__main__":
    main()
