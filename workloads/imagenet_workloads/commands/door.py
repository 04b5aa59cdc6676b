"""`imagenet-door`: serves the files of a folder to `imagenetctl upload` and `download`.

The command line of `door`. It listens on 127.0.0.1, which a port-forward reaches, and ends after a
time without requests. Its first line on stdout is one JSON object with the port. If the claim of a
job is gone, it first fetches the job's uploaded results from their bucket into its folder.
"""

import argparse
import json
import sys
from collections.abc import Sequence

from imagenet_spec.program.option import parser
from imagenet_spec.program.programs import DOOR
from imagenet_workloads.process.program import run_program


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of `imagenet-door`."""
    return parser(
        DOOR,
        description="Serve the files of a folder on 127.0.0.1, for imagenetctl upload and\n"
        "download.",
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `imagenet-door`; return the exit code."""
    parsed = build_parser().parse_args(arguments)
    return run_program(DOOR.name, lambda: _run(parsed))


def _run(parsed: argparse.Namespace) -> None:
    from imagenet_workloads.door import Door

    if parsed.results is not None:
        from imagenet_workloads import remote_results
        from imagenet_workloads.clients.folders import open_bucket_folder

        source = open_bucket_folder(parsed.results, parsed.endpoint, parsed.region)
        into = parsed.into or parsed.folder
        remote_results.fetch(source, into, with_checkpoints=parsed.checkpoints)
    with Door(parsed.folder, parsed.port, is_writable=parsed.writable) as door:
        print(json.dumps({"port": door.server_port}), flush=True)
        door.serve_until_idle(parsed.idle_seconds)


if __name__ == "__main__":
    sys.exit(main())
