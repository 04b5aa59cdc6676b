"""docs/dataset.md lists all files of a prepared dataset's folder."""

import json
import re
from pathlib import Path

import pytest

from imagenet_spec.names import FORMATS
from imagenet_workloads.commands import index, pack, seal
from support.annotations import Named, annotation, archive
from support.pictures import collection, write_folder
from support.planted_copies import jpeg, picture
from support.preparation import examples, prepare

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "dataset.md").read_text()


def names_in_table(heading: str) -> set[str]:
    """The names in backquotes in the first column of the table with this head."""
    lines = PAGE[PAGE.index(f"\n| {heading} |") + 1 :].splitlines()[2:]
    rows = lines[: next((at for at, line in enumerate(lines) if line[:1] != "|"), len(lines))]
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row.split("|")[1])}


def general(name: str) -> str:
    """A file's name as the page writes it."""
    name = re.sub(r"^val-.*", "val-…", name)
    return re.sub(r"\d{5}-of-\d{5}", "00000-of-00008", name)


def boxes_of_a(folder: Path) -> str:
    """The option for an archive with a box in the first two images of the class a."""
    box = annotation(Named("a", (1, 2, 3, 4)))
    (folder / "boxes.tgz").write_bytes(archive({"a/a_0.xml": box, "a/a_1.xml": box}))
    return f"--bounding-boxes={folder / 'boxes.tgz'}"


@pytest.fixture(params=FORMATS)
def dataset(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    images = collection({"a": 40, "b": 40})
    images["a"]["damaged.jpg"] = b"no image"
    images["a"]["same.jpg"] = images["b"]["same.jpg"] = jpeg(picture(1))
    source = write_folder(tmp_path / "source", images)
    options = (
        "--format",
        request.param,
        "--shards",
        "2",
        "--validation-per-class",
        "3",
        boxes_of_a(tmp_path),
    )
    return prepare(source, tmp_path / "data", *options, "--max-skipped-fraction", "0.1")


def test_the_files_are_those_of_the_page(dataset: Path) -> None:
    listed = names_in_table("File")
    shard = "train-00000-of-00008"
    suffixes = {"RecordIO": {".rec", ".idx"}, "TFRecord": {".tfrecord", ".idx"}}
    ours = suffixes.pop(json.loads((dataset / "dataset.json").read_text())["format"])
    (others,) = suffixes.values()
    expected = {name.rstrip("/") for name in listed - {".idx"}}
    expected -= {shard + suffix for suffix in others - ours}
    expected |= {shard + suffix for suffix in ours}
    assert {general(path.name) for path in dataset.iterdir()} == expected


def test_the_fields_of_dataset_json_are_those_of_the_page(dataset: Path) -> None:
    document = json.loads((dataset / "dataset.json").read_text())
    assert set(document) == names_in_table("Field")
    told = set(re.findall(r"`([^`]+)`", PAGE))
    assert set(document["boundingBoxes"]["counts"]) <= told
    assert document["checks"]["report"] == "duplicates.jsonl"
    for field in ("writer", "skipped", "decision", "boundingBoxes"):
        assert set(document[field]) <= told
    for split in document["splits"].values():
        assert set(split) <= told
        for shard in split["shards"]:
            assert set(shard) <= told
            assert "index" in shard


def test_the_features_of_tfrecord_are_those_of_the_page(tmp_path: Path) -> None:
    source = write_folder(tmp_path / "source", collection({"a": 2, "b": 2}))
    options = ("--format", "TFRecord", "--shards", "1", boxes_of_a(tmp_path))
    dataset = prepare(source, tmp_path / "data", *options)
    rows = re.findall(r"\| `(image/[a-z/]+)` \| (bytes|integer|float)", PAGE)
    types = {"bytes": bytes, "integer": int, "float": float}
    kinds: dict[str, type] = {}
    for _, features in examples(dataset):
        kinds |= {name: type(value[0]) for name, value in features.items()}
    assert kinds == {name: types[kind] for name, kind in rows}


def test_the_commands_parse() -> None:
    programs = {f"imagenet-{module.__name__.rpartition('.')[2]}": module for module in (
        index, pack, seal
    )}  # fmt: skip
    commands = re.findall(r"^(imagenet-\w+) (.*)$", PAGE, re.MULTILINE)
    assert {name for name, _ in commands} == set(programs)
    for name, arguments in commands:
        programs[name].build_parser().parse_args(arguments.replace("KEY", "0" * 32).split())
