"""The classes that a dataset must have, by number or by name: what is lacking is named.

They change no byte of a dataset, so they are no part of its key.
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass
from pathlib import Path

from imagenet_workloads.errors import InputError, of_field
from imagenet_workloads.prepare.layouts import labels
from imagenet_workloads.prepare.stores.blob import readable

_NAMED = 20


@dataclass(frozen=True)
class ExpectedClasses:
    """What is expected; nothing by default.

    Attributes:
        number: of classes in the dataset.
        names: a file with a class on each line; columns after its name are ignored.
    """

    number: int | None = None
    names: Path | None = None

    def check(self, images: Mapping[str, int], dropped: Mapping[str, int]) -> None:
        """Compares them with what was found.

        Args:
            images: of each class in the dataset.
            dropped: images of each class with too few.

        Raises:
            InputError: they differ; the message names the classes.
        """
        if self.number is not None and self.number != len(images):
            left_out = f"; left out: {_counted(dropped)}" if dropped else ""
            raise InputError(
                f"{self.number} classes are expected, and the dataset has {len(images)}: "
                f"{_counted(images, ' images')}{left_out}; correct --expected-classes "
                "(expectedClasses), or look at the source"
            )
        if self.names is not None:
            with of_field("source.expectedClassNames"):
                _check_names(self.names, images, dropped)


def _check_names(path: Path, images: Mapping[str, int], dropped: Mapping[str, int]) -> None:
    known = images.keys() | dropped.keys()
    expected = dict.fromkeys(_name(text, known) for _, text in labels.lines(path))
    if not expected:
        raise InputError(f"{path}: names no class")
    missing = [
        f"{readable(name)} ({dropped[name]} images: too few)" if name in dropped else readable(name)
        for name in expected
        if name not in images
    ]
    others = [name for name in images if name not in expected]
    found = []
    if missing:
        found.append(f"lacks {_classes(len(missing), 'expected ')}: {_listed(missing)}")
    if others:
        what = f"{_classes(len(others))} that {'is' if len(others) == 1 else 'are'} not expected"
        found.append(f"has {what}: {_listed(others)}")
    if found:
        raise InputError(f"{path}: the dataset {'; it '.join(found)}")


def _name(text: str, known: Container[str]) -> str:
    """The class of a line: its first column, unless only all of it may be one."""
    first = text.split()[0]
    return first if first in known and text not in known else text


def _classes(number: int, kind: str = "") -> str:
    return f"{number} {kind}{'class' if number == 1 else 'classes'}"


def _counted(images: Mapping[str, int], unit: str = "") -> str:
    """Classes with their images; the unit is said once."""
    (first, count), *others = images.items()
    return _listed([f"{first} ({count}{unit})", *(f"{name} ({n})" for name, n in others)])


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
