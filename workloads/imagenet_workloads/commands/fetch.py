"""`imagenet-fetch`: stores archives of a server or a bucket in a cache, before index lists them.

The command line of `prepare.fetch`. Its result is one JSON object on stdout and in the termination
message: the bytes of the files.
"""

import argparse
import json
import logging
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType

from imagenet_spec.program import kinds
from imagenet_workloads.prepare.sources import kinds as sources
from imagenet_workloads.process.program import TERMINATED, run_program, write_termination_message

PROGRAM = "imagenet-fetch"


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of `imagenet-fetch`."""
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Store the files of a server or a bucket on a volume. imagenet-index and "
        "imagenet-pack read them there, with the same options and --cache.",
    )
    sources.add_fetch_options(parser)
    parser.add_argument(
        "--connections",
        type=kinds.positive,
        default=8,
        metavar="N",
        help="the most requests at the same time (default: %(default)s)",
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `imagenet-fetch`; return the exit code."""
    parser = build_parser()
    parsed = parser.parse_args(arguments)
    if mistake := sources.mistake_of_fetch(parsed):
        parser.error(mistake)
    return run_program(PROGRAM, lambda: _run(parsed))


def _run(parsed: argparse.Namespace) -> None:
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    from imagenet_workloads.environment import Environment
    from imagenet_workloads.prepare import fetch
    from imagenet_workloads.telemetry import preparation

    environment = Environment.from_mapping(os.environ)
    recorder = preparation.start(environment)
    sources.report_traffic(recorder.requested)
    # The default handler would wait for requests that are tried again for minutes.
    signal.signal(signal.SIGTERM, _end)
    with sources.naming_remote(parsed):
        request = fetch.FetchRequest(
            files=sources.files_to_fetch(parsed),
            cache=parsed.cache,
            connections=parsed.connections,
            owner=environment.job_uid,
        )
        text = json.dumps(fetch.run(request, recorder).to_document())
    print(text, flush=True)
    write_termination_message(text)


def _end(number: int, frame: FrameType | None) -> None:
    """End at once: the next process continues at any byte."""
    os._exit(TERMINATED)


if __name__ == "__main__":
    sys.exit(main())
