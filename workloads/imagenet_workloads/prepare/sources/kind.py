"""The interface of kinds of sources: how they open a source by its options."""

from abc import ABC, abstractmethod
from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import ClassVar

from imagenet_workloads.fields import Fields
from imagenet_workloads.prepare.source import Source, Validation
from imagenet_workloads.prepare.sources.cache import FileToFetch
from imagenet_workloads.prepare.stores.blob import Blob, LabelFile


class SourceKind(ABC):
    """How a kind of source is opened by its options. `kinds.KINDS` lists the kinds.

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
    def is_given(self, parsed: Namespace) -> bool:
        """Whether any option names a source of this kind."""

    def is_given_again(self, parsed: Namespace) -> bool:
        """Whether imagenet-pack has the options that its plan needs."""
        return self.is_given(parsed)

    def mistake(self, parsed: Namespace) -> str | None:
        """The mistake in the combination of options; None without one."""
        return None

    @abstractmethod
    def open(self, parsed: Namespace) -> Source:
        """Opens the source in the options of imagenet-index; an `InputError` if there is none."""

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
        """Opens a source again for imagenet-pack, from what `Source.to_document` made.

        Raises:
            InputError: an option is missing, or the source differs from the plan.
        """


class RemoteKind(SourceKind):
    """Files of a server or a bucket. With `--cache`, index and pack read them from the cache."""

    @abstractmethod
    def files_to_fetch(self, parsed: Namespace) -> Sequence[FileToFetch]:
        """The files in the options of imagenet-fetch.

        Raises:
            InputError: the Secret lacks a key.
            WorkloadError: the server cannot be reached.
        """
