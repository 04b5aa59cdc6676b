"""`imagenetctl predict IMAGE…`: classifies images with a trained model.

Runs `imagenet-predict`, a program of the workloads, because this package imports no framework.
Without `--model`, it uses the newest result of the working directory.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from pathlib import Path
from typing import Any

from imagenet_operator.cli import exit_codes
from imagenet_operator.cli.argument_types import not_empty, path
from imagenet_operator.cli.local_resources import DEFAULT_WORKDIR
from imagenet_operator.clusters.interface import LocalError
from imagenet_operator.clusters.local import environments
from imagenet_spec.frameworks import DEFAULT_FRAMEWORK
from imagenet_spec.names import EVERY_ATTEMPT, RESULT_FILE

PROGRAM = "imagenet-predict"

_EXAMPLES = """examples:
  imagenetctl predict photo.jpg                     with the newest result in ./imagenet-work
  imagenetctl predict a.jpg b.png --model FOLDER    with the model in a folder
  imagenetctl predict photos --model jobs/digits    all images of a folder, a job's model
  imagenetctl predict a.jpg --from model.onnx       with a file of imagenetctl export
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "predict",
        help="classify images with a trained model",
        description="Classify images with the model that a job trained.",
        epilog=f"{_EXAMPLES}\n{exit_codes.HELP}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "images",
        type=not_empty,
        nargs="+",
        metavar="IMAGE",
        help="an image file, or a folder with images",
    )
    parser.add_argument(
        "--model",
        type=path,
        metavar="FOLDER",
        help="the folder of a result or of its job (default: the newest result)",
    )
    parser.add_argument(
        "--from",
        type=path,
        metavar="FILE",
        dest="exported",
        help="a file that imagenetctl export wrote of this result",
    )
    parser.add_argument(
        "--workdir",
        type=path,
        default=DEFAULT_WORKDIR,
        metavar="DIR",
        help=f"where to find the newest result (default: ./{DEFAULT_WORKDIR})",
    )
    parser.add_argument(
        "--top", type=int, metavar="N", help="number of classes to print (default: 5)"
    )
    parser.add_argument(
        "--output",
        choices=("text", "json"),
        default="text",
        help="text, or a JSON list for scripts (default: text)",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Classify; return the exit code."""
    model = arguments.model if arguments.model is not None else newest_model(arguments.workdir)
    environment = environments.of_framework(framework_of(model))
    program = environments.programs(environment).find(PROGRAM, trains=True)
    command = [str(program), "--model", str(model), "--output", arguments.output]
    if arguments.exported is not None:
        command += ["--from", str(arguments.exported)]
    if arguments.top is not None:
        command += ["--top", str(arguments.top)]
    command += ["--", *arguments.images]
    code = subprocess.run(command, check=False).returncode
    return code if code in (exit_codes.SUCCESS, exit_codes.USAGE) else exit_codes.FAILED


def framework_of(model: Path) -> str:
    """Return the framework in a result's result.json, or the default.

    Args:
        model: As for imagenet-predict: a result's folder, its result.json, or the job's folder.
    """
    return str(result_of(model).get("framework", DEFAULT_FRAMEWORK))


def result_of(model: Path) -> dict[str, Any]:
    """Return the content of a result's result.json; empty if it cannot be read.

    Args:
        model: As for `framework_of`.
    """
    try:
        attempts = sorted(
            model.glob(f"{EVERY_ATTEMPT}/{RESULT_FILE}"),
            key=lambda file: (len(file.parent.name), file.parent.name),
            reverse=True,
        )
        places = (model, model / RESULT_FILE, model / "model" / RESULT_FILE, *attempts)
        file = next(place for place in places if place.is_file())
        written = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, StopIteration):
        return {}  # imagenet-predict reports what is wrong with the folder
    return written if isinstance(written, dict) else {}


def newest_model(workdir: Path) -> Path:
    """Return the model of the job that succeeded last in a working directory.

    Raises:
        LocalError: No job has succeeded, or the directory cannot be read.
    """
    remedy = "name a result's folder with --model, or another working directory with --workdir"
    try:
        links = _links(workdir)
        good = [link for link in links if link.is_dir()]
        if good:
            return max(good, key=lambda link: link.lstat().st_mtime_ns).resolve()
    except OSError as error:
        raise LocalError(
            f"cannot read the working directory {workdir}: {error.strerror}; {remedy}"
        ) from error
    if links:
        raise LocalError(
            f"{links[0]} points to {links[0].readlink()}, which does not exist; {remedy}"
        )
    raise LocalError(f"no job has succeeded in {workdir} yet; {remedy}")


def _links(workdir: Path) -> list[Path]:
    """Return the links to models in a working directory, broken ones included, and folders."""
    try:
        folders = list((workdir / "jobs").iterdir())
    except FileNotFoundError:
        return []
    models = (folder / "model" for folder in folders)
    return [model for model in models if model.is_symlink() or model.is_dir()]
