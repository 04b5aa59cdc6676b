"""`imagenetctl upload` and `download`: data to a claim of a cluster, and the model of a job back.

A bar on a terminal, lines elsewhere, all on the standard error. Both go on if they are typed again.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Final

from rich.console import Console
from rich.filesize import decimal
from rich.progress import (
    BarColumn,
    DownloadColumn,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.progress import Progress as Bars

from imagenet_operator.cli import exit_codes, places
from imagenet_operator.cli.arguments import Command, not_empty, path
from imagenet_operator.sdk import results
from imagenet_operator.sdk.interface import Progress
from imagenet_spec.errors import ImageNetJobError

_UPLOAD: Final = """examples:
  imagenetctl upload photos -n vision --claim photos-images --size 10Gi
  imagenetctl upload fall11_whole.tar -n vision --claim raw --path archives
"""

_DOWNLOAD: Final = """examples:
  imagenetctl download resnet50 -n vision --to model
  imagenetctl download resnet50 -n vision --to checkpoint --checkpoint last
"""

_QUARTERS: Final = 4


def add_upload(command: Command) -> None:
    """Declare `upload`."""
    parser = command.declare(
        upload,
        summary="send a folder or an archive to a claim of a cluster",
        description="Send a folder's files, or one file such as a tar, to a claim. A pod with your "
        "rights serves the claim meanwhile. Typed again, it goes on.",
        examples=_UPLOAD,
    )
    parser.add_argument("source", type=path, metavar="FOLDER|TAR", help="what to send")
    parser.add_argument(
        "--claim", type=not_empty, required=True, metavar="NAME", help="the PersistentVolumeClaim"
    )
    parser.add_argument(
        "--size",
        type=not_empty,
        metavar="SIZE",
        help="the size of a claim that does not exist yet, such as 10Gi; it is created with the "
        "default StorageClass",
    )
    parser.add_argument(
        "--path",
        type=not_empty,
        metavar="FOLDER",
        help="the folder on the claim (default: its root)",
    )
    places.add_image(parser, of_job=False)
    places.add_options(parser)


def add_download(command: Command) -> None:
    """Declare `download`."""
    parser = command.declare(
        download,
        summary="bring the model of a job, or a checkpoint, to this machine",
        description="Bring the model of a job to this machine, with result.json, its card and its "
        "curves, and compare all checksums. The model is that of the best epoch if the job has "
        "checkpoint.best. Typed again, it goes on.",
        examples=_DOWNLOAD,
    )
    places.add_name(parser)
    parser.add_argument("--to", type=path, required=True, metavar="DIR", help="the folder")
    parser.add_argument(
        "--checkpoint",
        type=_checkpoint,
        metavar="best|last|EPOCH",
        help="a checkpoint in place of the model; EPOCH is a number of finished epochs",
    )
    places.add_image(parser)


def upload(arguments: argparse.Namespace) -> int:
    """Send the files."""
    with places.opened(arguments) as client, _Display("on the claim") as display:
        sent = client.upload(
            arguments.source,
            arguments.claim,
            size=arguments.size,
            path=arguments.path or "",
            image=arguments.image,
            progress=display.show,
            say=display.say,
        )
    for name, reason in sent.left_out:
        print(f"imagenetctl: warning: left out {name}: {reason}", file=sys.stderr)
    there = f"; {sent.unchanged:,} were there" if sent.unchanged else ""
    where = f"{arguments.path} on the claim" if arguments.path else "the claim"
    size = decimal(sent.bytes)
    files = "1 file" if sent.files == 1 else f"{sent.files:,} files"
    print(f"sent {files} with {size} to {where} {arguments.claim}{there}")
    return exit_codes.SUCCESS


def download(arguments: argparse.Namespace) -> int:
    """Bring the files, and print their folder."""
    with places.opened(arguments) as client, _Display("on this machine") as display:
        folder = client.download(
            arguments.name,
            arguments.to,
            checkpoint=arguments.checkpoint,
            image=arguments.image,
            progress=display.show,
            say=display.say,
        )
    print(folder)
    return exit_codes.SUCCESS


def _checkpoint(text: str) -> str | int:
    try:
        return results.read_checkpoint(text)
    except ImageNetJobError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


class _Display:
    """Shows how much is where it has to be, on the standard error; called from another thread."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._step = 0
        self._bars: Bars | None = None
        console = Console(stderr=True, highlight=False)
        if console.is_terminal:
            self._bars = Bars(
                TextColumn("{task.description}"),
                BarColumn(),
                DownloadColumn(),
                TransferSpeedColumn(),
                TimeRemainingColumn(),
                console=console,
            )
            self._task = self._bars.add_task(where, total=None)

    def __enter__(self) -> _Display:
        self._shown: AbstractContextManager[object] = self._bars or nullcontext()
        self._shown.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._shown.__exit__(None, None, None)

    def show(self, progress: Progress) -> None:
        """Move the bar, or write a line at each quarter."""
        if self._bars is not None:
            self._bars.update(self._task, completed=progress.bytes, total=progress.of_bytes)
            return
        step = progress.bytes * _QUARTERS // max(progress.of_bytes, 1)
        if step > self._step:
            self._step = step
            of = f"{decimal(progress.bytes)} of {decimal(progress.of_bytes)}"
            self.say(f"{self._where}: {of}, {progress.files:,} of {progress.of_files:,} files")

    def say(self, text: str) -> None:
        if self._bars is not None:
            self._bars.console.print(text, soft_wrap=True, markup=False)
        else:
            print(text, file=sys.stderr, flush=True)
