"""Miniatures of public data sets are read as their authors mean it, or refused with the lines."""

import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from imagenet_spec.program.option import parser
from imagenet_spec.program.programs import INDEX
from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare.layouts import choice as choices
from imagenet_workloads.prepare.source import Notes, Source
from imagenet_workloads.prepare.sources import volume
from support.image_trees import write_folder
from support.pictures import tar, zipped
from support.public_datasets import ARCHIVES, MINIATURES, OF_FILES, Miniature

OPTION = r"--(?:split|class|labels|layout)[a-z-]* (?:'[^']*'|[^\s;,)]+)"


def write(kind: str, path: Path, files: Mapping[str, bytes]) -> Path:
    if kind == "folder":
        return write_folder(path, files)
    path.write_bytes({"tar": tar, "zip": zipped}[kind](dict(files)))
    return path


def choice_of(options: Sequence[str]) -> choices.Choice:
    parsed = parser(INDEX).parse_args(["--data", "/data", *options])
    assert choices.mistake(parsed) is None
    return choices.of(parsed)


def read(path: Path, options: Sequence[str]) -> tuple[Source, Counter[str], Notes]:
    source = volume.open_source(path, choice=choice_of(options))
    notes = Notes()
    found = Counter(image.class_name for image in source.scan(notes))
    source.require_classes()
    return source, found, notes


def lines_of(message: str) -> list[str]:
    """The first lines that a refusal asks for."""
    match = re.search(f"(?:{OPTION} ?)+", message)
    assert match is not None, message
    return shlex.split(match[0])


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (kind, name)
        for name in MINIATURES | OF_FILES | ARCHIVES
        for kind in ("folder", "tar", "zip")
    ],
)
def test_a_public_dataset_is_read_or_refused_with_the_lines(
    kind: str, name: str, tmp_path: Path
) -> None:
    one: Miniature = (MINIATURES | OF_FILES | ARCHIVES)[name]
    path = write(kind, tmp_path / "source", one.files)
    lines: Sequence[str] = one.lines
    left_out = one.left_out if kind == "folder" or not one.listed else one.listed
    if one.refused:
        with pytest.raises(InputError) as caught:
            read(path, ())
        assert one.refused in str(caught.value)
        lines = lines or lines_of(str(caught.value))
    if one.more:
        path = write(kind, tmp_path / "with-more", {**one.files, **one.more})
    source, found, notes = read(path, lines)
    assert found == Counter(one.train)
    validation = source.own_validation() if source.own_validation else None
    if isinstance(one.validation, int):
        images = [] if validation is None else [*validation.source.scan(Notes())]
        assert len(images) == one.validation
    else:
        assert validation is not None
        assert Counter(i.class_name for i in validation.source.scan(Notes())) == one.validation
    if not one.refused:
        assert {rule: count for rule, (count, _) in notes.left_out.items()} == left_out
    assert bool(source.warnings) == bool(one.warns)
    assert one.warns in "".join(source.warnings)


def test_the_decision_does_not_depend_on_the_container(tmp_path: Path) -> None:
    for name, one in MINIATURES.items():
        if not one.refused and not one.lines:
            paths = {
                kind: write(kind, tmp_path / f"{kind}-{name}", one.files)
                for kind in ("folder", "tar", "zip")
            }
            said = {read(path, ())[0].said.split("labels of")[0] for path in paths.values()}
            assert len(said) == 1, name
