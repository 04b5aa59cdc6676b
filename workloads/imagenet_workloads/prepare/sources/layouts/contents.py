"""What a source holds by the names of its files: CIFAR's, Parquet files, archives and images.

CIFAR and Parquet files hold images without being images or archives of them. Such a source is of
one kind, or refused.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass, field

from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare.containers import parquet
from imagenet_workloads.prepare.entry_names import is_image
from imagenet_workloads.prepare.sources import cifar
from imagenet_workloads.prepare.sources.layouts import choice as choices
from imagenet_workloads.prepare.sources.layouts.choice import Choice
from imagenet_workloads.prepare.stores.blob import readable

# Of Hugging Face's imagefolder: a table about the images beside it.
_METADATA = "metadata.parquet"
# The download of CIFAR, which may lie beside what was unpacked from it.
_CIFAR_ARCHIVE = re.compile(r"cifar-100?-(?:python|binary)\.(?:tar|tar\.gz|tgz)")


def is_download_of_cifar(name: str) -> bool:
    """Whether a file is named like the archive from which CIFAR is unpacked."""
    return _CIFAR_ARCHIVE.fullmatch(name) is not None


@dataclass
class Contents:
    """The files of a source, as far as they say how it is read.

    Attributes:
        where: the source in messages.
        below: what names a folder of it: the option, what precedes the folder in its value, and
            the field of the manifest; such as `--source`, `/raw/`, `path`.
        image: the path of an image; empty without one.
        archives: the paths of archives.
        parquet: the paths of Parquet files.
        of_cifar: the files with names of CIFAR's in each folder.
    """

    where: str
    below: tuple[str, str, str] = ("", "", "")
    image: str = ""
    archives: list[str] = field(default_factory=list)
    parquet: list[str] = field(default_factory=list)
    of_cifar: dict[str, set[str]] = field(default_factory=dict)

    def add(self, path: str, archive_suffixes: Collection[str] = ()) -> None:
        """Adds a file that is not hidden.

        Args:
            path: of the file.
            archive_suffixes: the suffixes of archives of images.
        """
        folder, _, name = path.rpartition("/")
        if is_image(path):
            self.image = self.image or path
        elif name.endswith(parquet.SUFFIX):
            self.parquet.append(path)
        elif name in cifar.FILES:
            self.of_cifar.setdefault(folder, set()).add(name)
        elif name.endswith(tuple(archive_suffixes)) and not is_download_of_cifar(name):
            self.archives.append(path)

    def cifar_folders(self) -> list[str]:
        """The folders with all files of a version of CIFAR."""
        return sorted(folder for folder, names in self.of_cifar.items() if cifar.may_be(names))

    def layout(self, choice: Choice) -> str:
        """`cifar` or `parquet` if that is what it holds; empty for images and archives of them.

        Raises:
            InputError: it holds several, or not what was chosen.
        """
        folders = self.cifar_folders()
        files = [one for one in self.parquet if not self.image or not one.endswith(_METADATA)]
        found = {choices.CIFAR: bool(folders), choices.PARQUET: bool(files)}
        if choice.layout in found:
            if not found[choice.layout]:
                raise InputError(
                    f"{self.where}: is no {choice.layout} (--layout, source.layout): it holds "
                    f"{self._described()}; write another layout, or none"
                )
        elif choice.layout or choice.has_labels:
            if any(found.values()) and not (self.image or self.archives):
                wanted = choice.layout or choices.LABELS
                raise InputError(
                    f"{self.where}: is no {wanted} (source.layout, source.labels): it holds "
                    f"{self._described()}; remove them"
                )
            return ""
        else:
            holds = [name for name, is_there in found.items() if is_there]
            is_one = len(holds) + bool(self.image or self.archives) <= 1
            if not is_one:
                others = choices.CLASS_FOLDERS if self.image or self.archives else holds[1]
                raise InputError(
                    f"{self.where}: holds {self._described()}, and which of them is the data set "
                    f"is not clear; write --layout {holds[0]} (source.layout) or "
                    f"--layout {others}, or name the folder of one ({self.below[2]})"
                )
            if not holds:
                return ""
        layout = choice.layout or next(name for name, is_there in found.items() if is_there)
        if layout == choices.CIFAR and len(folders) > 1:
            option, start, name = self.below
            lines = " or ".join(f"{option} {start}{folder}" for folder in folders)
            raise InputError(
                f"{self.where}: holds CIFAR in {len(folders)} folders; write {lines} ({name})"
            )
        return layout

    def _described(self) -> str:
        """What it holds, with an example of each."""
        found = []
        for folder in self.cifar_folders():
            found.append(f"the files of CIFAR ({readable(folder) or 'at its root'})")
        for paths, one, many in (
            (self.parquet, "a Parquet file", "Parquet files"),
            (self.archives, "an archive", "archives"),
        ):
            if paths:
                what = one if len(paths) == 1 else f"{len(paths)} {many}"
                found.append(f"{what} (such as {readable(paths[0])})")
        if self.image:
            found.append(f"images (such as {readable(self.image)})")
        return ", ".join(found) or "no images, archives or Parquet files"
