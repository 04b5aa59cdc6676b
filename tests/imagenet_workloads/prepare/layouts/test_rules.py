"""Rules of layouts that no public data set shows alone: what is said, left out and refused."""

import argparse
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
from support.pictures import collection
from support.preparation import run_index
from support.public_datasets import Files, classes, flat, shard

SPLITS = {**classes("train", ("a", "b")), **classes("val", ("a", "b"))}
FLAT = flat("images/{}.jpg", 4)
TABLE = b"file,label\n0.jpg,c0\n1.jpg,c1\n2.jpg,c0\n3.jpg,c1\n"


def parsed(options: Sequence[str]) -> argparse.Namespace:
    return parser(INDEX).parse_args(["--data", "/data", *options])


def read(
    folder: Path, files: Mapping[str, bytes], *options: str
) -> tuple[Source, dict[str, int], Notes]:
    choice = choices.of(parsed(options))
    source, notes = volume.open_source(write_folder(folder, files), choice=choice), Notes()
    found = Counter(image.class_name for image in source.scan(notes))
    source.require_classes()
    return source, dict(found), notes


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        (classes("x", ("a", "b")), "classFolders: classes are the folders at level 1 below x"),
        (SPLITS, "tree: classes are the folders at level 1 below train; validation: val"),
        (
            {**classes("train", ("a", "b")), **classes("test", ("a", "b"))},
            "tree: classes are the folders at level 1 below train; validation: test (the test "
            "split, as there is no other with labels)",
        ),
        (
            {**SPLITS, **flat("unlabeled/{}.jpg", 9)},
            "tree: classes are the folders at level 1 below train; validation: val; left out: "
            "unlabeled (no labels)",
        ),
        (
            {f"x-{one}-0.tar": shard(one, 0) for one in ("train", "val")},
            "webDataset: 1 shard, labels beside the images; validation: x-val-0.tar",
        ),
        ({**FLAT, "labels.csv": TABLE}, "labels: labels of labels.csv"),
    ],
)
def test_the_decision_is_said_in_a_sentence(files: Files, sentence: str, tmp_path: Path) -> None:
    source, _, _ = read(tmp_path / "source", files)
    assert source.said == sentence


@pytest.mark.parametrize(
    ("files", "options", "left_out"),
    [
        ({**SPLITS, **flat("unlabeled/{}.jpg", 9)}, (), {"no labels": 9}),
        (
            {**SPLITS, **flat("extra/{}.jpg", 9)},
            ("--split-train", "train/**", "--split-validation", "val/**"),
            {"not in splits": 9},
        ),
    ],
)
def test_what_names_leave_out_is_counted_by_its_rule(
    files: Files, options: tuple[str, ...], left_out: dict[str, int], tmp_path: Path
) -> None:
    _, found, notes = read(tmp_path / "source", files, *options)
    assert found == {"a": 3, "b": 3}
    assert {rule: count for rule, (count, _) in notes.left_out.items()} == left_out


@pytest.mark.parametrize(
    ("table", "columns"),
    [
        (TABLE.replace(b",", b";"), ()),
        (TABLE.replace(b",", b"\t"), ()),
        (
            b"note;where;kind\n" + b"".join(b"c9;%d.jpg;c%d\n" % (n, n % 2) for n in range(4)),
            ("--labels-image-column", "where", "--labels-class-column", "kind"),
        ),
    ],
)
def test_a_table_of_labels_has_any_separator_and_columns(
    table: bytes, columns: tuple[str, ...], tmp_path: Path
) -> None:
    files = {**FLAT, "labels.csv": table}
    _, found, _ = read(tmp_path / "source", files, "--labels-csv", "labels.csv", *columns)
    assert found == {"c0": 2, "c1": 2}


def test_the_number_of_a_column_may_also_be_a_label(tmp_path: Path) -> None:
    table = b"0.jpg,2\n1.jpg,1\n2.jpg,2\n3.jpg,1\n"
    columns = ("--labels-csv", "labels.csv", "--labels-class-column", "2")
    _, found, _ = read(tmp_path / "source", {**FLAT, "labels.csv": table}, *columns)
    assert found == {"1": 2, "2": 2}


@pytest.mark.parametrize(
    ("files", "words"),
    [
        (
            {**FLAT, "a.csv": TABLE, "b.csv": TABLE.replace(b"c1", b"d1")},
            ("a.csv and b.csv both label its images", "--labels-csv a.csv"),
        ),
        (
            {
                **classes("flowers", ("a", "b")),
                **{f"flowers/flowers/{one}/{n}.jpg": b"larger" for one in "ab" for n in range(3)},
            },
            ("flowers/flowers", "once more"),
        ),
        (classes("x", ("a",)), ("a network needs two or more classes", "--labels-csv FILE")),
    ],
)
def test_what_has_two_readings_or_one_class_is_refused(
    files: Files, words: tuple[str, ...], tmp_path: Path
) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path / "source", files)
    assert all(word in str(caught.value) for word in words), str(caught.value)


@pytest.mark.parametrize(("name", "is_named"), [("meta.mat", False), ("labels.mat", True)])
def test_a_matlab_file_is_named_unless_it_is_that_of_the_development_kit(
    name: str, is_named: bool, tmp_path: Path
) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path / "source", {**FLAT, name: b"MATLAB 5.0"})
    assert (name in str(caught.value)) == is_named


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--split-validation x", "--split-validation goes with --split-train"),
        ("--split-train a --split-table x --split-ids y", "give either --split-table or"),
        ("--split-table x", "--split-table and --split-ids go together"),
        ("--layout classFolders --labels-csv x", "contradicts --labels-csv"),
        ("--labels-class-column a", "go with --labels-csv"),
        ("--split-train a --split-validation b", None),
    ],
)
def test_options_that_contradict_each_other_are_refused(options: str, words: str | None) -> None:
    found = choices.mistake(parsed(options.split()))
    assert (found is None) == (words is None)
    assert (words or "") in (found or "")


def test_a_layout_that_is_written_changes_the_key_only_if_it_changes_the_images(
    tmp_path: Path,
) -> None:
    images = collection({"a": 6, "b": 6})
    files = {f"{one}/{name}": jpeg for one in images for name, jpeg in images[one].items()}
    source = write_folder(tmp_path / "source", files)
    options = ("--shards", "1", "--min-images-per-class", "1", "--default-validation-per-class=1")
    keys = [
        run_index(source, tmp_path / str(number), *options, *layout)["key"]
        for number, layout in enumerate(
            ((), ("--layout", "classFolders"), ("--labels-pattern", "[ab]_([0-9])"))
        )
    ]
    assert keys[0] == keys[1] != keys[2]
