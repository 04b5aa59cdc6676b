"""`imagenet-verify`: trains some steps from a checkpoint again, and compares the receipts.

result.json has a chain of receipts: those of its checkpoints, and of the states 10 steps later.
"""

import argparse
import sys
from collections.abc import Sequence

from imagenet_spec.program import kinds

PROGRAM = "imagenet-verify"
# Receipts differ; 3 is that of an input that cannot be verified.
DIFFERENT = 1


def build_parser() -> argparse.ArgumentParser:
    """Build the parser of `imagenet-verify`."""
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Train some steps from a checkpoint again, and compare every byte.",
    )
    parser.add_argument(
        "result",
        type=kinds.path,
        metavar="RESULT",
        help="a job's folder, an attempt's or a result.json",
    )
    parser.add_argument(
        "--checkpoint",
        type=kinds.text,
        metavar="NAME",
        help="where to begin, such as epoch-0003-batch-00000000 (default: the last one that is "
        "there and has the receipt)",
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--steps",
        type=kinds.positive,
        metavar="K",
        help="steps from there to the receipt (default: 10)",
    )
    where.add_argument(
        "--next-checkpoint", action="store_true", help="train to the next checkpoint"
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Verify; return the exit code."""
    from imagenet_workloads.process.program import run_program

    options = build_parser().parse_args(arguments)
    return run_program(PROGRAM, lambda: _verify(options))


def _verify(options: argparse.Namespace) -> int:
    from imagenet_workloads.commands.train import parse
    from imagenet_workloads.frameworks import FRAMEWORKS
    from imagenet_workloads.prediction import find_result
    from imagenet_workloads.train.receipts import LATER_STEPS, Launch
    from imagenet_workloads.train.verification import choose, members, train_again

    result = find_result(options.result.resolve(), "")
    steps = None if options.next_checkpoint else options.steps or LATER_STEPS
    target = choose(result, options.checkpoint, steps)
    launch = Launch.read(target.launch)
    trained = parse(launch.arguments)
    processes = members(launch, target.launch, trained, FRAMEWORKS[trained.cluster.framework])
    again = train_again(target, launch, trained, processes)
    parts = sorted({*target.state, *again})
    different = [part for part in parts if target.state.get(part) != again.get(part)]
    for part in parts:
        state = "differs" if part in different else "is the same"
        print(f"{part}: {state}, {again.get(part, 'missing')}")
    outcome = "another state than that of" if different else "the bytes of"
    print(
        f"from {target.checkpoint.name}, training has {outcome} {target.position.name} "
        f"(steps: {target.steps})"
    )
    return DIFFERENT if different else 0


if __name__ == "__main__":
    sys.exit(main())
