"""Names of many files as WebDataset writes them: `imagenet-train-{0000..1023}.tar`."""

import re
from collections.abc import Iterable

MOST = 100_000

_RANGE = re.compile(r"([^{}]*)\{(\d{1,9})\.\.(\d{1,9})\}([^{}]*)")


def expanded(names: Iterable[str]) -> list[str] | None:
    """All names, sorted; None if one has a wrong range or comes twice, or if they are too many.

    Args:
        names: each with one range of numbers at most, of as many digits as its first number has.
    """
    found: list[str] = []
    for name in names:
        match = _RANGE.fullmatch(name)
        if match is None:
            if {"{", "}"} & set(name):
                return None
            found.append(name)
            continue
        start, first, last, end = match.groups()
        count = int(last) - int(first) + 1
        if not 0 < count <= MOST - len(found):
            return None
        width = len(first)
        found += [f"{start}{int(first) + one:0{width}}{end}" for one in range(count)]
    return sorted(found) if len(set(found)) == len(found) <= MOST else None
