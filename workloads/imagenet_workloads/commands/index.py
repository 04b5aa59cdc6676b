"""`imagenet-index`: lists the source and plans the dataset; the first step of the preparation.

The command line of `prepare.index`. Its result is one JSON object on stdout and in the termination
message: the dataset's key, its counts, and whether it is sealed.
"""

import argparse
import json
import logging
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from imagenet_spec.program import kinds
from imagenet_workloads.dataset import FORMATS, RECORD_IO
from imagenet_workloads.prepare.sources import kinds as sources
from imagenet_workloads.process.program import run_program, write_termination_message

if TYPE_CHECKING:
    from imagenet_workloads.prepare.dataset_key import DatasetOptions
    from imagenet_workloads.prepare.index import IndexRequest

PROGRAM = "imagenet-index"


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of `imagenet-index`."""
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="List every image of a source in place, and plan the shards of a dataset.",
    )
    parser.add_argument(
        "--data", type=kinds.path, required=True, metavar="FOLDER", help="the dataset volume"
    )
    sources.add_index_options(parser)
    group = parser.add_argument_group("options of the dataset")
    _add_dataset_options(group)
    _add_run_options(group)
    return parser


def _add_dataset_options(group: argparse._ArgumentGroup) -> None:
    """Declare the options that decide the dataset's key."""
    group.add_argument(
        "--validation-per-class",
        type=kinds.count,
        metavar="N",
        help="draw N validation images of each class by the seed (default: those of the source, if "
        "it has any)",
    )
    group.add_argument(
        "--default-validation-per-class",
        type=kinds.count,
        metavar="N",
        help="the same, if the source has no validation images (default: none)",
    )
    group.add_argument("--format", choices=FORMATS, default=RECORD_IO)
    group.add_argument(
        "--resize",
        type=kinds.edge,
        metavar="PIXELS",
        help="length of the shorter edge (default: no resize, and RGB JPEGs are copied unchanged)",
    )
    group.add_argument(
        "--quality",
        type=kinds.quality,
        default=90,
        help="quality of re-encoded JPEGs, 1 to 100 (default: %(default)s)",
    )
    group.add_argument("--shards", type=kinds.positive, default=8, help="default: %(default)s")
    group.add_argument(
        "--min-images-per-class",
        type=kinds.count,
        default=1,
        metavar="N",
        help="leave out classes with fewer images (default: %(default)s)",
    )
    _add_class_words(group)
    _add_bounding_boxes(group)
    group.add_argument("--seed", type=kinds.count, default=0, help="default: %(default)s")


def _add_bounding_boxes(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--bounding-boxes",
        type=kinds.path,
        action="append",
        default=[],
        metavar="FILE",
        help="a tar of annotations in the XML of Pascal VOC, as ILSVRC2012_bbox_train_v2.tar.gz: "
        "CLASS/NAME.xml, and val/NAME.xml for validation images; may be repeated",
    )


def _add_class_words(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--class-words",
        type=kinds.path,
        metavar="FILE",
        help="words for the classes: lines of CLASS WORDS, meta.mat, or JSON (default: those of "
        "the source, if it has any)",
    )
    group.add_argument(
        "--class-word",
        type=_class_word,
        action="append",
        default=[],
        metavar="CLASS=WORDS",
        help="words for one class, in place of those of the file; may be repeated",
    )


def _add_run_options(group: argparse._ArgumentGroup) -> None:
    """Declare the options that another run may change."""
    group.add_argument(
        "--max-skipped-fraction",
        type=kinds.fraction,
        default=0.001,
        metavar="F",
        help="fail when more than this share of the images is damaged, or of the validation images "
        "is of unknown classes (default: %(default)s)",
    )
    group.add_argument(
        "--expected-classes",
        type=kinds.positive,
        metavar="N",
        help="fail unless the dataset has N classes",
    )
    group.add_argument(
        "--expected-class-names",
        type=kinds.path,
        metavar="FILE",
        help="fail unless the dataset's classes are those of the file, one a line",
    )
    group.add_argument(
        "--codec",
        choices=("auto", "opencv", "planes"),
        default="auto",
        help="what converts the images; planes needs libturbojpeg, and auto is the faster one for "
        "a sample of the images (default: %(default)s)",
    )


def _class_word(text: str) -> tuple[str, str]:
    name, equals, words = text.partition("=")
    if not name or not equals or not words.strip():
        raise argparse.ArgumentTypeError(f"{text!r} is not CLASS=WORDS, such as n01440764=tench")
    return name, words.strip()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `imagenet-index`; return the exit code."""
    parser = build_parser()
    parsed = parser.parse_args(arguments)
    if mistake := sources.mistake(parsed):
        parser.error(mistake)
    return run_program(PROGRAM, lambda: _run(parsed))


def _run(parsed: argparse.Namespace) -> None:
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    # Imported here: the parser must be importable without OpenCV.
    from imagenet_workloads.environment import Environment
    from imagenet_workloads.prepare import index
    from imagenet_workloads.telemetry import preparation

    recorder = preparation.start(Environment.from_mapping(os.environ))
    sources.report_traffic(recorder.requested)
    request = _request(parsed)
    listing, packing = request.source.listing, request.source.packing
    document = {}
    if listing is not None and packing is not None:
        recorder.listing_estimated(*listing)
        recorder.packing_estimated(*packing)
        document["listing"] = listing.to_document()
    text = json.dumps(index.run(request, recorder).to_document() | document)
    print(text, flush=True)
    write_termination_message(text)


def _request(parsed: argparse.Namespace) -> "IndexRequest":
    from imagenet_workloads.prepare import index
    from imagenet_workloads.prepare.expected_classes import ExpectedClasses

    source = sources.open_source(parsed)
    drawn = parsed.validation_per_class
    validation = sources.open_validation(parsed)
    kept = {} if source.sealed is None else source.sealed.class_words
    return index.IndexRequest(
        source=source,
        validation=validation,
        data=parsed.data,
        options=_options(parsed, drawn or 0, is_sealed=source.sealed is not None),
        codec=parsed.codec,
        max_skipped_fraction=parsed.max_skipped_fraction,
        takes_own_validation=validation is None and drawn is None,
        drawn_by_default=parsed.default_validation_per_class or 0,
        class_words=parsed.class_words or sources.class_words(parsed),
        words_of_classes={**kept, **dict(parsed.class_word)},
        bounding_boxes=sources.bounding_boxes(parsed),
        reads_annotations=parsed.read_annotations,
        expected=ExpectedClasses(parsed.expected_classes, parsed.expected_class_names),
    )


def _options(parsed: argparse.Namespace, drawn: int, *, is_sealed: bool) -> "DatasetOptions":
    """Return the options of the key; a sealed dataset keeps its classes and its order."""
    from imagenet_workloads.prepare.dataset_key import DatasetOptions

    return DatasetOptions(
        format=parsed.format,
        resize=parsed.resize,
        quality=parsed.quality,
        shards=parsed.shards,
        min_images_per_class=1 if is_sealed else parsed.min_images_per_class,
        seed=0 if is_sealed else parsed.seed,
        validation_per_class=drawn,
    )


if __name__ == "__main__":
    sys.exit(main())
