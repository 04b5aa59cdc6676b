"""A kind of source whose files imagenet-fetch can store in a cache."""

from abc import abstractmethod
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import Any

from imagenet_workloads import arguments as types
from imagenet_workloads.prepare.sources.cache import FileToFetch
from imagenet_workloads.prepare.sources.source import SourceKind


class RemoteKind(SourceKind):
    """Files of a server or a bucket. With `--cache`, index and pack read them from the cache."""

    def add_fetch_options(self, parser: ArgumentParser) -> None:
        """Adds the options that name the files: those of imagenet-index."""
        self.add_index_options(parser)

    @abstractmethod
    def files_to_fetch(self, parsed: Namespace) -> Sequence[FileToFetch]:
        """The files in the options of imagenet-fetch.

        Raises:
            InputError: the Secret lacks a key.
            WorkloadError: the server cannot be reached.
        """


def add_max_requests(add_argument: Any, prefix: str) -> None:
    """Adds the limit on the requests of index and pack, as --PREFIX-max-requests."""
    add_argument(
        f"--{prefix}-max-requests",
        type=types.count,
        metavar="N",
        help="fail if listing the images and reading them take more requests (default: 4000000)",
    )


def add_words_and_boxes(add_argument: Any, prefix: str, metavar: str) -> None:
    """Adds --PREFIX-class-words and --PREFIX-bounding-boxes, files beside the images.

    Args:
        add_argument: of a parser or a group.
        prefix: of the kind's options.
        metavar: what names a file there.
    """
    add_argument(
        f"--{prefix}-class-words",
        type=types.text,
        metavar=metavar,
        help="the file with words for the classes, as --class-words",
    )
    add_argument(
        f"--{prefix}-bounding-boxes",
        type=types.text,
        action="append",
        metavar=metavar,
        help="an archive of annotations, as --bounding-boxes; may be repeated",
    )
