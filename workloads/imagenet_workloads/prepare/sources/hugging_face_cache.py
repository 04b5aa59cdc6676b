"""A dataset of Hugging Face in a cache: a folder for each file, and the list of them.

The list is stored last. It has the commit, so index and pack ask no hub.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from imagenet_workloads.prepare.sources.cache import (
    CachedFile,
    FileToFetch,
    Place,
    WholeFile,
    place_below,
    place_of,
)
from imagenet_workloads.prepare.sources.cached_list import list_to_fetch, read_list
from imagenet_workloads.prepare.sources.remote import RemoteBlob, RemoteFiles
from imagenet_workloads.prepare.sources.source import changed

Opener = Callable[[], RemoteBlob | WholeFile]

_REMEDY = "fetch it again; if that fails too, report it to the dataset's owner"


@dataclass(frozen=True)
class CachedDataset:
    """The place of a dataset, or of a part of it, in a cache.

    Attributes:
        list_place: of the list; the folders of the files are beside it.
    """

    list_place: Place

    @classmethod
    def of(
        cls, cache: Path, dataset: str, revision: str | None, path: str | None, endpoint: str | None
    ) -> "CachedDataset":
        """Returns the place of what the options name.

        Args:
            cache: the folder of the volume.
            dataset: the name of the dataset.
            revision: a branch, tag or commit; None for the default branch.
            path: the file or folder that is read; None for all.
            endpoint: the URL of the server; None for the default.
        """
        where = f"hf://datasets/{dataset}" + ("" if revision is None else f"@{revision}")
        part = f"{endpoint or ''} {path or ''}"
        return cls(place_of(cache, dataset.rpartition("/")[2], where, part))

    def open_listed(self) -> tuple[str, RemoteFiles]:
        """The commit of the list, and its files for index.

        Raises:
            InputError: the dataset is not in the cache, or the list is damaged.
        """
        fields = read_list(self.list_place)
        commit, checksums = fields.text("commit"), fields.object("files")

        def open_blob(name: str) -> CachedFile:
            place = self._place(name)
            record = place.record()
            if record is not None and record.checksum != checksums.text(name):
                raise changed(place.where, f"is not that of the commit {commit}")
            return place.open()

        return commit, self._files(sorted(checksums.values), open_blob)

    def open_planned(self) -> RemoteFiles:
        """The files for pack, which knows their names and tags."""
        return self._files((), lambda name: self._place(name).open())

    def to_fetch(
        self, commit: str, checksums: Mapping[str, str], opener: Callable[[str], Opener]
    ) -> Iterator[FileToFetch]:
        """The files of a commit, and the list.

        Args:
            commit: the commit.
            checksums: of the files to store, by their paths; empty if unknown.
            opener: returns what asks the server for a file.
        """
        places = {name: self._place(name) for name in checksums}
        for name, place in places.items():
            yield FileToFetch(
                _base(name),
                place,
                is_archive=not name.endswith(".parquet"),
                checksum=checksums[name],
                open=opener(name),
                checksum_remedy=_REMEDY,
            )
        kept = {place.folder for place in places.values()}
        document = {"commit": commit, "files": dict(checksums)}
        yield list_to_fetch(self.list_place, document, lambda: self._others(kept))

    def _others(self, kept: set[Path]) -> Iterable[Path]:
        """The folders of files that the list lacks, such as those of a former commit."""
        return [one for one in self.list_place.folder.iterdir() if one.is_dir() and one not in kept]

    def _place(self, name: str) -> Place:
        return place_below(self.list_place.folder, _base(name), f"{self.list_place.where}/{name}")

    def _files(self, names: Iterable[str], open_blob: Callable[[str], CachedFile]) -> RemoteFiles:
        return RemoteFiles(self.list_place.where, tuple(names), open_blob, CachedFile.at_once)


def _base(name: str) -> str:
    return name.rpartition("/")[2]
