"""`imagenet-fetch`: stores archives of a server or a bucket in a cache, before index lists them.

The command line of `prepare.fetch`. Its result is one JSON object on stdout and in the termination
message: the bytes of the files.
"""

import argparse
import logging
import os
import signal
import sys
from collections.abc import Sequence

from imagenet_spec.program.option import parser
from imagenet_spec.program.programs import FETCH
from imagenet_workloads.prepare.sources import kinds as sources
from imagenet_workloads.process.program import TERMINATED, leave_result, run_program


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of `imagenet-fetch`."""
    return parser(
        FETCH,
        description="Store the files of a server or a bucket on a volume. imagenet-index and\n"
        "imagenet-pack read them there, with the same options and --cache.",
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `imagenet-fetch`; return the exit code."""
    built = build_parser()
    parsed = built.parse_args(arguments)
    if mistake := sources.mistake_of_fetch(parsed):
        built.error(mistake)
    return run_program(FETCH.name, lambda: _run(parsed))


def _run(parsed: argparse.Namespace) -> None:
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    from imagenet_workloads.environment import Environment
    from imagenet_workloads.prepare import fetch
    from imagenet_workloads.telemetry import preparation

    environment = Environment.from_mapping(os.environ)
    recorder = preparation.start(environment)
    sources.report_traffic(recorder.requested)
    # At once: the default handler would wait for requests that are tried again for minutes, and the
    # next process continues at any byte.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(TERMINATED))
    with sources.naming_remote(parsed):
        request = fetch.FetchRequest(
            files=sources.files_to_fetch(parsed),
            cache=parsed.cache,
            connections=parsed.connections,
            owner=environment.job_uid,
        )
        size = fetch.run(request, recorder)
    # What the operator reads.
    leave_result({"bytes": size, "totalBytes": size})


if __name__ == "__main__":
    sys.exit(main())
