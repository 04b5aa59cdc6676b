"""`imagenetctl`: the command line of ImageNetJobs, with a cluster and without one.

Each command is a module of this package. Errors that a user can cause arrive here as
`ImageNetJobError` and leave as one message and an exit code; anything else is a bug and keeps its
traceback.
"""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version

from imagenet_operator.cli import exit_codes, networks, predict, render, run, scale, validate
from imagenet_operator.cli.interrupts import as_ctrl_c
from imagenet_operator.clusters.interface import ClusterError
from imagenet_operator.errors import ImageNetJobError

PROGRAM = "imagenetctl"

_UNWRITABLE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""Why the output can no longer be written; a file that cannot would have its name in the error."""

_EXAMPLES = """examples:
  imagenetctl validate job.yaml      check a manifest as the API server and the operator would
  imagenetctl run job.yaml           run it on this machine: each pod is a process
  imagenetctl scale job.yaml --workers 1,2,4
                                     compare numbers of workers, and strategies
  imagenetctl render job.yaml        show what a cluster would get
  imagenetctl predict photo.jpg      classify an image with the newest result
  imagenetctl networks               list the networks, their depths and frameworks
"""


def build_parser() -> argparse.ArgumentParser:
    """The parser of every command."""
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Take image archives to trained networks, one manifest each.",
        epilog=f"{_EXAMPLES}\n{exit_codes.HELP}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--version", action="version", version=f"{PROGRAM} {version('imagenet-operator')}"
    )
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in (validate, run, scale, render, predict, networks):
        command.add_parser(subparsers)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code."""
    parsed = build_parser().parse_args(arguments)
    try:
        with as_ctrl_c():
            code: int = parsed.run(parsed)
            sys.stdout.flush()
    except BrokenPipeError:  # a reader such as `head` has had enough
        _discard_output()
        return exit_codes.UNREAD
    except KeyboardInterrupt:
        return exit_codes.INTERRUPTED
    except ClusterError as error:
        return _report(error, exit_codes.ENVIRONMENT)
    except ImageNetJobError as error:
        return _report(error, exit_codes.USAGE)
    except OSError as error:  # after our own, of which some are that as well
        if error.filename is not None or error.errno not in _UNWRITABLE:
            raise
        _discard_output()
        reported = ClusterError(f"cannot write the output: {error.strerror}")
        return _report(reported, exit_codes.ENVIRONMENT)
    return code


def _discard_output() -> None:
    """Let nobody complain of what is still buffered when Python ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _report(error: ImageNetJobError, code: int) -> int:
    for line in str(error).splitlines():
        print(f"{PROGRAM}: error: {line}", file=sys.stderr)
    return code
