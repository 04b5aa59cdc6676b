"""`imagenetctl check DATA`: what is doubtful about images, before or after they are prepared.

imagenet-inspect decodes the images of a folder, archive or address. For a sealed dataset,
imagenet-dataset reads the hashes that pack has written. Both compare the images as seal does, and
every job has the same findings in its status. They are warnings: the exit code is 0.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from pathlib import Path
from typing import Any

from imagenet_operator.cli import exit_codes, init
from imagenet_operator.cli.arguments import Command, add_output, whole
from imagenet_operator.clusters.local import environments
from imagenet_operator.manifests import names
from imagenet_spec.errors import ImageNetJobError

_DESCRIPTION_FILE = "dataset.json"
_WEEK = 7 * 24 * 3600.0

_EXAMPLES = """examples:
  imagenetctl check photos           a folder of class folders, or a tree with train and val
  imagenetctl check s3://bucket/photos/ --secret keys=FOLDER
  imagenetctl check imagenet-work    the newest dataset of a working directory
  imagenetctl check volume/datasets/KEY
  imagenetctl check photos --output json
                                     with all pairs of images that look alike
"""


def add_parser(command: Command) -> None:
    """Declare the command."""
    parser = command.declare(
        run,
        summary="find duplicates, leaks and imbalance in images",
        description="Find the same image in training and validation, near-duplicates, unbalanced "
        "classes, and images that are small, blank or damaged. Nothing is changed.",
        examples=_EXAMPLES,
    )
    init.add_source(parser)
    parser.add_argument(
        "--images",
        type=whole(2),
        metavar="N",
        help="decode N images at most, chosen at random (default: all)",
    )
    add_output(parser, "a JSON object")


def run(arguments: argparse.Namespace) -> int:
    """Check the images, and print what was found; return the exit code."""
    dataset = None if "://" in arguments.source else _sealed_in(Path(arguments.source))
    found = _check_images(arguments) if dataset is None else _check_dataset(dataset)
    where = str(dataset or arguments.source)
    if arguments.output == "json":
        print(json.dumps({"data": where, **found}, indent=2))
    else:
        print(_as_text(where, found))
    return exit_codes.SUCCESS


def _sealed_in(folder: Path) -> Path | None:
    """Return the dataset in a folder: itself, or the newest one of a volume or working directory.

    None if the folder holds no sealed dataset, but perhaps images.
    """
    below = names.dataset_folder("*")
    files = [
        file
        for pattern in ("", f"{below}/", f"volumes/*/{below}/")
        for file in folder.glob(f"{pattern}{_DESCRIPTION_FILE}")
    ]
    return max(files, key=lambda file: file.stat().st_mtime_ns).parent if files else None


def _check_dataset(dataset: Path) -> dict[str, Any]:
    program = environments.programs().find("imagenet-dataset", trains=False)
    done = subprocess.run(
        [str(program), "check", str(dataset)], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise ImageNetJobError(done.stderr.strip().replace("imagenet-dataset: error: ", ""))
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _check_images(arguments: argparse.Namespace) -> dict[str, Any]:
    secret = None if arguments.secret is None else arguments.secret[0]
    name, source, folder = init.source_of(arguments.source, secret, arguments.endpoint)
    init.require_valid(arguments.source, init.draft(name, source))
    init.say(f"looking at {arguments.source}")
    read = {"images": arguments.images, "seconds": _WEEK}
    document = init.inspect(source, folder, arguments.secret, read)
    found: dict[str, Any] = document["checks"]
    sample = document["sample"]
    damaged = sum(sample["damaged"].values())
    if damaged:
        first = sample["damagedFiles"][0]
        what = "image is" if damaged == 1 else "images are"
        found["warnings"].append(
            f"{damaged:,} {what} damaged: {first['name']}: {first['reason']}"
            + (", …" if damaged > 1 else "")
        )
    return {**found, "decoded": sample["images"], "damaged": sample["damagedFiles"]}


def _as_text(where: str, found: dict[str, Any]) -> str:
    images, findings = found["images"], found["findings"]
    lines = [
        f"{where}: {images['train']:,} training and {images['validation']:,} validation images in "
        f"{found['classes']:,} classes, {findings['compared']:,} compared"
    ]
    lines += [f"warning: {warning}" for warning in found["warnings"]]
    for title, kind in (("training and validation", "inTraining"), ("near", "nearDuplicates")):
        examples = findings.get(kind, {}).get("examples", ())
        lines += [f"  {title}: {one['image']} is like {one['like']}" for one in examples[1:]]
    if not found["warnings"]:
        lines.append("nothing doubtful was found")
    elif found["duplicates"]:
        lines.append(f"--output json has all {len(found['duplicates']):,} pairs")
    return "\n".join(lines)
