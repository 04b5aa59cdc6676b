"""`imagenet-index`: lists the source and plans the dataset; the first step of the preparation.

The command line of `prepare.index`. Its result is one JSON object on stdout and in the termination
message: the dataset's key, its counts, and whether it is sealed.
"""

import argparse
import logging
import os
import sys
from collections.abc import Sequence

from imagenet_spec.program.option import parser
from imagenet_spec.program.programs import INDEX
from imagenet_workloads.prepare.sources import kinds as sources
from imagenet_workloads.process.program import leave_result, run_program


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of `imagenet-index`."""
    return parser(
        INDEX,
        description="List every image of a source in place, and plan the shards of a dataset.",
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `imagenet-index`; return the exit code."""
    built = build_parser()
    parsed = built.parse_args(arguments)
    if mistake := sources.mistake(parsed):
        built.error(mistake)
    return run_program(INDEX.name, lambda: _run(parsed))


def _run(parsed: argparse.Namespace) -> None:
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    # Imported here: the parser must be importable without OpenCV.
    from imagenet_workloads.environment import Environment
    from imagenet_workloads.prepare import index
    from imagenet_workloads.prepare.classes import ExpectedClasses
    from imagenet_workloads.prepare.plan import DatasetOptions
    from imagenet_workloads.telemetry import preparation

    recorder = preparation.start(Environment.from_mapping(os.environ))
    sources.report_traffic(recorder.requested)
    source = sources.open_source(parsed)
    drawn = parsed.validation_per_class
    validation = sources.open_validation(parsed)
    sealed = source.sealed
    request = index.IndexRequest(
        source=source,
        validation=validation,
        data=parsed.data,
        options=DatasetOptions(
            format=parsed.format,
            resize=parsed.resize,
            quality=parsed.quality,
            shards=parsed.shards,
            # A sealed dataset keeps its classes and its order.
            min_images_per_class=parsed.min_images_per_class if sealed is None else 1,
            seed=parsed.seed if sealed is None else 0,
            validation_per_class=drawn or 0,
        ),
        codec=parsed.codec,
        max_skipped_fraction=parsed.max_skipped_fraction,
        takes_own_validation=validation is None and drawn is None,
        drawn_by_default=parsed.default_validation_per_class or 0,
        class_words=parsed.class_words or sources.class_words(parsed),
        words_of_classes={
            **({} if sealed is None else sealed.class_words),
            **dict(parsed.class_word),
        },
        bounding_boxes=sources.bounding_boxes(parsed),
        reads_annotations=parsed.read_annotations,
        expected=ExpectedClasses(parsed.expected_classes, parsed.expected_class_names),
    )
    listing, packing = source.listing, source.packing
    document = {}
    if listing is not None and packing is not None:
        recorder.listing_estimated(*listing)
        recorder.packing_estimated(*packing)
        document["listing"] = listing.to_document()
    result = index.run(request, recorder).to_document() | document
    # dataset.json has the findings.
    leave_result(result, optional="findings")


if __name__ == "__main__":
    sys.exit(main())
