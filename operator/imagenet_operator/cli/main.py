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
    check,
    compare,
    completion,
    demo,
    doctor,
    exit_codes,
    init,
    jobs,
    logs,
    networks,
    places,
    programs,
    render,
    report,
    run,
    scale,
    submit,
    tracking,
    transfers,
    validate,
)
from imagenet_operator.cli.arguments import CommandParser
from imagenet_operator.cli.dashboard import command as dashboard
from imagenet_operator.cli.interrupts import as_ctrl_c
from imagenet_operator.clusters.interface import ClusterError
from imagenet_operator.sdk.errors import JobEnded, NotFound, Timeout
from imagenet_spec.errors import ImageNetJobError

PROGRAM = "imagenetctl"
PLUGIN = "kubectl imagenet"

_UNWRITABLE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""Errors of a standard output that cannot be written; they name no file."""

_EXAMPLES = """examples:
  imagenetctl demo                   train handwritten digits on this machine
  imagenetctl init photos            write a manifest for a folder of photographs
  imagenetctl check photos           find duplicates, leaks and imbalance
  imagenetctl validate job.yaml      check a manifest without a cluster
  imagenetctl run job.yaml           run it on this machine: each pod is a process
  imagenetctl submit job.yaml -n NAMESPACE --follow
                                     create it on a cluster, and follow it
  imagenetctl list                   list the jobs of this machine, with -n of a cluster
  imagenetctl status NAME            show the state of a job
  imagenetctl logs NAME -f           follow its log
  imagenetctl wait NAME              wait until it has succeeded
  imagenetctl upload photos -n NAMESPACE --claim photos-images --size 10Gi
                                     send data to a cluster
  imagenetctl download NAME -n NAMESPACE --to model
                                     bring the model of a job
  imagenetctl report NAME            show where the time of a job went
  imagenetctl dashboard              show jobs live in a browser
  imagenetctl compare A B            compare trainings, and what an accuracy cost
  imagenetctl scale job.yaml --workers 1,2,4
                                     compare numbers of workers, and strategies
  imagenetctl bench job.yaml         measure whether reading or the network limits it
  imagenetctl render job.yaml        print the objects that a cluster would create
  imagenetctl predict photo.jpg      classify an image with the newest result
  imagenetctl ledger digits          check that a job trained every record once an epoch
  imagenetctl verify RESULT          train from a checkpoint again, and compare
  imagenetctl export RESULT --format onnx --check
                                     write a trained model in another format
  imagenetctl tensorboard            show tracked jobs with TensorBoard
  imagenetctl tracking sync NAME     send to MLflow what a job could not
  imagenetctl dataset list volume    list the prepared datasets of a volume
  imagenetctl networks               list the networks, their depths and frameworks
  imagenetctl doctor                 check this machine and the cluster
  imagenetctl completion bash        print the completion for a shell
"""


_VERBS = (
    submit.add_parser,
    jobs.add_list,
    jobs.add_status,
    logs.add_parser,
    jobs.add_wait,
    jobs.add_suspend,
    jobs.add_resume,
    jobs.add_delete,
    jobs.add_events,
    transfers.add_upload,
    transfers.add_download,
    report.add_parser,
    dashboard.add_parser,
)
"""What declares the verbs of jobs, on a cluster and on this machine."""


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
        demo.add_parser,
        init.add_parser,
        check.add_parser,
        validate.add_parser,
        run.add_parser,
        *_VERBS,
        compare.add_parser,
        scale.add_parser,
        bench.add_parser,
        render.add_parser,
        programs.add_predict,
        programs.add_dataset,
        programs.add_ledger,
        programs.add_verify,
        programs.add_export,
        tracking.add_tracking,
        tracking.add_tensorboard,
        networks.add_parser,
        doctor.add_parser,
    ):
        add(subparsers)
    completion.add_parser(subparsers, parser)
    return parser


def build_plugin_parser() -> argparse.ArgumentParser:
    """Return the parser of `kubectl imagenet`: the verbs, on the cluster unless --workdir says."""
    parser = argparse.ArgumentParser(
        prog=PLUGIN,
        description="Submit, follow and end ImageNetJobs of the current context's cluster.",
        epilog=exit_codes.HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    subparsers = parser.add_subparsers(
        title="commands", metavar="COMMAND", required=True, parser_class=CommandParser
    )
    for add in _VERBS:
        add(subparsers)
    for verb in subparsers.choices.values():
        verb.set_defaults(**{places.ON_CLUSTER: True})
        verb.epilog = (verb.epilog or "").replace(f"{PROGRAM} ", f"{PLUGIN} ")
    return parser


def kubectl_main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb of `kubectl imagenet`; return its exit code."""
    return _run(build_plugin_parser(), arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code."""
    return _run(build_parser(), arguments)


def _run(parser: argparse.ArgumentParser, arguments: Sequence[str] | None) -> int:
    parsed = parser.parse_args(arguments)
    try:
        with as_ctrl_c():
            code: int = parsed.run(parsed)
            sys.stdout.flush()
    except BrokenPipeError:  # a reader such as `head` closed the pipe
        _discard_output()
        return exit_codes.UNREAD
    except KeyboardInterrupt:
        return exit_codes.INTERRUPTED
    except NotFound as error:
        return _report(error, exit_codes.NOT_FOUND)
    except JobEnded as error:
        return _report(error, exit_codes.FAILED)
    except Timeout as error:
        return _report(error, exit_codes.TIME_PASSED)
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
