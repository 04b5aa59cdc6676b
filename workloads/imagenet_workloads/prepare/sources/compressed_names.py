"""Names of compressed tars, such as n1.tar.gz. A dataset has the name of the tar in it: n1.tar."""

from collections.abc import Iterable, Iterator

from imagenet_workloads.errors import InputError

_SHORT = {".gz": ".tgz", ".bz2": ".tbz2", ".xz": ".txz", ".zst": ".tzst"}
SUFFIXES = (*(f".tar{one}" for one in _SHORT), *_SHORT.values())

# Of image-net.org: the development kit and the bounding boxes.
_NO_IMAGES = ("ILSVRC2012_devkit", "ILSVRC2012_bbox")


def is_compressed_tar(name: str) -> bool:
    """Whether a file is named like the compressed archive of a class."""
    return name.endswith(SUFFIXES) and not name.startswith((*_NO_IMAGES, "."))


def plain(name: str) -> str:
    """The name of the tar in a compressed one; other names as they are.

    >>> plain("n1.tar.gz"), plain("n1.tgz"), plain("n1.zip")
    ('n1.tar', 'n1.tar', 'n1.zip')
    """
    suffix = next((one for one in SUFFIXES if is_compressed_tar(name) and name.endswith(one)), None)
    return name if suffix is None else f"{name.removesuffix(suffix)}.tar"


def forms(name: str) -> Iterator[str]:
    """Yields the names that a file may have: its own, and for a tar those of compressed ones."""
    yield name
    if name.endswith(".tar"):
        yield from (name.removesuffix(".tar") + suffix for suffix in SUFFIXES)


def by_plain_name(names: Iterable[str], where: str) -> dict[str, str]:
    """The names of files by those that a dataset has.

    Raises:
        InputError: two archives have one name.
    """
    found: dict[str, str] = {}
    for name in names:
        other = found.setdefault(plain(name), name)
        if other != name:
            raise InputError(f"{where}: has both {other} and {name}; delete one of them")
    return found
