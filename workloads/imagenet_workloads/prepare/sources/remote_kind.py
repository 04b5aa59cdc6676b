"""A kind of source whose files imagenet-fetch can store in a cache."""

from abc import abstractmethod
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence

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
