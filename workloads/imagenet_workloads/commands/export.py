"""`imagenet-export`: writes a trained model in another format.

The command line of `exporting`. Needs the folder of a finished attempt, and no cluster.
"""

import argparse
import sys
from collections.abc import Sequence

from imagenet_spec.program import kinds
from imagenet_workloads.process.program import run_program

PROGRAM = "imagenet-export"
FORMATS = ("safetensors", "torchscript", "onnx")


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of `imagenet-export`."""
    parser = argparse.ArgumentParser(
        prog=PROGRAM, description="Write a trained model in another format."
    )
    parser.add_argument(
        "result",
        type=kinds.path,
        metavar="RESULT",
        help="a job's folder, an attempt's or a result.json",
    )
    parser.add_argument("--format", choices=FORMATS, required=True, help="of the file")
    parser.add_argument(
        "--into",
        type=kinds.path,
        metavar="FILE",
        help="the file (default: model.FORMAT beside the result, with torchscript model.pt)",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="compare the outputs of both models on 16 images",
    )
    parser.add_argument(
        "--dataset",
        type=kinds.path,
        metavar="FOLDER",
        help="a dataset with validation images for --check (default: the job's, if it is on the "
        "same volume, otherwise synthetic images)",
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `imagenet-export`; return the exit code."""
    parsed = build_parser().parse_args(arguments)
    return run_program(PROGRAM, lambda: _run(parsed))


def _run(parsed: argparse.Namespace) -> None:
    # Imported here: the parser must be importable without OpenCV.
    from imagenet_workloads.exporting import Export
    from imagenet_workloads.frameworks import FRAMEWORKS

    for framework in FRAMEWORKS.values():
        framework.before_import()
    export = Export(parsed.result, parsed.format)
    path = export.write(parsed.into)
    print(f"wrote {path}, {path.stat().st_size} bytes")
    if parsed.check:
        found = export.check(path, parsed.dataset)
        print(
            f"the largest difference of the outputs of {found.images} {found.origin} is "
            f"{found.difference:.3g}"
        )


if __name__ == "__main__":
    sys.exit(main())
