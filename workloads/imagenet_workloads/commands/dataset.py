"""`imagenet-dataset`: looks after prepared datasets in folders and buckets.

`imagenetctl dataset` runs it. An address is a folder, s3://BUCKET/PREFIX or, for reading, the URL
of a folder on a server.
"""

import argparse
import json
import logging
import math
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from imagenet_spec.program import kinds
from imagenet_workloads.process.program import run_program

if TYPE_CHECKING:
    from imagenet_workloads.clients.folders import BucketFolder
    from imagenet_workloads.prepare.publish import Location

PROGRAM = "imagenet-dataset"
SHARDS_AT_ONCE = 4


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of `imagenet-dataset`."""
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Look after prepared datasets. The keys of a bucket are in "
        "$IMAGENET_CREDENTIALS/AWS_ACCESS_KEY_ID, …",
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, function, help, places in (
        ("list", _list, "list the datasets of a volume or below a prefix", ("address",)),
        ("show", _show, "print what a dataset holds, as JSON", ("address",)),
        ("check", _check, "print what is doubtful about the images, as JSON", ("address",)),
        ("verify", _verify, "read every byte and compare all checksums", ("address",)),
        ("publish", _publish, "upload a sealed dataset to a bucket", ("folder", "address")),
        ("fetch", _fetch, "copy a published dataset to a folder", ("address", "folder")),
        ("delete", _delete, "delete a dataset; needs --yes", ("address",)),
    ):
        command = commands.add_parser(name, help=help, description=f"{help.capitalize()}.")
        for place in places:
            read = kinds.path if place == "folder" else kinds.text
            command.add_argument(place, type=read, metavar=place.upper())
        command.add_argument(
            "--endpoint", type=kinds.text, metavar="URL", help="the S3 API (default: that of AWS)"
        )
        command.add_argument(
            "--region", type=kinds.text, metavar="NAME", help="of the bucket (default: us-east-1)"
        )
        if name == "delete":
            command.add_argument("--yes", action="store_true", help="delete it")
        command.set_defaults(run=function)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `imagenet-dataset`; return the exit code."""
    parsed = build_parser().parse_args(arguments)
    run: Callable[[argparse.Namespace], None] = parsed.run
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    return run_program(PROGRAM, lambda: run(parsed))


def _location(parsed: argparse.Namespace) -> "Location":
    from imagenet_workloads.clients.folders import open_folder

    if "://" not in parsed.address:
        return Path(parsed.address)
    return open_folder(parsed.address, parsed.endpoint, parsed.region)


def _list(parsed: argparse.Namespace) -> None:
    from imagenet_workloads.clients.folders import ServedFolder
    from imagenet_workloads.errors import InputError
    from imagenet_workloads.prepare import publish

    location = _location(parsed)
    if isinstance(location, ServedFolder):
        raise InputError(f"{parsed.address}: a server lists no folders; use show on a dataset")
    print(f"{'KEY':12} {'FORMAT':8} {'CLASSES':>7} {'TRAIN':>10} {'VALIDATION':>10} ADDRESS")
    for address, sealed in publish.find(location):  # type: ignore[arg-type]
        print(
            f"{sealed.key[:12]:12} {sealed.format:8} {len(sealed.classes):>7} "
            f"{sealed.train.images:>10} {sealed.validation.images:>10} {address}"
        )


def _show(parsed: argparse.Namespace) -> None:
    from imagenet_workloads.prepare import publish

    sealed = publish.read(_location(parsed))
    print(json.dumps(publish.describe(parsed.address, sealed), indent=2))


def _check(parsed: argparse.Namespace) -> None:
    from imagenet_workloads.errors import InputError
    from imagenet_workloads.prepare import checks, inspection, publish
    from imagenet_workloads.prepare.plan import TRAIN
    from imagenet_workloads.prepare.sources.prepared import SealedSplit
    from imagenet_workloads.records.image_list import read_image_list
    from imagenet_workloads.records.remote import read_remote_image_list

    location = _location(parsed)
    sealed = publish.read(location)
    # Those of synthetic images are not.
    compares = sealed.findings is None or sealed.findings.compared > 0
    checked = checks.check_shards(
        sealed,
        lambda shard: (
            read_image_list(location / shard.record)
            if isinstance(location, Path)
            else read_remote_image_list(location, shard)
        ),
        compares=compares,
    )
    if checked is not None:
        counts = (len(sealed.classes), sealed.train.images, sealed.validation.images)
        document = checked.to_document(*counts)
    elif isinstance(location, Path):
        # An older version or another program wrote no lists, so the images are decoded.
        source = SealedSplit(location, sealed, TRAIN)
        with tempfile.TemporaryDirectory(prefix="imagenet-check-") as scratch:
            found = inspection.inspect(source, Path(scratch), images=None, seconds=math.inf)
        source.close()
        document = found["checks"]
    else:
        raise InputError(
            f"{parsed.address}: has no lists of images, because an older version published it; "
            "copy it to a folder with imagenetctl dataset fetch, and check that"
        )
    print(json.dumps(document, indent=2))


def _verify(parsed: argparse.Namespace) -> None:
    from imagenet_workloads.prepare import publish

    publish.verify(_location(parsed), SHARDS_AT_ONCE)
    print(f"{parsed.address}: all checksums are right")


def _publish(parsed: argparse.Namespace) -> None:
    from imagenet_workloads.prepare import publish

    uploaded = publish.run(parsed.folder, _bucket(parsed), SHARDS_AT_ONCE)
    print(f"{parsed.address}: {uploaded} bytes were uploaded")


def _fetch(parsed: argparse.Namespace) -> None:
    from imagenet_workloads.errors import InputError
    from imagenet_workloads.prepare import publish

    source = _location(parsed)
    if isinstance(source, Path):
        raise InputError(f"{source}: is a folder; write s3://BUCKET/PREFIX or a URL")
    fetched = publish.fetch(source, parsed.folder, SHARDS_AT_ONCE)
    print(f"{parsed.folder}: {fetched} bytes were fetched")


def _delete(parsed: argparse.Namespace) -> None:
    from imagenet_workloads.errors import InputError
    from imagenet_workloads.prepare import publish

    if not parsed.yes:
        raise InputError(f"{parsed.address}: nothing is deleted without --yes")
    location = _location(parsed) if "://" not in parsed.address else _bucket(parsed)
    count = publish.delete(location)  # type: ignore[arg-type]
    print(f"{parsed.address}: {count} files were deleted")


def _bucket(parsed: argparse.Namespace) -> "BucketFolder":
    from imagenet_workloads.clients.folders import BucketFolder
    from imagenet_workloads.errors import InputError

    target = _location(parsed)
    if not isinstance(target, BucketFolder):
        raise InputError(f"{parsed.address}: is no folder in a bucket; write s3://BUCKET/PREFIX")
    return target


if __name__ == "__main__":
    sys.exit(main())
