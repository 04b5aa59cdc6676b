"""The interface of kinds of sources: their options, and how they open a source."""

from abc import ABC, abstractmethod
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from imagenet_spec.program import kinds
from imagenet_workloads.fields import Fields
from imagenet_workloads.prepare.source import Source, Validation
from imagenet_workloads.prepare.sources.cache import FileToFetch
from imagenet_workloads.prepare.stores.blob import Blob, LabelFile


class SourceKind(ABC):
    """A kind of source: its options, and how it is opened. `kinds.KINDS` lists them.

    Parsers import the modules of all kinds, so a module imports OpenCV only in functions.

    Attributes:
        name: in an ImageNetJob, the field of spec.dataset.source.
        options: its options in messages, such as `--source`.
        planned_as: the `kind` in plans of each source that it opens.
    """

    name: ClassVar[str]
    options: ClassVar[str]
    planned_as: ClassVar[tuple[str, ...]]

    @abstractmethod
    def add_index_options(self, parser: ArgumentParser) -> None:
        """Adds the options by which imagenet-index opens a source."""

    def add_pack_options(self, parser: ArgumentParser) -> None:  # noqa: B027
        """Adds the options by which imagenet-pack opens it again, if it needs any."""

    @abstractmethod
    def is_given(self, parsed: Namespace) -> bool:
        """Whether any option names a source of this kind."""

    def is_given_again(self, parsed: Namespace) -> bool:
        """Whether an option of imagenet-pack names one; true if its plan needs no option."""
        return True

    def mistake(self, parsed: Namespace) -> str | None:
        """The mistake in the combination of options; None without one."""
        return None

    @abstractmethod
    def open(self, parsed: Namespace) -> Source:
        """Opens the source in the options of imagenet-index.

        Raises:
            InputError: the source does not exist, or its layout is unknown.
        """

    def open_validation(self, parsed: Namespace) -> Validation | None:
        """Opens the validation images in the options of imagenet-index; None without any."""
        return None

    def class_words(self, parsed: Namespace) -> LabelFile | None:
        """The file of the source with the words of the classes; None if no option names one."""
        return None

    def bounding_boxes(self, parsed: Namespace) -> Sequence[Callable[[], Blob]]:
        """What opens each archive of annotations that an option names.

        Each raises an `InputError` if there is no such archive.
        """
        return ()

    @abstractmethod
    def open_planned(self, planned: Fields, parsed: Namespace) -> Source:
        """Opens a source again for imagenet-pack.

        Args:
            planned: from `Source.to_document`.
            parsed: the options of imagenet-pack.

        Raises:
            InputError: an option is missing, or the source differs from the plan.
        """


class RemoteKind(SourceKind):
    """Files of a server or a bucket. With `--cache`, index and pack read them from the cache."""

    @abstractmethod
    def add_reading_options(self, add_argument: Any) -> None:
        """Adds the options by which both programs open the images, to a parser or a group."""

    def add_pack_options(self, parser: ArgumentParser) -> None:
        """Adds the options that open the images."""
        self.add_reading_options(parser.add_argument)

    def is_given_again(self, parsed: Namespace) -> bool:
        """Whether imagenet-pack has the options that name the files."""
        return self.is_given(parsed)

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
        type=kinds.positive,
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
        type=kinds.text,
        metavar=metavar,
        help="the file with words for the classes, as --class-words",
    )
    add_argument(
        f"--{prefix}-bounding-boxes",
        type=kinds.text,
        action="append",
        metavar=metavar,
        help="an archive of annotations, as --bounding-boxes; may be repeated",
    )
