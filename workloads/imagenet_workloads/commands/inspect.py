"""`imagenet-inspect`: what a source holds, before there is a manifest; `imagenetctl init` reads it.

The command line of `prepare.inspection`, with the options of a source that imagenet-index has. Its
result is one JSON object on stdout.
"""

import argparse
import json
import logging
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from imagenet_spec.program.option import parser
from imagenet_spec.program.programs import INSPECT
from imagenet_workloads.prepare.sources import kinds as sources
from imagenet_workloads.process.program import run_program


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of `imagenet-inspect`."""
    built = parser(
        INSPECT,
        description="List a source and decode images of it: classes, damaged and equal files.",
    )
    # Options of imagenet-index that a source is opened with.
    built.set_defaults(validation_per_class=None, bounding_boxes=())
    return built


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `imagenet-inspect`; return the exit code."""
    built = build_parser()
    parsed = built.parse_args(arguments)
    if mistake := sources.mistake(parsed):
        built.error(mistake)
    return run_program(INSPECT.name, lambda: _run(parsed))


def _run(parsed: argparse.Namespace) -> None:
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    # Imported here: the parser must be importable without OpenCV.
    from imagenet_workloads.prepare import inspection

    with tempfile.TemporaryDirectory(prefix="imagenet-inspect-") as folder:
        parsed.data = Path(folder)
        source = sources.open_source(parsed)
        document = inspection.inspect(source, parsed.data, parsed.images, parsed.seconds)
        source.close()
    inspection.require_several_classes(document)
    print(json.dumps(document), flush=True)


if __name__ == "__main__":
    sys.exit(main())
