"""A folder or tar of images with no classes in it, as ILSVRC2012_img_val.tar; `labels` has them."""

from collections.abc import Iterator
from pathlib import Path

from imagenet_workloads.prepare.sources.archive import Archive
from imagenet_workloads.prepare.sources.folder import image_at, names, read_file
from imagenet_workloads.prepare.sources.interface import Image, Notes, is_image
from imagenet_workloads.prepare.sources.tar import Kind, members


class FlatTar:
    """A tar whose images count by their last name, whatever folders they are in."""

    kind = "flat tar"

    def __init__(self, archive: Archive) -> None:
        self.where = str(archive.path)
        self._archive = archive

    def scan(self, notes: Notes) -> Iterator[Image]:
        """Yields the images in the order of the archive."""
        for member in members(self._archive.whole()):
            if not is_image(member.name) or member.kind is Kind.FOLDER:
                notes.ignored += member.kind is not Kind.FOLDER
                continue
            self._archive.require_data(member, self.where)
            notes.share = member.offset / self._archive.size
            yield Image("", member.name, member.offset, member.size, member.mtime)

    def read(self, name: str, offset: int, size: int) -> bytes:
        """The bytes of one image."""
        return self._archive.read(name, offset, size)

    def close(self) -> None:
        """Closes the archive."""
        self._archive.close()


class FlatFolder:
    """A folder with the images directly in it. Holds some of their names while it is scanned."""

    kind = "flat folder"

    def __init__(self, root: Path) -> None:
        self.where = str(root)
        self._root = root

    def scan(self, notes: Notes) -> Iterator[Image]:
        """Yields the images in an order that depends on their names alone."""
        for name in names(self._root):
            image = image_at(self._root, "", name) if is_image(name) else None
            if image is not None:
                yield image
            else:
                notes.ignored += 1

    def read(self, name: str, offset: int, size: int) -> bytes:
        """The bytes of one image."""
        return read_file(self._root, name, size)

    def close(self) -> None:
        """Nothing is held open."""
