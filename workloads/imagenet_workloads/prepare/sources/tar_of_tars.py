"""A tar that holds one tar a class, as fall11_whole.tar and ILSVRC2012_img_train.tar."""

from collections.abc import Iterator

from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare.sources.archive import Archive
from imagenet_workloads.prepare.sources.interface import Image, Notes, class_name_in, is_image
from imagenet_workloads.prepare.sources.tar import Kind, Member, members


class TarOfTars:
    """The inner archive's name without `.tar` is the class."""

    kind = "tar of tars"

    def __init__(self, archive: Archive) -> None:
        self.where = str(archive.path)
        self._archive = archive

    def scan(self, notes: Notes) -> Iterator[Image]:
        """Yields the images of each inner tar, in the order of the archive."""
        seen: set[str] = set()
        for outer in members(self._archive.whole()):
            base = outer.name.rpartition("/")[2]
            if base.startswith(".") or not base.endswith(".tar") or outer.kind is Kind.FOLDER:
                notes.ignored += outer.kind is not Kind.FOLDER
                continue
            self._archive.require_data(outer, self.where)
            class_name = class_name_in(base.removesuffix(".tar"), self.where)
            if class_name in seen:
                raise InputError(
                    f"{self.where}: holds two archives called {base}; a class must be in one"
                )
            seen.add(class_name)
            notes.share = outer.offset / self._archive.size
            yield from self._scan_class(class_name, outer, notes)

    def _scan_class(self, class_name: str, outer: Member, notes: Notes) -> Iterator[Image]:
        images = 0
        region = self._archive.inner(outer)
        # A class that was never downloaded can be a tar of 0 bytes.
        for member in members(region) if outer.size else ():
            if not is_image(member.name) or member.kind is Kind.FOLDER:
                notes.ignored += member.kind is not Kind.FOLDER
                continue
            self._archive.require_data(member, region.where)
            images += 1
            name = f"{outer.name}/{member.name}"
            yield Image(class_name, name, member.offset, member.size, member.mtime)
        if images == 0:
            notes.empty.append(class_name)

    def read(self, name: str, offset: int, size: int) -> bytes:
        """The bytes of one image."""
        return self._archive.read(name, offset, size)

    def close(self) -> None:
        """Closes the archive."""
        self._archive.close()
