"""`imagenet-publish`: uploads a sealed dataset, or the results of a training, to a bucket.

The command line of `prepare.publish` and of `remote_results`. Its result is one JSON object on
stdout and in the termination message: the address, the S3 API, and the bytes that were uploaded by
this run.
"""

import argparse
import logging
import os
import sys
from collections.abc import Sequence

from imagenet_spec.program.option import parser
from imagenet_spec.program.programs import PUBLISH
from imagenet_workloads.process.program import leave_result, run_program

SHARDS_AT_ONCE = 4


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of `imagenet-publish`."""
    return parser(
        PUBLISH,
        description="Upload a sealed dataset or a trained model to a bucket. A run that was cut\n"
        "off continues. The keys are in $IMAGENET_CREDENTIALS/AWS_ACCESS_KEY_ID, …",
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `imagenet-publish`; return the exit code."""
    built = build_parser()
    parsed = built.parse_args(arguments)
    if (parsed.dataset is None) == (parsed.model is None):
        built.error("give --dataset or --model")
    return run_program(PUBLISH.name, lambda: _run(parsed))


def _run(parsed: argparse.Namespace) -> None:
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    from imagenet_workloads import remote_results
    from imagenet_workloads.clients.folders import open_bucket_folder
    from imagenet_workloads.environment import Environment
    from imagenet_workloads.prepare import publish
    from imagenet_workloads.telemetry import server

    server.start(Environment.from_mapping(os.environ))
    target = open_bucket_folder(parsed.to, parsed.endpoint, parsed.region)
    if parsed.dataset is None:
        uploaded = remote_results.upload(parsed.model, target)
    else:
        uploaded = publish.run(parsed.dataset, target, SHARDS_AT_ONCE)
    leave_result({"url": parsed.to, "endpoint": parsed.endpoint, "uploadedBytes": uploaded})


if __name__ == "__main__":
    sys.exit(main())
