"""`imagenet-predict`: classifies images with a trained model.

The command line of `prediction`. Needs the folder of a finished attempt, and no cluster.
"""

import argparse
import csv
import io
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from imagenet_spec.program import kinds, option
from imagenet_spec.program.programs import PREDICT
from imagenet_workloads.errors import InputError, WorkloadError
from imagenet_workloads.process.program import run_program

if TYPE_CHECKING:
    from imagenet_workloads.prediction import Prediction


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of `imagenet-predict`."""
    parser = option.parser(PREDICT, description="Classify images with a trained model.")
    parser.add_argument(
        "--model",
        type=kinds.path,
        required=True,
        metavar="PATH",
        help="the folder of a finished attempt (…/attempts/rN), its result.json, "
        "or the job's folder",
    )
    parser.add_argument(
        "images",
        nargs="+",
        type=kinds.path,
        metavar="IMAGE",
        help="a JPEG, PNG, …, or a folder with images",
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `imagenet-predict`; return the exit code."""
    parsed = build_parser().parse_args(arguments)
    return run_program(PREDICT.name, lambda: _run(parsed))


def _run(parsed: argparse.Namespace) -> None:
    # Imported here: the parser must be importable without OpenCV.
    from imagenet_workloads.frameworks import FRAMEWORKS
    from imagenet_workloads.prediction import Classifier, images_in

    for framework in FRAMEWORKS.values():
        framework.before_import()
    is_csv = parsed.output == "csv"
    top = parsed.top or (1 if is_csv else 5)
    classifier = Classifier.load(parsed.model, parsed.from_)
    table = None
    if is_csv:
        # The bytes of a file's name are written as they are.
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")
        table = csv.writer(sys.stdout, lineterminator="\n")
        numbers = range(2, min(top, classifier.classes) + 1)
        further = (f"{name}_{n}" for n in numbers for name in ("class", "probability"))
        table.writerow(["image", "class", "probability", *further])
    found: list[tuple[Path, list[Prediction]]] = []
    refused: list[InputError] = []
    # A file that was named is a mistake of the command line if it is no image.
    failure: type[WorkloadError] = WorkloadError
    count = 0
    for given in parsed.images:
        is_folder = given.is_dir()
        for path in images_in(given) if is_folder else [given]:
            count += 1
            try:
                likeliest = classifier.classify(path, top)
            except InputError as error:
                refused.append(error)
                failure = failure if is_folder else InputError
                continue
            if table is None:
                found.append((path, likeliest))
            else:
                cells = (cell for one in likeliest for cell in (one.name, f"{one.probability:.6f}"))
                table.writerow([path, *cells])
    if found and parsed.output == "json":
        predictions = [
            {
                "image": str(path),
                "predictions": [
                    {
                        "class": one.name,
                        **({"words": one.words} if one.words else {}),
                        "label": one.label,
                        "probability": one.probability,
                    }
                    for one in likeliest
                ],
            }
            for path, likeliest in found
        ]
        print(json.dumps(predictions, indent=2))
    elif found:
        for path, likeliest in found:
            print(path)
            for one in likeliest:
                # A class and the first of its synonyms, such as `n01440764 tench`.
                name = f"{one.name} {one.words.partition(',')[0]}".rstrip()
                print(f"  {one.probability:6.1%}  {name}")
    if len(refused) > 1:
        what = f"{len(refused)} of {count} images cannot be classified"
        raise failure("\n  ".join((what, *map(str, refused))))
    if refused:
        raise failure(str(refused[0]))


if __name__ == "__main__":
    sys.exit(main())
