"""The commands that start a program of the workloads: predict, dataset, ledger, verify and export.

This package imports no framework. A program runs in the environment of the framework and strategy
that its result names, with the arguments of the command.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from imagenet_operator.cli import exit_codes
from imagenet_operator.cli.arguments import (
    Command,
    add_output,
    add_workdir,
    not_empty,
    path,
    whole,
)
from imagenet_operator.clusters.interface import LocalError
from imagenet_operator.clusters.local import environments
from imagenet_operator.manifests import names
from imagenet_spec import volume_files
from imagenet_spec.frameworks import DEFAULT_FRAMEWORK
from imagenet_spec.frameworks.descriptor import LocalEnvironment
from imagenet_spec.names import (
    ATTEMPTS_FOLDER,
    EVERY_ATTEMPT,
    IMAGENET_CREDENTIALS,
    MODEL_LINK,
    RESULT_FILE,
    nearest,
)
from imagenet_spec.program.option import add_group, written
from imagenet_spec.program.programs import PREDICT

EXPORT_FORMATS = ("safetensors", "torchscript", "onnx")

_PLOT = "imagenet-plot"

_PREDICT = """examples:
  imagenetctl predict photo.jpg                     with the newest result in ./imagenet-work
  imagenetctl predict a.jpg b.png --model FOLDER    with the model in a folder
  imagenetctl predict photos --model jobs/digits    all images of a folder, a job's model
  imagenetctl predict a.jpg --from model.onnx       with a file of imagenetctl export
  imagenetctl predict --job digits photos --output csv > predictions.csv
                                                    a table with one row an image
"""

_DATASET = """examples:
  imagenetctl dataset list volume
  imagenetctl dataset publish volume/datasets/KEY s3://datasets/imagenet --secret keys
  imagenetctl dataset check s3://datasets/imagenet --secret keys
  imagenetctl dataset verify s3://datasets/imagenet --endpoint https://s3.example.com --secret keys
  imagenetctl dataset fetch s3://datasets/imagenet folder --secret keys
  imagenetctl dataset delete volume/datasets/KEY --yes
"""

_PLACES = {
    "list": "a volume's folder, or a prefix",
    "show": "a dataset",
    "check": "a dataset",
    "verify": "a dataset",
    "publish": "a sealed dataset's folder, and s3://BUCKET/PREFIX",
    "fetch": "a published dataset, and a folder",
    "delete": "a dataset",
}
"""The commands of `imagenetctl dataset`, each with its arguments."""

_LEDGER = """examples:
  imagenetctl ledger digits                         the newest job of that name in ./imagenet-work
  imagenetctl ledger /mnt/output/jobs/digits-1f0c8a11 --dataset /mnt/data/datasets/KEY
                                                    a folder of a mounted volume
"""

_VERIFY = """examples:
  imagenetctl verify imagenet-work/jobs/digits/model
                                                    10 steps from the last possible checkpoint
  imagenetctl verify RESULT --next-checkpoint       from the last checkpoint but one
  imagenetctl verify RESULT --checkpoint epoch-0003-batch-00000000
"""

_EXPORT = """examples:
  imagenetctl export imagenet-work/jobs/digits/model --format onnx --check
                                                    write model.onnx beside the result
  imagenetctl export RESULT --format safetensors --into digits.safetensors
"""


def add_predict(command: Command) -> None:
    """Declare `imagenetctl predict IMAGE…`."""
    parser = command.declare(
        _predict,
        summary="classify images with a trained model",
        description="Classify images with the model that a job trained.",
        examples=_PREDICT,
    )
    parser.add_argument(
        "images",
        type=not_empty,
        nargs="+",
        metavar="IMAGE",
        help="an image file, or a folder with images",
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--job",
        type=not_empty,
        metavar="NAME",
        help="the job in the working directory whose model classifies (default: the newest result)",
    )
    which.add_argument(
        "--model",
        type=path,
        metavar="FOLDER",
        help="instead of --job, the folder of a result or of its job",
    )
    add_workdir(parser, "where to find the job or the newest result")
    for title, group in PREDICT.groups.items():
        add_group(parser, title, group, PREDICT.options)


def _predict(arguments: argparse.Namespace) -> int:
    if arguments.job is not None:
        model = model_of(arguments.job, arguments.workdir)
    else:
        model = arguments.model or newest_model(arguments.workdir)
    chosen = written(PREDICT.options, vars(arguments))
    options = ["--model", str(model), *chosen, "--", *arguments.images]
    return start(PREDICT.name, options, environments.of_framework(framework_of(model)))


def add_dataset(command: Command) -> None:
    """Declare `imagenetctl dataset COMMAND …`; `--secret` is the folder of the bucket's keys."""
    parser = command.declare(
        _dataset,
        summary="list, verify, publish, fetch and delete prepared datasets",
        description="Look after prepared datasets: folders, and s3://BUCKET/PREFIX.",
        examples=_DATASET,
    )
    parser.set_defaults(yes=False)
    subcommands = parser.add_subparsers(metavar="COMMAND", required=True, dest="command")
    for name, places in _PLACES.items():
        child = subcommands.add_parser(name, help=places)
        count = len(places.split(", and "))
        child.add_argument("places", type=not_empty, nargs=count, metavar="ADDRESS", help=places)
        child.add_argument("--endpoint", metavar="URL", help="the S3 API (default: that of AWS)")
        child.add_argument("--region", metavar="NAME", help="of the bucket")
        child.add_argument(
            "--secret", type=path, metavar="FOLDER", help="a file for each key of the bucket"
        )
        if name == "delete":
            child.add_argument("--yes", action="store_true", help="delete it")


def _dataset(arguments: argparse.Namespace) -> int:
    options = [arguments.command, *arguments.places, *(["--yes"] if arguments.yes else [])]
    options += _given(arguments, "endpoint", "region")
    variables = dict(os.environ)
    if arguments.secret is not None:
        variables[IMAGENET_CREDENTIALS] = str(arguments.secret)
    return start("imagenet-dataset", options, variables=variables)


def add_ledger(command: Command) -> None:
    """Declare `imagenetctl ledger NAME`: of a working directory, or a volume mounted here."""
    parser = command.declare(
        _ledger,
        summary="check that a job trained every record once an epoch",
        description="Check that every record of each epoch was trained once, over all attempts.",
        examples=_LEDGER,
    )
    parser.add_argument(
        "job", type=not_empty, metavar="NAME", help="a job's name, or its output folder"
    )
    parser.add_argument(
        "--dataset",
        type=path,
        metavar="FOLDER",
        help="the sealed dataset (default: that of the job, if it is in the working directory)",
    )
    add_workdir(parser, "where to find the job")
    add_output(parser, "a JSON object")


def _ledger(arguments: argparse.Namespace) -> int:
    folder = find_output(arguments.job, arguments.workdir)
    options = [str(folder), "--output", arguments.output]
    dataset = arguments.dataset or _dataset_of(folder, arguments.workdir)
    options += [] if dataset is None else ["--dataset", str(dataset)]
    return start("imagenet-ledger", options)


def add_verify(command: Command) -> None:
    """Declare `imagenetctl verify RESULT`: the steps are trained where the result was."""
    parser = command.declare(
        _verify,
        summary="train from a checkpoint again, and compare every byte",
        description="Train some steps from a checkpoint again, and compare the receipts.",
        examples=_VERIFY,
    )
    _add_result(parser)
    parser.add_argument(
        "--checkpoint", metavar="NAME", help="where to begin (default: the last possible one)"
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--steps", type=whole(1), metavar="K", help="steps from there to the receipt (default: 10)"
    )
    where.add_argument(
        "--next-checkpoint", action="store_true", help="train to the next checkpoint"
    )


def _verify(arguments: argparse.Namespace) -> int:
    strategy = str(result_of(arguments.result).get("strategy", ""))
    options = [str(arguments.result), *_given(arguments, "checkpoint", "steps")]
    options += ["--next-checkpoint"] if arguments.next_checkpoint else []
    environment = environments.of_framework(framework_of(arguments.result), strategy)
    return start("imagenet-verify", options, environment)


def add_export(command: Command) -> None:
    """Declare `imagenetctl export RESULT`."""
    parser = command.declare(
        _export,
        summary="write a trained model in another format",
        description="Write the model that a job trained in another format.",
        examples=_EXPORT,
    )
    _add_result(parser)
    parser.add_argument(
        "--format", choices=EXPORT_FORMATS, required=True, help="the format of the file"
    )
    parser.add_argument(
        "--into", type=path, metavar="FILE", help="the file (default: model.FORMAT by the result)"
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="print the largest difference of the two models' outputs on 16 images",
    )
    parser.add_argument(
        "--dataset",
        type=path,
        metavar="FOLDER",
        help="a dataset with validation images for --check (default: the job's, if it is on the "
        "same volume, otherwise synthetic images)",
    )


def _export(arguments: argparse.Namespace) -> int:
    options = [str(arguments.result), *_given(arguments, "format", "into", "dataset")]
    options += ["--check"] if arguments.check else []
    environment = environments.of_framework(framework_of(arguments.result))
    return start("imagenet-export", options, environment)


def _add_result(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "result", type=path, metavar="RESULT", help="a job's folder, an attempt's or a result.json"
    )


def _given(arguments: argparse.Namespace, *options: str) -> list[str]:
    values = {option: getattr(arguments, option) for option in options}
    # An option and its value are one argument, because a value may begin with a dash.
    return [f"--{option}={value}" for option, value in values.items() if value is not None]


def start(
    program: str,
    options: Sequence[str],
    environment: LocalEnvironment | None = None,
    variables: Mapping[str, str] | None = None,
    output: int | None = None,
) -> int:
    """Run a program of the workloads; return the exit code of `imagenetctl`."""
    found = environments.programs(environment).find(program, trains=True)
    command = [str(found), *options]
    code = subprocess.run(command, env=variables, stdout=output, check=False).returncode
    return code if code in (exit_codes.SUCCESS, exit_codes.USAGE) else exit_codes.FAILED


def draw(*options: str | Path) -> str | None:
    """Draw a plot by the workloads' program; return why there is none, or None.

    This package does not require matplotlib.
    """
    folders = environments.program_folders(os.environ)
    program = environments.find_program(_PLOT, folders)
    if program is None:
        return f"the program {_PLOT!r} is not installed beside this one"
    command = [str(program), *map(str, options)]
    drawn = subprocess.run(command, capture_output=True, text=True, check=False)
    return None if drawn.returncode == 0 else drawn.stderr.strip()


def draw_document(option: str, document: Mapping[str, Any], picture: Path) -> None:
    """Draw a report or a comparison into the file of --plot.

    Raises:
        LocalError: It cannot be drawn.
    """
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(document, file)
        file.flush()
        reason = draw(option, file.name, "--output", picture)
    if reason is not None:
        raise LocalError(f"--plot: {reason}")


def framework_of(model: Path) -> str:
    """Return the framework in a result's result.json, or the default."""
    return str(result_of(model).get("framework", DEFAULT_FRAMEWORK))


def result_of(model: Path) -> dict[str, Any]:
    """Return the content of a result's result.json; empty if it cannot be read.

    `model` is as for imagenet-predict: a result's folder, its result.json, or the job's folder.
    """
    try:
        attempts = sorted(
            model.glob(f"{EVERY_ATTEMPT}/{RESULT_FILE}"),
            key=lambda file: (len(file.parent.name), file.parent.name),
            reverse=True,
        )
        places = (model, model / RESULT_FILE, model / MODEL_LINK / RESULT_FILE, *attempts)
        file = next(place for place in places if place.is_file())
        written = json.loads(volume_files.read_bytes(file))
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


def model_of(job: str, workdir: Path) -> Path:
    """Return the model of a job in a working directory.

    Raises:
        LocalError: There is none.
    """
    model = workdir / "jobs" / job / MODEL_LINK
    if Path(job).name == job and model.is_dir():
        return model.resolve()
    try:
        known = sorted(link.parent.name for link in _links(workdir) if link.is_dir())
    except OSError:
        known = []
    meant = nearest(job, known)
    raise LocalError(
        f"no job {job!r} has a model in {workdir}; "
        + (
            f"did you mean {meant}?"
            if meant is not None
            else f"jobs with a model: {', '.join(known)}"
            if known
            else "name another working directory with --workdir, or a result with --model"
        )
    )


def _links(workdir: Path) -> list[Path]:
    """Return the links to models in a working directory, broken ones included, and folders."""
    try:
        folders = list((workdir / "jobs").iterdir())
    except FileNotFoundError:
        return []
    models = (folder / MODEL_LINK for folder in folders)
    return [model for model in models if model.is_symlink() or model.is_dir()]


def find_output(job: str, workdir: Path) -> Path:
    """Return the output folder of a job: the folder itself, or the newest one of that name.

    Raises:
        LocalError: There is none.
    """
    if (Path(job) / ATTEMPTS_FOLDER).is_dir():
        return Path(job)
    # A UID's first 8 digits follow the name.
    found = list(workdir.glob(f"volumes/*/{names.output_folder(job, '?' * 8)}/{ATTEMPTS_FOLDER}"))
    if not found:
        raise LocalError(
            f"no job {job!r} has trained in {workdir}; name another working directory with "
            "--workdir, or the job's folder on a mounted volume"
        )
    return max(found, key=lambda attempts: attempts.stat().st_mtime_ns).parent


def _dataset_of(output: Path, workdir: Path) -> Path | None:
    """Return the sealed dataset that a job's result names, if it is in the working directory."""
    for result in sorted(output.glob(f"{EVERY_ATTEMPT}/{RESULT_FILE}")):
        key = json.loads(volume_files.read_bytes(result)).get("dataset", {}).get("key")
        if key is not None:
            found = workdir.glob(f"volumes/*/{names.dataset_folder(key)}/dataset.json")
            return next((file.parent for file in found), None)
    return None
