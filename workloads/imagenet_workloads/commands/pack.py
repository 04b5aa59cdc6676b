"""`imagenet-pack`: writes the planned shards, one in each pod.

The command line of `prepare.pack`. In an Indexed Job it writes the shard of its
JOB_COMPLETION_INDEX. With neither that nor --shard, it writes all shards. Its termination message
is one JSON object with the images that one core decodes in a second.
"""

import argparse
import ctypes
import json
import logging
import os
import sys
from collections.abc import Sequence

from imagenet_spec.program.option import parser
from imagenet_spec.program.programs import PACK
from imagenet_workloads import cores
from imagenet_workloads.prepare.sources import kinds as sources
from imagenet_workloads.process.program import run_program, write_termination_message

# mallopt(3). Larger blocks than the first have a mapping of their own: glibc's limit is 32 MiB.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_KEPT_BYTES, _LARGEST_BLOCK = 128 << 20, 32 << 20


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of `imagenet-pack`."""
    return parser(PACK, description="Decode, resize and pack the images of a planned shard.")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `imagenet-pack`; return the exit code."""
    parsed = build_parser().parse_args(arguments)
    return run_program(PACK.name, lambda: _run(parsed))


def _run(parsed: argparse.Namespace) -> None:
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    keep_freed_memory()
    # Imported here: the parser must be importable without OpenCV.
    from imagenet_workloads.environment import Environment
    from imagenet_workloads.prepare import pack
    from imagenet_workloads.telemetry import preparation

    environment = Environment.from_mapping(os.environ)
    recorder = preparation.start(environment)
    sources.report_traffic(recorder.requested)
    shard = parsed.shard if parsed.shard is not None else environment.completion_index
    speed = pack.run(
        pack.PackRequest(
            data=parsed.data,
            key=parsed.key,
            open_source=lambda planned: sources.open_planned(planned, parsed),
            shard=shard,
            threads=parsed.threads or cores.available_cores(),
        ),
        recorder,
    )
    if speed is not None:
        write_termination_message(json.dumps({"decodedImagesPerSecond": round(speed, 1)}))


def keep_freed_memory() -> None:
    """Keep freed memory in this process, for each of its threads; glibc alone can.

    The pixels of an image take a megabyte. By default, glibc returns such memory to the kernel when
    it is freed, and the kernel clears it page by page for the next image: a twentieth of the time.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)
        mallopt(_MMAP_THRESHOLD, _LARGEST_BLOCK)


if __name__ == "__main__":
    sys.exit(main())
