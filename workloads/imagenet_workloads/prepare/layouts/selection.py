"""The splits that the user chose: patterns of paths, or files in the source that list images."""

import re
from collections.abc import Mapping, Sequence
from typing import Self

from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare.entry_names import TRAINING, VALIDATION
from imagenet_workloads.prepare.layouts import tables
from imagenet_workloads.prepare.layouts.choice import Choice, SplitChoice
from imagenet_workloads.prepare.layouts.survey import Survey
from imagenet_workloads.prepare.stores.blob import LabelFile, readable


class Selection:
    """Which split the user put an image in."""

    def __init__(
        self,
        where: str,
        patterns: Mapping[str, Sequence[re.Pattern[str]]],
        names: Mapping[str, Sequence[tables.Names]],
    ) -> None:
        self._where = where
        self._patterns = patterns
        self._names = names

    @classmethod
    def of(cls, choice: Choice, survey: Survey) -> Self:
        """Reads the files of a choice.

        Raises:
            InputError: a file is missing, or cannot be read.
        """
        if choice.split_table:
            return cls(survey.where, {}, _by_table(choice, survey))
        chosen: Mapping[str, SplitChoice] = {TRAINING: choice.training}
        if choice.validation:
            chosen = {**chosen, VALIDATION: choice.validation}
        return cls(
            survey.where,
            {name: [re.compile(_expression(one)) for one in s.globs] for name, s in chosen.items()},
            {
                name: [tables.Names(tables.lines(_file(survey, path))) for path in one.lists]
                for name, one in chosen.items()
            },
        )

    def split_of(self, path: str) -> str:
        """TRAINING or VALIDATION; empty for an image that is in none.

        Raises:
            InputError: it is in both.
        """
        found = [
            split
            for split in (TRAINING, VALIDATION)
            if any(one.fullmatch(path) for one in self._patterns.get(split, ()))
            or any(path in one for one in self._names.get(split, ()))
        ]
        if len(found) > 1:
            raise InputError(
                f"{self._where}: {readable(path)} is in both splits; correct --split-train and "
                "--split-validation (source.splits)"
            )
        return found[0] if found else ""

    def surveys(self, survey: Survey) -> Mapping[str, Survey]:
        """The images of each split as a survey.

        Raises:
            InputError: a split has no images, or an image is in both.
        """
        names = dict.fromkeys((*self._patterns, *self._names))
        found = {
            split: Survey(
                survey.where,
                survey.file,
                # Bound now: each survey has the images of its split.
                lambda split=split: (  # type: ignore[misc]
                    one for one in survey.images() if self.split_of(one[0]) == split
                ),
            )
            for split in names
        }
        for path, size, label in survey.images():
            split = self.split_of(path)
            if split:
                found[split].add_image(path, size, label)
        survey.mark_archives(found.values())
        empty = next((split for split in found if not found[split].root.total), None)
        if empty is not None:
            option = "--split-train" if empty == TRAINING else "--split-validation"
            example = survey.root.any_example() if survey.root.total else "none"
            raise InputError(
                f"{survey.where}: no image is in the {empty} split of {option} (source.splits); "
                f"a path is such as {readable(example)}"
            )
        return found


def _expression(glob: str) -> str:
    """A pattern as a regular expression: as fnmatch, and `**/` may be no folder at all."""
    found, place = "", 0
    while place < len(glob):
        if glob.startswith("**/", place) and (place == 0 or glob[place - 1] == "/"):
            found, place = found + "(?:.*/)?", place + 3
            continue
        character = glob[place]
        end = glob.find("]", place + 2) if character == "[" else -1
        if character == "*":
            found += ".*"
        elif character == "?":
            found += "."
        elif end > 0:
            inside = glob[place + 1 : end].replace("\\", "\\\\")
            inside = f"^{inside[1:]}" if inside.startswith("!") else inside.replace("^", "\\^")
            found, place = f"{found}[{inside.replace('[', chr(92) + '[')}]", end
        else:
            found += re.escape(character)
        place += 1
    return f"(?s:{found})"


def _by_table(choice: Choice, survey: Survey) -> Mapping[str, Sequence[tables.Names]]:
    """The images of both splits: a number has a path in one file, and 1 or 0 in another."""
    ids = _file(survey, choice.split_ids)
    paths = dict(_pair(line, ids) for line in tables.lines(ids))
    table = _file(survey, choice.split_table)
    chosen: dict[str, list[str]] = {TRAINING: [], VALIDATION: []}
    for line in tables.lines(table):
        number, value = _pair(line, table)
        if number not in paths or value not in ("0", "1"):
            what = f"{choice.split_ids} has no {number}" if value in ("0", "1") else "is not 1 or 0"
            raise InputError(f"{table}: the line {readable(line)}: {what}")
        chosen[TRAINING if value == "1" else VALIDATION].append(paths[number])
    return {split: (tables.Names(names),) for split, names in chosen.items()}


def _pair(line: str, file: LabelFile) -> tuple[str, str]:
    number, _, rest = line.replace(",", " ").replace("\t", " ").partition(" ")
    if not rest.strip():
        raise InputError(f"{file}: the line {readable(line)} is not NUMBER and a value")
    return number, rest.strip()


def _file(survey: Survey, path: str) -> LabelFile:
    """A file of the source; above it, if the folders over the images are left out of the path.

    Raises:
        InputError: there is none.
    """
    return survey.require_file(path, "source.splits")
