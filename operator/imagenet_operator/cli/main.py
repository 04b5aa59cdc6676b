"""`imagenetctl`: the command line for ImageNetJobs, with or without a cluster.

Each command is a module of this package, and those that only start a program of the workloads are
one, `programs`. Only the module of the command that is typed is imported. An `ImageNetJobError`
becomes one message and an exit code. Any other exception is a bug and keeps its traceback.
"""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from importlib import import_module
from importlib.metadata import version

from imagenet_operator.cli import exit_codes
from imagenet_operator.cli.arguments import Command, CommandParser
from imagenet_operator.cli.interrupts import as_ctrl_c
from imagenet_operator.clusters.interface import ClusterError
from imagenet_operator.sdk.errors import JobEnded, NotFound, Timeout
from imagenet_spec.errors import ImageNetJobError
from imagenet_spec.names import nearest

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


_VERBS = {
    "submit": "submit.add_parser",
    "list": "jobs.add_list",
    "status": "jobs.add_status",
    "logs": "logs.add_parser",
    "wait": "jobs.add_wait",
    "suspend": "jobs.add_suspend",
    "resume": "jobs.add_resume",
    "delete": "jobs.add_delete",
    "events": "jobs.add_events",
    "upload": "transfers.add_upload",
    "download": "transfers.add_download",
    "report": "report.add_parser",
    "dashboard": "dashboard.command.add_parser",
}
"""The verbs of jobs, on a cluster and on this machine: the function that declares each."""

_COMMANDS = {
    "demo": "demo.add_parser",
    "init": "init.add_parser",
    "check": "check.add_parser",
    "validate": "validate.add_parser",
    "run": "run.add_parser",
    **_VERBS,
    "compare": "compare.add_parser",
    "scale": "scale.add_parser",
    "bench": "bench.add_parser",
    "render": "render.add_parser",
    "predict": "programs.add_predict",
    "dataset": "programs.add_dataset",
    "ledger": "programs.add_ledger",
    "verify": "programs.add_verify",
    "export": "programs.add_export",
    "tracking": "tracking.add_tracking",
    "tensorboard": "tracking.add_tensorboard",
    "networks": "networks.add_parser",
    "doctor": "doctor.add_parser",
    "completion": "completion.add_parser",
}


def build_parser(command: str | None = None) -> argparse.ArgumentParser:
    """Return the parser with a command, or with all if there is none of this name."""
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Prepare image archives and train networks, one manifest a job.",
        epilog=f"{_EXAMPLES}\n{exit_codes.HELP}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--version", action="version", version=f"{PROGRAM} {version('imagenet-operator')}"
    )
    _declare(parser, _COMMANDS, command)
    return parser


def build_plugin_parser(command: str | None = None) -> argparse.ArgumentParser:
    """Return the parser of `kubectl imagenet`: the verbs, on the cluster unless --workdir says."""
    parser = argparse.ArgumentParser(
        prog=PLUGIN,
        description="Submit, follow and end ImageNetJobs of the current context's cluster.",
        epilog=exit_codes.HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verbs = _declare(parser, _VERBS, command)
    # The verbs import it, too.
    from imagenet_operator.cli.places import ON_CLUSTER

    for verb in verbs:
        verb.set_defaults(**{ON_CLUSTER: True})
        verb.epilog = (verb.epilog or "").replace(f"{PROGRAM} ", f"{PLUGIN} ")
    return parser


def _declare(
    parser: argparse.ArgumentParser, declared: Mapping[str, str], command: str | None
) -> Iterable[argparse.ArgumentParser]:
    """Add a command to a parser, or all of them if there is none of this name; return theirs."""
    subparsers = parser.add_subparsers(
        title="commands", metavar="COMMAND", required=True, parser_class=CommandParser
    )
    for name in [command] if command is not None and command in declared else declared:
        module, _, function = declared[name].rpartition(".")
        add = getattr(import_module(f"{__package__}.{module}"), function)
        add(Command(subparsers, name))
    return subparsers.choices.values()


def kubectl_main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb of `kubectl imagenet`; return its exit code."""
    return _run(build_plugin_parser, _VERBS, arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code."""
    return _run(build_parser, _COMMANDS, arguments)


def _run(
    build: Callable[[str], argparse.ArgumentParser],
    commands: Collection[str],
    arguments: Sequence[str] | None,
) -> int:
    given = sys.argv[1:] if arguments is None else arguments
    typed = given[0] if given else ""
    parser = build(typed)
    is_unknown = typed not in commands and not typed.startswith("-")
    # Two letters of three are alike, as in rnu, and tracking is not meant by trian.
    if is_unknown and (meant := nearest(typed, commands, likeness=0.65)):
        parser.error(f"unknown command {typed!r}; did you mean {meant}?")
    parsed = parser.parse_args(given)
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
