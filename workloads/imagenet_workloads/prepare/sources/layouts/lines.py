"""The lines that a refusal asks for: options of the program, and the same in a manifest."""

import json
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice

_PATTERNS = (r"^(\D.*?)[ ._-]*\d+\.", r"^([^\W\d]+)")
_SAMPLE = 2_000_000


def splits(training: Sequence[str], validation: Sequence[str], *, is_sentence: bool = True) -> str:
    """The lines that choose images by their paths."""
    options = [f"--split-train {shlex.quote(_escaped(one))}" for one in training]
    options += [f"--split-validation {shlex.quote(_escaped(one))}" for one in validation]
    fields = {"train": [*map(_escaped, training)], "validation": [*map(_escaped, validation)]}
    shown = json.dumps({name: {"globs": globs} for name, globs in fields.items() if globs})
    text = f"{' '.join(options)} (source.splits: {shown})"
    return f"write {text}" if is_sentence else text


def count(number: int, one: str, many: str = "") -> str:
    """A number of things.

    >>> count(1, "shard"), count(2, "shard"), count(0, "class", "classes")
    ('1 shard', '2 shards', '0 classes')
    """
    return f"{number} {one if number == 1 else many or f'{one}s'}"


def pattern(paths: Iterable[str]) -> str:
    """The lines for classes in the names of images, such as cat.1.jpg; empty if there are none."""
    names = [path.rpartition("/")[2] for path in islice(paths, _SAMPLE)]
    for expression in _PATTERNS:
        found = [re.search(expression, name) for name in names]
        labels = Counter(match[1] for match in found if match)
        if 2 <= len(labels) <= len(names) // 2 and labels.total() >= 0.5 * len(names):
            return (
                f"--labels-pattern {shlex.quote(expression)} "
                f"(source.labels: {{pattern: {json.dumps(expression)}}})"
            )
    return ""


def _escaped(glob: str) -> str:
    """A path with the brackets that a pattern would read as a set, as in Corn_[maize]."""
    return glob.replace("[", "[[]")
