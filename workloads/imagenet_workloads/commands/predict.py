"""`imagenet-predict`: classifies images with a trained model.

The command line of `prediction`. Needs the folder of a finished attempt, and no cluster.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from imagenet_spec.program import kinds
from imagenet_workloads.errors import InputError, WorkloadError
from imagenet_workloads.process.program import run_program

if TYPE_CHECKING:
    from imagenet_workloads.prediction import Prediction

PROGRAM = "imagenet-predict"


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of `imagenet-predict`."""
    parser = argparse.ArgumentParser(
        prog=PROGRAM, description="Classify images with a trained model."
    )
    parser.add_argument(
        "--model",
        type=kinds.path,
        required=True,
        metavar="PATH",
        help="the folder of a finished attempt (…/attempts/rN), its result.json, "
        "or the job's folder",
    )
    parser.add_argument(
        "--from",
        type=kinds.path,
        metavar="FILE",
        dest="exported",
        help="a file that imagenet-export wrote of this model: FILE.safetensors, .pt "
        "(torchscript) or .onnx",
    )
    parser.add_argument(
        "images",
        nargs="+",
        type=kinds.path,
        metavar="IMAGE",
        help="a JPEG, PNG, …, or a folder with images",
    )
    parser.add_argument(
        "--top", type=_count, default=5, metavar="N", help="number of classes to print (default: 5)"
    )
    parser.add_argument(
        "--output",
        choices=("text", "json"),
        default="text",
        help="text, or a JSON list for scripts (default: text)",
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `imagenet-predict`; return the exit code."""
    parsed = build_parser().parse_args(arguments)
    return run_program(PROGRAM, lambda: _run(parsed))


def _run(parsed: argparse.Namespace) -> None:
    # Imported here: the parser must be importable without OpenCV.
    from imagenet_workloads.frameworks import FRAMEWORKS
    from imagenet_workloads.prediction import Classifier, images_in

    for framework in FRAMEWORKS.values():
        framework.before_import()
    classifier = Classifier.load(parsed.model, parsed.exported)
    found: list[tuple[Path, Sequence[Prediction]]] = []
    refused: list[InputError] = []
    # A file that was named is a mistake of the command line if it is no image.
    failure: type[WorkloadError] = WorkloadError
    count = 0
    for given in parsed.images:
        is_folder = given.is_dir()
        for path in images_in(given) if is_folder else [given]:
            count += 1
            try:
                found.append((path, classifier.classify(path, parsed.top)))
            except InputError as error:
                refused.append(error)
                failure = failure if is_folder else InputError
    if found:
        _print(found, parsed.output)
    if len(refused) > 1:
        what = f"{len(refused)} of {count} images cannot be classified"
        raise failure("\n  ".join((what, *map(str, refused))))
    if refused:
        raise failure(str(refused[0]))


def _print(found: Sequence[tuple[Path, Sequence["Prediction"]]], output: str) -> None:
    if output == "json":
        print(json.dumps([_document(path, likeliest) for path, likeliest in found], indent=2))
    else:
        print("\n".join(_text(path, likeliest) for path, likeliest in found))


def _document(path: Path, likeliest: Sequence["Prediction"]) -> dict[str, object]:
    return {
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


def _text(path: Path, likeliest: Sequence["Prediction"]) -> str:
    lines = (f"  {one.probability:6.1%}  {_name(one)}" for one in likeliest)
    return "\n".join([str(path), *lines])


def _name(one: "Prediction") -> str:
    """A class and the first of its synonyms, such as `n01440764 tench`."""
    return f"{one.name} {one.words.partition(',')[0]}".rstrip()


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
