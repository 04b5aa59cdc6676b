"""`imagenetctl validate FILE…`: validates manifests without a cluster.

One line a problem, ``FILE: FIELD: what is wrong; what to write instead``, or one JSON document with
``--output json``.

Exit codes: 0 all manifests are valid, 2 one is invalid or cannot be read, 3 the output cannot be
written.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from typing import get_args

from imagenet_operator.api import Problem, extra_arguments, parse
from imagenet_operator.api.templates.profiles import STANDARD, TemplateProfile
from imagenet_operator.cli import exit_codes, files
from imagenet_operator.cli.argument_types import not_empty
from imagenet_operator.errors import UnreadableManifest


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "validate",
        help="check manifests by the rules of the API server and the operator",
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
    parser.add_argument(
        "--output",
        choices=("text", "json"),
        default="text",
        help="text, or one JSON document for scripts (default: text)",
    )
    parser.add_argument(
        "--template-profile",
        choices=get_args(TemplateProfile),
        default=STANDARD,
        help=f"the template profile of the operator (default: {STANDARD})",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Check every file and report; return the exit code."""
    reports: dict[str, _Report] = {}
    warnings: list[str] = []
    for name in arguments.files:
        reports[name], found = _check(name, arguments.template_profile)
        warnings += [f"{name}: warning: {problem}" for problem in found]
    if arguments.output == "json":
        _print_json(reports)
    else:
        _print_lines(reports)
    for warning in warnings:
        print(warning, file=sys.stderr)
    good = not any(any(report) for report in reports.values())
    return exit_codes.SUCCESS if good else exit_codes.USAGE


_Report = list[list[Problem]]
"""The problems of each document of a file."""


def _check(file: str, profile: TemplateProfile) -> tuple[_Report, list[Problem]]:
    """Return the problems of a file, and the warnings for its good documents."""
    try:
        documents = files.documents(file)
    except UnreadableManifest as error:
        return [[Problem("", error.message, None, "document")]], []
    report = [files.problems(document, profile) for document in documents]
    jobs = [parse(document) for document, found in zip(documents, report, strict=True) if not found]
    return report, [
        problem for job in jobs for problem in extra_arguments.warnings(job.spec.training)
    ]


def _print_lines(reports: dict[str, _Report]) -> None:
    for file, report in reports.items():
        for line in files.lines(file, report) or [f"{file}: valid"]:
            print(line)


def _print_json(reports: dict[str, _Report]) -> None:
    found = [
        {"file": name, "document": number, **asdict(problem)}
        for name, report in reports.items()
        for number, problems in enumerate(report, start=1)
        for problem in problems
    ]
    print(json.dumps({"valid": not found, "problems": found}, indent=2))
