"""`imagenetctl validate FILE…`: the verdict on manifests, without a cluster.

One line a problem, ``FILE: FIELD: what is wrong; what to write instead``, or one JSON document with
``--output json``.

Exit codes: 0 all manifests are good, 2 one is not or cannot be read.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from imagenet_operator.api import load, validate
from imagenet_operator.api.load import parse
from imagenet_operator.api.problems import Problem
from imagenet_operator.errors import UnreadableManifest

INVALID = 2


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "validate",
        help="check manifests as the API server and the operator would",
        description="Check manifests as the API server and the operator would, without a cluster.",
        epilog="Exit codes: 0 every manifest is good, 2 one is not or cannot be read.",
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="a manifest, or - for the input")
    parser.add_argument(
        "--output", choices=("text", "json"), default="text", help="how to report (default: text)"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Check every file and report; return the exit code."""
    reports = {name: _check(name) for name in arguments.files}
    if arguments.output == "json":
        _print_json(reports)
    else:
        _print_lines(reports)
    return INVALID if any(any(report) for report in reports.values()) else 0


_Report = list[list[Problem]]
"""The problems of each document of a file."""


def _check(name: str) -> _Report:
    try:
        documents = parse(sys.stdin.read(), name) if name == "-" else load(Path(name))
    except UnreadableManifest as error:
        return [[Problem("", error.message, None, "document")]]
    return [validate(document) for document in documents]


def _print_lines(reports: dict[str, _Report]) -> None:
    for name, report in reports.items():
        for number, problems in enumerate(report, start=1):
            place = f"{name}: document {number}" if len(report) > 1 else name
            for problem in problems:
                print(f"{place}: {problem}")
        if not any(report):
            print(f"{name}: valid")


def _print_json(reports: dict[str, _Report]) -> None:
    found = [
        {"file": name, "document": number, **asdict(problem)}
        for name, report in reports.items()
        for number, problems in enumerate(report, start=1)
        for problem in problems
    ]
    print(json.dumps({"valid": not found, "problems": found}, indent=2))
