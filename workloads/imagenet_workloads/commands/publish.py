"""`imagenet-publish`: uploads a sealed dataset to a bucket, from where workers can read it.

The command line of `prepare.publish`. Its result is one JSON object on stdout and in the
termination message: the dataset's address, and the bytes that were uploaded by this run.
"""

import argparse
import json
import logging
import os
import sys
from collections.abc import Sequence

from imagenet_spec.program import kinds
from imagenet_workloads.process.program import run_program, write_termination_message

PROGRAM = "imagenet-publish"
SHARDS_AT_ONCE = 4


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of `imagenet-publish`."""
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Upload a sealed dataset to a bucket. A run that was cut off continues. The "
        "keys are in $IMAGENET_CREDENTIALS/AWS_ACCESS_KEY_ID, …",
    )
    parser.add_argument(
        "--dataset", type=kinds.path, required=True, metavar="FOLDER", help="a sealed dataset"
    )
    parser.add_argument(
        "--to", type=kinds.text, required=True, metavar="URL", help="s3://BUCKET/PREFIX"
    )
    parser.add_argument(
        "--endpoint", type=kinds.text, metavar="URL", help="the S3 API (default: that of AWS)"
    )
    parser.add_argument(
        "--region", type=kinds.text, metavar="NAME", help="of the bucket (default: us-east-1)"
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `imagenet-publish`; return the exit code."""
    parsed = build_parser().parse_args(arguments)
    return run_program(PROGRAM, lambda: _run(parsed))


def _run(parsed: argparse.Namespace) -> None:
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    from imagenet_workloads.clients.folders import BucketFolder, open_folder
    from imagenet_workloads.environment import Environment
    from imagenet_workloads.errors import InputError
    from imagenet_workloads.prepare import publish
    from imagenet_workloads.telemetry import server

    server.start(Environment.from_mapping(os.environ))
    target = open_folder(parsed.to, parsed.endpoint, parsed.region)
    if not isinstance(target, BucketFolder):
        raise InputError(f"{parsed.to}: is no folder in a bucket; write s3://BUCKET/PREFIX")
    uploaded = publish.run(parsed.dataset, target, SHARDS_AT_ONCE)
    text = json.dumps({"url": parsed.to, "uploadedBytes": uploaded})
    print(text, flush=True)
    write_termination_message(text)


if __name__ == "__main__":
    sys.exit(main())
