"""A dataset from the records of a sealed one: smaller images, and all else as it was."""

import itertools
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from imagenet_workloads.commands import index, pack
from imagenet_workloads.dataset import Dataset, read_dataset
from imagenet_workloads.records.split import Records, open_split
from support.annotations import Named, annotation, archive
from support.pictures import collection, decode, write_folder, write_tar_of_tars
from support.preparation import (
    contents,
    dataset_of,
    examples,
    killed_at,
    prepare,
    refused,
    run_index,
    visible,
)
from support.sentences import assert_says

FORMATS = ("RecordIO", "TFRecord")
IMAGES = collection({"a": 12, "b": 9, "c": 4})
RAW = ("--shards", "3", "--resize", "32", "--validation-per-class", "2", "--class-word", "b=bee")


def sealed(folder: Path, format: str = "RecordIO", *options: str) -> Path:
    """A sealed dataset of 19 + 6 images in three classes, 32 pixels high."""
    folder.mkdir(parents=True, exist_ok=True)
    source = write_tar_of_tars(folder / "x.tar", IMAGES)
    return prepare(source, folder / "raw", *RAW, "--format", format, *options)


def resized(source: Path, data: Path, *options: str) -> Path:
    return prepare(None, data, "--prepared", str(source), "--shards", "2", *options)


def opened(folder: Path) -> Sequence[Records]:
    dataset = read_dataset(folder)
    return [open_split(one, dataset.format, folder) for one in (dataset.train, dataset.validation)]


def labels(records: Records) -> list[int]:
    return [records.label(number) for number in range(records.count)]


def heights(records: Records) -> set[int]:
    read = (records.read(range(number, number + 1))[0] for number in range(records.count))
    return {
        decode(records.parse(number, content).encoded).shape[0]
        for number, content in enumerate(read)
    }


@pytest.mark.parametrize(("before", "after"), [*itertools.product(FORMATS, FORMATS)])
def test_images_are_smaller_and_the_rest_is_the_same(
    before: str, after: str, tmp_path: Path
) -> None:
    source = sealed(tmp_path, before)
    # Neither a rare class nor a default split of the operator changes what is sealed.
    small = resized(
        source, tmp_path / "small",
        *("--resize", "16", "--format", after, "--min-images-per-class", "500"),
        *("--default-validation-per-class", "50", "--seed", "3"),
    )  # fmt: skip
    old, new = read_dataset(source), read_dataset(small)
    assert (new.classes, new.class_words) == (old.classes, {"b": "bee"})
    assert (new.train.per_class, new.validation.per_class) == ((10, 7, 2), (2, 2, 2))
    assert (len(new.train.shards), new.format) == (2, after)
    assert new.key != old.key
    for was, now in zip(opened(source), opened(small), strict=True):
        assert labels(now) == labels(was), "in the same order"
        assert (heights(was), heights(now)) == ({32}, {16})


def test_the_preparations_before_are_known(tmp_path: Path) -> None:
    source = sealed(tmp_path)
    first = read_dataset(source).packings
    copied = resized(source, tmp_path / "copied", "--quality", "80")
    small = resized(copied, tmp_path / "small", "--resize", "16")
    assert [
        [one.resize for one in read_dataset(dataset).packings or ()]
        for dataset in (source, copied, small)
    ] == [[32], [32, None], [32, None, 16]]
    assert (read_dataset(small).packings or ())[:1] == first
    arguments = ["--prepared", str(copied), "--data", str(tmp_path / "x"), "--resize", "33"]
    assert index.main(arguments) == 3, "the images of the first dataset have 32 pixels"


def test_a_dataset_of_one_that_does_not_know_its_size_does_not_either(tmp_path: Path) -> None:
    source = sealed(tmp_path)
    document = json.loads((source / "dataset.json").read_text())
    (source / "dataset.json").write_text(json.dumps(document | {"options": {}}))
    assert read_dataset(resized(source, tmp_path / "copied")).packings is None


def test_a_dataset_without_validation_images_gets_none(tmp_path: Path) -> None:
    source = prepare(
        write_tar_of_tars(tmp_path / "x.tar", IMAGES), tmp_path / "raw", "--shards", "1"
    )
    small = resized(source, tmp_path / "small", "--default-validation-per-class", "2")
    assert read_dataset(small).validation.images == 0
    assert read_dataset(small).train.images == 25


def test_the_key_is_of_the_old_key_and_of_what_changes_bytes(tmp_path: Path) -> None:
    source = sealed(tmp_path)
    copy = tmp_path / "elsewhere" / "copy"
    copy.mkdir(parents=True)
    for name, content in contents(source).items():
        if "/" not in name:
            (copy / name).write_bytes(content)

    def key(folder: Path, *options: str) -> str:
        data = tmp_path / "data"
        found: str = run_index(None, data, "--prepared", str(folder), *options)["key"]
        return found

    first = key(source, "--resize", "16")
    assert key(copy, "--resize", "16", "--seed", "9", "--min-images-per-class", "7") == first
    others = {key(source, "--resize", "8"), key(source, "--resize", "16", "--quality", "70")}
    other = sealed(tmp_path / "other", "RecordIO", "--quality", "50")
    assert len({first, *others, key(other, "--resize", "16")}) == 4


def boxes_of(folder: Path) -> list[list[object]]:
    """The boxes of the images that have any, in the order of the records."""
    lines = (folder / "boxes.jsonl").read_text().splitlines()
    return [json.loads(line)["boxes"] for line in lines]


@pytest.mark.parametrize(("before", "after"), [FORMATS, FORMATS[::-1]])
def test_boxes_and_damaged_images(before: str, after: str, tmp_path: Path) -> None:
    """Keys of the sealed dataset have gaps where images were damaged."""
    damaged = {name: {**images, "!.jpg": b"nothing"} for name, images in IMAGES.items()}
    annotations = {
        f"{name}/{file.rpartition('.')[0]}.xml": annotation(Named(name, (0, 0, 8, number + 1)))
        for name, images in IMAGES.items()
        for number, file in enumerate(images)
        if number % 2
    }
    (tmp_path / "boxes.tar.gz").write_bytes(archive(annotations))
    boxes = f"--bounding-boxes={tmp_path / 'boxes.tar.gz'}"
    source = prepare(
        write_folder(tmp_path / "source", damaged), tmp_path / "raw",
        *(*RAW, boxes, "--format", before, "--max-skipped-fraction", "1"),
    )  # fmt: skip
    small = resized(source, tmp_path / "small", "--resize", "16", "--format", after)
    old, new = read_dataset(source), read_dataset(small)
    assert old.skipped.count == 3
    assert old.bounding_boxes is not None and new.bounding_boxes is not None
    assert new.bounding_boxes.counts == old.bounding_boxes.counts
    assert boxes_of(small) == boxes_of(source)
    if after == "TFRecord":
        expected = [one for split in opened(source) for one in labels(split)]
        found = [features["image/class/label"][0] for _, features in examples(small)]
        assert found == [label + 1 for label in expected]
        count = sum("image/object/bbox/xmin" in features for _, features in examples(small))
        assert count == old.bounding_boxes.counts["images"]


def test_images_cannot_grow(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    source = sealed(tmp_path)
    arguments = ("--data", tmp_path / "data", "--prepared", source)
    error = refused(capfd, *arguments, "--resize", "33")
    assert_says(error, "--resize (preprocessing.resize): 33 pixels")
    assert_says(error, f"more than the 32 of {source}")
    assert_says(error, "cannot grow", "write at most 32", "prepare the raw images")
    assert run_index(None, tmp_path / "data", "--prepared", str(source), "--resize", "32")


def test_what_is_not_sealed_is_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    error = refused(capfd, "--data", tmp_path / "data", "--prepared", tmp_path)
    assert "is not a prepared dataset" in error


@pytest.mark.parametrize("option", ["--validation-per-class=2", "--bounding-boxes=x.tar"])
def test_what_the_dataset_has_itself_is_no_option(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        index.main(["--data", str(tmp_path), "--prepared", str(tmp_path), option])
    assert f"{option.partition('=')[0]} does not go with --prepared" in capsys.readouterr().err


@pytest.mark.parametrize("how", ["another", "none", "damaged"])
def test_pack_needs_the_records_of_the_plan(
    how: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source = sealed(tmp_path)
    data = tmp_path / "data"
    key = run_index(None, data, "--prepared", str(source), "--resize", "16")["key"]
    arguments = ["--data", str(data), "--key", key]
    if how == "another":
        other = sealed(tmp_path / "other", "RecordIO", "--quality", "50")
        arguments += ["--prepared", str(other)]
    elif how == "damaged":
        record = next(source.glob("train-*.rec"))
        record.write_bytes(bytes(len(record.read_bytes())))
        arguments += ["--prepared", str(source)]
    assert pack.main(arguments) == 3
    error = capfd.readouterr().err
    expected = {
        "another": "the source has changed since it was indexed",
        "none": "--prepared (source.prepared) is missing: the plan needs a sealed dataset",
        "damaged": "a record does not begin with the magic number: the shard is damaged",
    }
    assert expected[how] in error


@pytest.mark.costly
def test_a_kill_at_any_moment_leaves_the_same_bytes(tmp_path: Path) -> None:
    source = sealed(tmp_path)
    options = ("--prepared", source, "--shards", "2", "--resize", "16")
    expected = contents(resized(source, tmp_path / "expected", "--resize", "16"))
    data = tmp_path / "data"
    key = run_index(None, tmp_path / "expected", *map(str, options))["key"]
    common = ("--data", data, "--key", key)
    steps: list[tuple[str, tuple[str | Path, ...]]] = [
        ("index", ("--data", data, *options)),
        ("pack", (*common, "--prepared", source, "--threads", "2")),
        ("seal", common),
    ]
    for program, arguments in steps:
        n = 1
        while killed_at(n, program, *arguments):
            for name, content in visible(dataset_of(data, key)).items():
                assert content == expected[name], f"{program} killed at {n}: {name} is not whole"
            n += 5
    assert contents(dataset_of(data, key)) == expected


def test_a_sealed_dataset_stays_as_it_is(tmp_path: Path) -> None:
    source = sealed(tmp_path)
    before = contents(source)
    resized(source, tmp_path / "raw", "--resize", "16")
    assert contents(source) == before
    sizes = [sum(shard.bytes for shard in dataset.train.shards) for dataset in every(tmp_path)]
    assert len(sizes) == 2 and min(sizes) < max(sizes)


def every(folder: Path) -> list[Dataset]:
    return [read_dataset(one) for one in sorted((folder / "raw" / "datasets").iterdir())]
