"""`imagenetctl`: the command line for ImageNetJobs, with or without a cluster.

Each command is a module of this package, and those that only start a program of the workloads are
one, `programs`. An `ImageNetJobError` becomes one message and an exit code. Any other exception is
a bug and keeps its traceback.
"""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version

from imagenet_operator.cli import (
    bench,
    exit_codes,
    networks,
    programs,
    render,
    report,
    run,
    scale,
    validate,
)
from imagenet_operator.cli.arguments import CommandParser
from imagenet_operator.cli.interrupts import as_ctrl_c
from imagenet_operator.clusters.interface import ClusterError
from imagenet_operator.errors import ImageNetJobError

PROGRAM = "imagenetctl"

_UNWRITABLE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""Errors of a standard output that cannot be written; they name no file."""

_EXAMPLES = """examples:
  imagenetctl validate job.yaml      check a manifest without a cluster
  imagenetctl run job.yaml           run it on this machine: each pod is a process
  imagenetctl report NAME            show where the time of a job went
  imagenetctl scale job.yaml --workers 1,2,4
                                     compare numbers of workers, and strategies
  imagenetctl bench job.yaml         measure whether reading or the network limits it
  imagenetctl render job.yaml        print the objects that a cluster would create
  imagenetctl predict photo.jpg      classify an image with the newest result
  imagenetctl ledger digits          check that a job trained every record once an epoch
  imagenetctl verify RESULT          train from a checkpoint again, and compare
  imagenetctl export RESULT --format onnx --check
                                     write a trained model in another format
  imagenetctl dataset list volume    list the prepared datasets of a volume
  imagenetctl networks               list the networks, their depths and frameworks
"""


def build_parser() -> argparse.ArgumentParser:
    """Return the parser with all commands."""
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Prepare image archives and train networks, one manifest a job.",
        epilog=f"{_EXAMPLES}\n{exit_codes.HELP}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--version", action="version", version=f"{PROGRAM} {version('imagenet-operator')}"
    )
    subparsers = parser.add_subparsers(
        title="commands", metavar="COMMAND", required=True, parser_class=CommandParser
    )
    for add in (
        validate.add_parser,
        run.add_parser,
        report.add_parser,
        scale.add_parser,
        bench.add_parser,
        render.add_parser,
        programs.add_predict,
        programs.add_dataset,
        programs.add_ledger,
        programs.add_verify,
        programs.add_export,
        networks.add_parser,
    ):
        add(subparsers)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code."""
    parsed = build_parser().parse_args(arguments)
    try:
        with as_ctrl_c():
            code: int = parsed.run(parsed)
            sys.stdout.flush()
    except BrokenPipeError:  # a reader such as `head` closed the pipe
        _discard_output()
        return exit_codes.UNREAD
    except KeyboardInterrupt:
        return exit_codes.INTERRUPTED
    except ClusterError as error:
        return _report(error, exit_codes.ENVIRONMENT)
    except ImageNetJobError as error:
        return _report(error, exit_codes.USAGE)
    except OSError as error:  # after ImageNetJobError: some of those are OSErrors too
        if error.filename is not None or error.errno not in _UNWRITABLE:
            raise
        _discard_output()
        reported = ClusterError(f"cannot write the output: {error.strerror}")
        return _report(reported, exit_codes.ENVIRONMENT)
    return code


def _discard_output() -> None:
    """Redirect the buffered output, so that Python's exit reports no error."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _report(error: ImageNetJobError, code: int) -> int:
    for line in str(error).splitlines():
        print(f"{PROGRAM}: error: {line}", file=sys.stderr)
    return code
