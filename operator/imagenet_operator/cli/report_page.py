"""`imagenetctl report NAME --html FILE`: collects what a page shows, and writes it.

A job of this machine has its logs, its dataset and its model in folders. Of a job on a cluster only
the status is read: the rest is on a volume, and the page says where.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from imagenet_operator.cli import files, result
from imagenet_operator.clusters.interface import LocalError
from imagenet_operator.clusters.local.machine import Volumes
from imagenet_operator.manifests import names, volumes
from imagenet_operator.page import jpeg, render
from imagenet_operator.page.contents import Contents, Dataset, Part, read_dataset
from imagenet_spec import evaluation as evaluations
from imagenet_spec import volume_files
from imagenet_spec.evaluation import Evaluation
from imagenet_spec.events import attempt_folders, read_runs
from imagenet_spec.names import EVALUATION_FILE, EVENTS_FILE, MODEL_LINK, THUMBNAILS_FOLDER
from imagenet_spec.resource import ImageNetJob

_SUFFIX = ".html"
_DATASET_FILE = "dataset.json"
_SKIPPED_FILE = "skipped.jsonl"
_SKIPPED_SHOWN = 100


def html_file(text: str) -> Path:
    """Read the name of the page."""
    if not text.endswith(_SUFFIX) or Path(text).name == _SUFFIX:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no page; write a name that ends in {_SUFFIX}"
        )
    return Path(text)


def of_machine(
    job: ImageNetJob, account: Mapping[str, Any], folders: Volumes, workdir: Path
) -> Contents:
    """Return the content of the page of a job that ran on this machine."""
    found = result.collect(job, folders, 0.0, None)
    results, model = found.results, found.model
    link = workdir / "jobs" / job.metadata.name / MODEL_LINK
    if not results.is_dir() and link.is_dir():
        # A run with --volume: its folder is known by the link to the model.
        model = link.resolve()
        results = model.parents[1]
    absent: dict[Part, str] = {}
    try:
        runs = read_runs(attempt_folders(results))
    except OSError as error:
        raise LocalError(f"{error.filename}: cannot be read: {error.strerror}") from error
    if not runs:
        absent["runs"] = f"No attempt has started: {results} has no {EVENTS_FILE}."
    dataset = None
    if found.dataset is None:
        absent["dataset"] = "The job has no dataset in a volume of this machine."
    else:
        dataset, absent["dataset"] = _dataset(found.dataset)
    evaluation, absent["evaluation"] = _evaluation(model)
    pictures = {} if model is None or evaluation is None else _pictures(model, evaluation)
    return Contents(job, account, runs, dataset, evaluation, pictures, absent)


def of_cluster(job: ImageNetJob, account: Mapping[str, Any]) -> Contents:
    """Return the content of the page of a job on a cluster."""
    claim = volumes.output_claim(job)
    folder = names.output_folder(job.metadata.name, job.metadata.uid)
    where = f"on the volume of the claim {claim}, in the folder {folder}"
    listed, of_data = job.status.listed, volumes.dataset_claim(job)
    key = "KEY" if listed is None else listed.key
    return Contents(
        job,
        account,
        absent={
            "runs": f"The curves are not in the job's status; {EVENTS_FILE} has them, {where}.",
            "dataset": f"The classes are not in the job's status; {_DATASET_FILE} has them"
            + (
                "."
                if of_data is None
                else f", on the volume of the claim {of_data}, in the folder "
                f"{job.spec.dataset.sealed_path or names.dataset_folder(key)}."
            ),
            "evaluation": "What the model says of each validation image is not in the job's "
            f"status; {EVALUATION_FILE} beside the model has it, {where}.",
        },
    )


def write(contents: Contents, file: Path) -> None:
    """Write the page at once.

    Raises:
        LocalError: It cannot be written.
    """
    try:
        files.replace(file, render.page(contents))
    except OSError as error:
        raise LocalError(f"--html {file}: cannot be written: {error.strerror}") from error


def _dataset(folder: Path) -> tuple[Dataset | None, str]:
    file = folder / _DATASET_FILE
    try:
        document = json.loads(volume_files.read_bytes(file))
        if not isinstance(document, dict):
            raise ValueError("must be a JSON object")
    except FileNotFoundError:
        return None, f"The classes are unknown: {file} does not exist."
    except (OSError, ValueError, RecursionError) as error:
        return None, f"The classes are unknown: {file} cannot be read: {error}."
    skipped = []
    try:
        with volume_files.opened(folder / _SKIPPED_FILE) as lines:
            skipped = [json.loads(line) for line in islice(lines, _SKIPPED_SHOWN)]
    except (OSError, ValueError, RecursionError):
        pass  # it only exists if there are damaged images
    return read_dataset(document, skipped), "dataset.json names no class."


def _evaluation(model: Path | None) -> tuple[Evaluation | None, str]:
    if model is None:
        return None, "The job has no model yet, so no image is classified."
    file = model / EVALUATION_FILE
    try:
        return evaluations.from_json(volume_files.read_bytes(file)), ""
    except FileNotFoundError:
        return None, (
            f"{file} does not exist: the dataset has no validation images, or the model was "
            "trained by a version that wrote no such file."
        )
    except (OSError, ValueError) as error:
        return None, f"{file} cannot be read: {error}."


def _pictures(model: Path, evaluation: Evaluation) -> dict[str, bytes]:
    """Return the thumbnails, without metadata; those that are none are named and left out."""
    shown = (*evaluation.samples, *evaluation.mistakes, *evaluation.suspects)
    pictures = {}
    for name in dict.fromkeys(one.thumbnail for one in shown if one.thumbnail is not None):
        file = model / THUMBNAILS_FOLDER / name
        try:
            # A link may lead out of the volume, and the page is made to be passed on.
            if file.is_symlink() or not file.is_file():
                raise ValueError("is not a file")
            with file.open("rb") as content:
                pictures[name] = jpeg.without_metadata(content.read(jpeg.BYTES_MAXIMUM + 1))
        except (OSError, ValueError) as error:
            print(f"imagenetctl: warning: {file} is left out: {error}", file=sys.stderr)
    return pictures
