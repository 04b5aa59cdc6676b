"""A plain tar of class folders: the folder that directly holds an image is its class."""

from collections.abc import Iterator

from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare.sources.archive import Archive
from imagenet_workloads.prepare.sources.interface import Image, Notes, class_name_in, is_image
from imagenet_workloads.prepare.sources.tar import Kind, members


class TarOfFolders:
    """Folders above the class folders, such as the one that was archived, do not matter."""

    kind = "tar of folders"

    def __init__(self, archive: Archive) -> None:
        self.where = str(archive.path)
        self._archive = archive

    def scan(self, notes: Notes) -> Iterator[Image]:
        """Yields the images in the order of the archive."""
        folders: dict[str, str] = {}
        for member in members(self._archive.whole()):
            if not is_image(member.name) or member.kind is Kind.FOLDER or "/" not in member.name:
                notes.ignored += member.kind is not Kind.FOLDER
                continue
            self._archive.require_data(member, self.where)
            class_name = self._class_of(member.name, folders)
            notes.share = member.offset / self._archive.size
            yield Image(class_name, member.name, member.offset, member.size, member.mtime)

    def _class_of(self, name: str, folders: dict[str, str]) -> str:
        folder = name.rpartition("/")[0]
        class_name = folder.rpartition("/")[2]
        if folders.get(class_name) != folder:
            # Such as train/n01440764 and val/n01440764: merging them would be silent damage.
            if class_name in folders:
                raise InputError(
                    f"{self.where}: holds two folders called {class_name}, "
                    f"{folders[class_name]} and {folder}; make an archive of the training one alone"
                )
            folders[class_name_in(class_name, self.where)] = folder
        return class_name

    def read(self, name: str, offset: int, size: int) -> bytes:
        """The bytes of one image."""
        return self._archive.read(name, offset, size)

    def close(self) -> None:
        """Closes the archive."""
        self._archive.close()
