"""`imagenet-train`: the program of every pod of an attempt, of any role.

It parses the command line. The framework's description runs members that are not workers; this
module runs a worker, in a child process of PID 1. It imports little, because contract tests build
this parser, and because PID 1 ignores SIGTERM until it has forked.
"""

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from imagenet_spec.names import TRAIN_PROGRAM

if TYPE_CHECKING:
    from imagenet_spec.program.train import Options


def build_parser() -> argparse.ArgumentParser:
    """Build the parser of `imagenet-train`."""
    from imagenet_workloads.frameworks import FRAMEWORKS
    from imagenet_workloads.train import command_line

    return command_line.build_parser(FRAMEWORKS)


def parse(arguments: Sequence[str] | None = None) -> "Options":
    """Parse a command line with the registered frameworks; exit with 2 if it is invalid."""
    from imagenet_workloads.frameworks import FRAMEWORKS
    from imagenet_workloads.train import command_line

    return command_line.parse(arguments, FRAMEWORKS)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the member of the environment's role, or train without peers; return the exit code."""
    from imagenet_workloads.process.pid1 import LastLines, run_in_child

    last_lines = LastLines.from_environment(os.environ)
    code = run_in_child(lambda: _run(arguments), last_lines, os.environ)
    if code != 128 + signal.SIGABRT:
        return code

    from imagenet_workloads.process.program import run_program

    return run_program(TRAIN_PROGRAM, lambda: _explain_abort(arguments, code))


def _run(arguments: Sequence[str] | None) -> int:
    from imagenet_workloads.process.program import run_program

    options = parse(arguments)
    return run_program(TRAIN_PROGRAM, lambda: _member(options))


def _explain_abort(arguments: Sequence[str] | None, code: int) -> int:
    from imagenet_workloads.frameworks import FRAMEWORKS

    options = parse(arguments)
    FRAMEWORKS[options.cluster.framework].explain_abort(options)
    return code


def _member(options: "Options") -> int:
    from imagenet_workloads.frameworks import FRAMEWORKS
    from imagenet_workloads.telemetry.event_log import log_readably
    from imagenet_workloads.train.description import refuse_lacking

    log_readably()
    framework = FRAMEWORKS[options.cluster.framework]
    framework.before_import()
    code = framework.serve(options, os.environ)
    if code is not None:
        return code
    refuse_lacking(options, FRAMEWORKS)
    # Imported here: other members do not need it.
    from imagenet_workloads.train import worker

    return worker.run(options, framework, os.environ)


if __name__ == "__main__":
    sys.exit(main())
