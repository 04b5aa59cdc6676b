"""`imagenetctl validate FILE…`: validates manifests without a cluster.

One line a problem, ``FILE: FIELD: what is wrong; what to write instead``, or one JSON document with
``--output json``. For each job it also prints the memory that reading takes in a worker, and for
one with `minReplicas` the numbers of workers that divide.

Exit codes: 0 all manifests are valid, 2 one is invalid or cannot be read, 3 the output cannot be
written.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from typing import get_args

from imagenet_operator.cli import exit_codes, files
from imagenet_operator.cli.arguments import Command, add_output, not_empty
from imagenet_operator.sdk import submission
from imagenet_spec.errors import Problem, UnreadableManifest
from imagenet_spec.resource import (
    ImageNetJob,
    elastic_workers,
    extra_arguments,
    networks,
    worker_memory,
)
from imagenet_spec.resource.templates import STANDARD, TemplateProfile
from imagenet_spec.validate import parse


def add_parser(command: Command) -> None:
    """Declare the command."""
    parser = command.declare(
        run,
        summary="check manifests by the rules of the API server and the operator",
        description="Check manifests by the rules of the API server and the operator, without a "
        "cluster.",
        epilog=(
            f"exit codes: {exit_codes.SUCCESS} all manifests are valid, "
            f"{exit_codes.USAGE} one is invalid or cannot be read, "
            f"{exit_codes.ENVIRONMENT} the output cannot be written"
        ),
    )
    parser.add_argument(
        "files",
        type=not_empty,
        nargs="+",
        metavar="FILE",
        help="a manifest, or - for the standard input",
    )
    add_output(parser, "one JSON document")
    parser.add_argument(
        "--template-profile",
        choices=get_args(TemplateProfile),
        default=STANDARD,
        help=f"the template profile of the operator (default: {STANDARD})",
    )


def run(arguments: argparse.Namespace) -> int:
    """Check every file and report; return the exit code."""
    reports: dict[str, _Report] = {}
    jobs: dict[str, _Jobs] = {}
    for name in arguments.files:
        try:
            documents = files.documents(name)
        except UnreadableManifest as error:
            reports[name], jobs[name] = [[Problem("", error.message, None, "document")]], {}
            continue
        report = reports[name] = [
            submission.problems(document, arguments.template_profile) for document in documents
        ]
        checked = enumerate(zip(documents, report, strict=True), start=1)
        jobs[name] = {number: parse(document) for number, (document, found) in checked if not found}
    if arguments.output == "json":
        _print_json(reports, jobs)
    else:
        for file, report in reports.items():
            for line in files.lines(file, report) or [f"{file}: valid"]:
                print(line)
            several = len(report) > 1
            for number, memory in _memory(jobs[file]).items():
                document = f" document {number}:" if several else ""
                print(f"{file}:{document} a worker reads and saves with {memory}")
            for number, counts in _counts(jobs[file]).items():
                document = f" document {number}:" if several else ""
                numbers = ", ".join(map(str, counts))
                print(f"{file}:{document} an attempt may have {numbers} workers")
    for name, found in jobs.items():
        for job in found.values():
            training = job.spec.training
            warnings = extra_arguments.warnings(training)
            unreached = networks.unreached_sizes(training.model, training.epochs)
            for problem in (*warnings, *unreached, *worker_memory.warnings(job)):
                print(f"{name}: warning: {problem}", file=sys.stderr)
    good = not any(any(report) for report in reports.values())
    return exit_codes.SUCCESS if good else exit_codes.USAGE


_Report = list[list[Problem]]
"""The problems of each document of a file."""

_Jobs = dict[int, ImageNetJob]
"""The jobs of the good documents of a file, by the documents' numbers."""


def _counts(jobs: _Jobs) -> dict[int, tuple[int, ...]]:
    trainings = {number: job.spec.training for number, job in jobs.items()}
    return {
        number: elastic_workers.worker_counts(training)
        for number, training in trainings.items()
        if elastic_workers.is_elastic(training)
    }


def _memory(jobs: _Jobs) -> dict[int, worker_memory.WorkerMemory]:
    figures = {number: worker_memory.of_fewest_workers(job) for number, job in jobs.items()}
    return {number: figure for number, figure in figures.items() if figure is not None}


def _print_json(reports: dict[str, _Report], jobs: dict[str, _Jobs]) -> None:
    found = [
        {"file": name, "document": number, **asdict(problem)}
        for name, report in reports.items()
        for number, problems in enumerate(report, start=1)
        for problem in problems
    ]
    workers = [
        {"file": name, "document": number, "workers": counts}
        for name, valid in jobs.items()
        for number, counts in _counts(valid).items()
    ]
    elastic = {"elastic": workers} if workers else {}
    memory = [
        {"file": name, "document": number, "bytes": figure.bytes, **asdict(figure)}
        for name, valid in jobs.items()
        for number, figure in _memory(valid).items()
    ]
    reading = {"reading": memory} if memory else {}
    document = {"valid": not found, "problems": found, **elastic, **reading}
    print(json.dumps(document, indent=2))
