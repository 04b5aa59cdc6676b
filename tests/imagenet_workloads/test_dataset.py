import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from imagenet_workloads.dataset import (
    FILE_NAME,
    Dataset,
    Shard,
    Skipped,
    Split,
    WriterVersion,
    read_dataset,
)
from imagenet_workloads.errors import InputError

DIGITS = Dataset(
    key="0f" * 16,
    writer=WriterVersion(version="1", codec="opencv"),
    options={"resize": 480, "quality": 90, "codec": "auto"},
    classes=("n01440764", "n01443537"),
    dropped_classes={"n02000000": 12},
    train=Split(
        images=5,
        per_class=(3, 2),
        shards=(
            Shard("train-00000-of-00002.rec", "train-00000-of-00002.idx", 3, 640, "aa" * 32),
            Shard("train-00001-of-00002.rec", "train-00001-of-00002.idx", 2, 480, "bb" * 32),
        ),
    ),
    validation=Split(images=0, shards=()),
    mean=(123.68, 116.779, 103.939),
    std=(58.4, 57.1, 57.4),
    skipped=Skipped(count=1, report="skipped.jsonl"),
)


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text(DIGITS.to_json())
    assert read_dataset(tmp_path) == DIGITS


def test_the_file_has_the_documented_shape() -> None:
    document = json.loads(DIGITS.to_json())
    assert document["version"] == 1
    assert document["classes"] == ["n01440764", "n01443537"]
    assert document["droppedClasses"] == {"n02000000": 12}
    assert document["splits"]["train"]["perClass"] == [3, 2]
    assert document["splits"]["train"]["shards"][1] == {
        "record": "train-00001-of-00002.rec",
        "index": "train-00001-of-00002.idx",
        "records": 2,
        "bytes": 480,
        "sha256": "bb" * 32,
    }
    assert document["splits"]["validation"] == {"images": 0, "shards": []}
    assert document["skipped"] == {"count": 1, "report": "skipped.jsonl"}


def test_tfrecord_may_have_no_index() -> None:
    dataset = dataclasses.replace(DIGITS, format="TFRecord")
    assert Dataset.from_json(dataset.to_json()) == dataset
    older = dataset.without_additions()
    document = json.loads(older.to_json())
    assert all("index" not in shard for shard in document["splits"]["train"]["shards"])
    assert Dataset.from_json(older.to_json()) == older != dataset
    assert dataset.train.shards[0].index is not None


def test_equal_datasets_give_equal_bytes_whatever_the_order_of_their_options() -> None:
    options = dict(reversed(list(DIGITS.options.items())))
    turned = dataclasses.replace(DIGITS, options=options)
    assert turned.to_json() == DIGITS.to_json()


names = st.text(st.characters(codec="utf-8"), max_size=12)
floats = st.floats(0, 255)


@settings(deadline=None)
@given(
    classes=st.lists(names, unique=True, max_size=5),
    dropped=st.dictionaries(names, st.integers(0, 10**9), max_size=3),
    records=st.lists(st.integers(0, 10**7), max_size=4),
    mean=st.tuples(floats, floats, floats),
)
def test_any_dataset_survives_the_round_trip(
    classes: list[str],
    dropped: dict[str, int],
    records: list[int],
    mean: tuple[float, float, float],
) -> None:
    shards = tuple(
        Shard(f"train-{number}.rec", f"train-{number}.idx", count, count * 100, "cc" * 32)
        for number, count in enumerate(records)
    )
    dataset = Dataset(
        key="k",
        writer=WriterVersion("1", "planes"),
        options={},
        classes=tuple(classes),
        dropped_classes=dropped,
        train=Split(images=sum(records), shards=shards),
        validation=Split(images=0, shards=()),
        mean=mean,
        std=(1.0, 1.0, 1.0),
    )
    assert Dataset.from_json(dataset.to_json()) == dataset


def test_a_folder_that_is_not_sealed_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"holds no dataset\.json, which is written last"):
        read_dataset(tmp_path)


def without(*path: str | int) -> Callable[[Any], None]:
    def change(document: Any) -> None:
        for name in path[:-1]:
            document = document[name]
        del document[path[-1]]

    return change


def with_value(value: Any, *path: str | int) -> Callable[[Any], None]:
    def change(document: Any) -> None:
        for name in path[:-1]:
            document = document[name]
        document[path[-1]] = value

    return change


SHARD = ("splits", "train", "shards", 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (with_value(2, "version"), "version is 2, and this program reads 1"),
        (without("version"), "version is missing"),
        (without("key"), "key is missing"),
        (without("format"), "format is missing"),
        (
            with_value("recordio", "format"),
            "format is 'recordio', and this program reads RecordIO and TFRecord",
        ),
        (without(*SHARD, "index"), "shards[1].index is missing"),
        (with_value(7, "key"), "key must be a string, not a number"),
        (with_value("n1", "classes"), "classes must be a list, not a string"),
        (with_value(["n1", 2], "classes"), "classes[1] must be a string, not a number"),
        (with_value(["n1", "n1"], "classes"), "classes names a class twice"),
        (with_value(None, "writer"), "writer must be an object, not null"),
        (without("writer", "codec"), "writer.codec is missing"),
        (with_value([1, 2], "mean"), "mean must be three numbers"),
        (with_value([1, 2, True], "std"), "std must be three numbers"),
        (with_value([1, 2, float("nan")], "mean"), "mean must be three numbers"),
        (with_value([1, 2, 10**400], "mean"), "mean must be three numbers"),
        (with_value([1, 2, -1], "std"), "std must be at least 0 for each colour, not -1"),
        (with_value({"n1": -3}, "droppedClasses"), "droppedClasses.n1 must be a whole number"),
        (with_value(True, "skipped", "count"), "skipped.count must be a whole number"),
        (with_value([4], "splits", "train", "shards"), "train.shards[0] must be an object"),
        (with_value(4, "splits", "train", "images"), "train.images is 4, but its shards hold 5"),
        (with_value([5, -1], "splits", "train", "perClass"), "train.perClass[1] must be a count"),
        (with_value([5], "splits", "train", "perClass"), "train.perClass must hold one count"),
        (with_value("../x.rec", *SHARD, "record"), "shards[1].record must be the name of a file"),
        (with_value("", *SHARD, "index"), "shards[1].index must be the name of a file"),
        (without("splits", "validation"), "splits.validation is missing"),
    ],
)
def test_a_wrong_file_is_one_message_with_file_and_field(
    tmp_path: Path, change: Callable[[Any], None], message: str
) -> None:
    document = json.loads(DIGITS.to_json())
    change(document)
    (tmp_path / FILE_NAME).write_text(json.dumps(document))
    with pytest.raises(InputError) as caught:
        read_dataset(tmp_path)
    assert str(caught.value).startswith(f"{tmp_path / FILE_NAME}: ")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"version": 1', "is not valid JSON"),
        (b"[]", "must hold one JSON object, not a list"),
        (b"\xff\xfe", "is not UTF-8 text"),
        (b'{"version": ' + b"[" * 100_000, "its values are nested too deeply"),
    ],
)
def test_a_file_that_is_no_json_object(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / FILE_NAME).write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_dataset(tmp_path)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).mkdir()
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        read_dataset(tmp_path)
