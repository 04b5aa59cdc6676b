"""The plan that index leaves: what is written is what pack and seal read."""

import dataclasses
import json
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagenet_spec.names import FORMATS
from imagenet_workloads.dataset import RECORD_IO, TF_RECORD, WriterVersion
from imagenet_workloads.errors import InputError
from imagenet_workloads.fields import Fields
from imagenet_workloads.prepare import plan
from imagenet_workloads.prepare.plan import (
    TRAIN,
    VALIDATION,
    DatasetOptions,
    Plan,
    PlannedImage,
    make_key,
)
from imagenet_workloads.records import format_named
from imagenet_workloads.records.format import Box

texts = st.text(st.characters(codec="utf-8"), max_size=12)
# Names as a volume has them: any bytes but 0 and /, read as UTF-8 with escapes.
names = st.binary(min_size=1, max_size=30).map(
    lambda raw: raw.replace(b"\0", b"_").decode("utf-8", "surrogateescape")
)
fractions = st.floats(0, 1)
images = st.builds(
    PlannedImage,
    key=st.integers(0, 2**32),
    label=st.integers(0, 30_000),
    offset=st.integers(0, 2**48),
    size=st.integers(0, 2**40),
    name=names,
    boxes=st.lists(st.builds(Box, fractions, fractions, fractions, fractions), max_size=3).map(
        tuple
    ),
)
options = st.builds(
    DatasetOptions,
    shards=st.integers(1, 64),
    format=st.sampled_from(FORMATS),
    resize=st.none() | st.integers(1, 4096),
    quality=st.integers(1, 100),
    min_images_per_class=st.integers(0, 1000),
    seed=st.integers(0, 2**63),
    validation_per_class=st.integers(0, 100),
)


def plan_of(
    options: DatasetOptions, train: list[int], validation: list[int], classes: list[str]
) -> Plan:
    format = format_named(options.format)
    return Plan(
        key="ab" * 16,
        writer=WriterVersion("2", "planes"),
        options=options,
        classes=tuple(classes),
        dropped_classes={"rare": 3},
        sources={TRAIN: {"kind": "tar of tars"}, VALIDATION: {"kind": "flat tar"}},
        shards=(
            *plan.name_shards(TRAIN, train, format),
            *plan.name_shards(VALIDATION, validation, format),
        ),
    )


SMALL = plan_of(DatasetOptions(shards=2), [2, 1], [1], ["a", "b"])


@given(
    options=options,
    train=st.lists(st.integers(0, 10**7), max_size=4),
    validation=st.lists(st.integers(0, 10**7), max_size=2),
    classes=st.lists(texts, unique=True, max_size=4),
)
def test_any_plan_survives_the_round_trip(
    options: DatasetOptions, train: list[int], validation: list[int], classes: list[str]
) -> None:
    written = plan_of(options, train, validation, classes)
    assert Plan.from_fields(Fields.parse(written.to_json(), "plan.json")) == written
    assert written.images() == sum(train) + sum(validation)
    assert written.images(TRAIN) == sum(train)


@pytest.mark.parametrize(
    ("format", "files"),
    [
        (RECORD_IO, ("train-00001-of-00003.rec", "train-00001-of-00003.idx")),
        (TF_RECORD, ("train-00001-of-00003.tfrecord", "train-00001-of-00003.idx")),
    ],
)
def test_a_shard_s_files_are_those_of_its_format(format: str, files: tuple[str, ...]) -> None:
    shard = plan.name_shards(TRAIN, [5, 4, 4], format_named(format))[1]
    assert shard.files == (*files, "train-00001-of-00003.images.jsonl")
    assert (shard.record, shard.index, shard.image_list) == shard.files
    assert shard.sidecar == "train-00001-of-00003.json"
    assert shard.images == 4


def test_names_of_shards_sort_as_their_numbers() -> None:
    shards = plan.name_shards(VALIDATION, [1] * 1200, format_named(RECORD_IO))
    assert [shard.name for shard in shards] == sorted(shard.name for shard in shards)
    assert shards[0].name == "val-00000-of-01200"


@given(first=st.lists(images, max_size=150), second=st.lists(images, max_size=3))
def test_images_are_read_back_in_their_order(
    first: list[PlannedImage], second: list[PlannedImage], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("dataset")
    written = plan_of(DatasetOptions(shards=2), [len(first), len(second)], [], ["a"])
    contents = dict(zip((shard.name for shard in written.shards), (first, second), strict=True))
    plan.write(folder, written, contents)
    assert plan.is_whole(folder)
    for shard in written.shards:
        assert list(plan.read_images(folder, shard)) == contents[shard.name]


@pytest.mark.parametrize("name", ["plan.json", f"{SMALL.shards[0].name}.jsonl"])
@pytest.mark.parametrize("kept", [0, 3, -1, None])
def test_a_plan_of_which_a_file_is_cut_or_missing_is_not_whole(
    name: str, kept: int | None, tmp_path: Path
) -> None:
    contents = {
        shard.name: [PlannedImage(key, 1, 0, 1, "x") for key in range(shard.images)]
        for shard in SMALL.shards
    }
    assert not plan.is_whole(tmp_path)
    plan.write(tmp_path, SMALL, contents)
    assert plan.is_whole(tmp_path)
    path = tmp_path / "plan" / name
    if kept is None:
        path.unlink()
    else:
        # The JSON is whole without its last line break.
        content = path.read_bytes().rstrip(b"\n")
        path.write_bytes(content[:kept] if kept >= 0 else content[:-1])
    assert not plan.is_whole(tmp_path)
    plan.remove(tmp_path)
    assert list(tmp_path.iterdir()) == []
    plan.remove(tmp_path)


def test_the_plan_that_is_there_first_stays(tmp_path: Path) -> None:
    def write(label: int) -> None:
        contents = {shard.name: [PlannedImage(0, label, 0, 1, "x")] for shard in SMALL.shards}
        plan.write(tmp_path, SMALL, contents)

    write(1)
    write(2)
    assert [image.label for image in plan.read_images(tmp_path, SMALL.shards[0])] == [1]
    assert [path.name for path in tmp_path.iterdir()] == ["plan"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 2}, "version is not 1"),
        ({"classes": "a"}, "classes must be a list"),
        ({"shards": [{"split": "train", "name": "../x", "images": 1}]}, "must be the name of"),
        ({"shards": [{"split": "train", "name": "x"}]}, "shards[0].images is missing"),
        ({"sources": {"train": 4}}, "sources.train must be an object"),
        ({"options": {}}, "options.shards is missing"),
        ({"options": {**SMALL.options.to_document(), "format": "HDF5"}}, "no format called 'HDF5'"),
        ({"options": {**SMALL.options.to_document(), "shards": 0}}, "options.shards must be"),
    ],
)
def test_a_wrong_plan_is_one_message(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    folder = plan.folder_of(tmp_path, SMALL.key)
    (folder / "plan").mkdir(parents=True)
    document = {**json.loads(SMALL.to_json()), **change}
    (folder / "plan" / "plan.json").write_text(json.dumps(document))
    with pytest.raises(InputError) as caught:
        plan.read(tmp_path, SMALL.key)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "line", ["[1, 2]", "not JSON", "[1, 2, 3, 4, 5, 6]", '[1, 2, 3, 4, "x", [[1]]]', "7"]
)
def test_a_damaged_list_of_images_says_what_to_remove(line: str, tmp_path: Path) -> None:
    contents = {shard.name: [PlannedImage(0, 0, 0, 1, "x")] for shard in SMALL.shards}
    plan.write(tmp_path, SMALL, contents)
    path = tmp_path / "plan" / f"{SMALL.shards[0].name}.jsonl"
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(InputError, match=f"the plan is damaged: .*; remove {tmp_path}"):
        list(plan.read_images(tmp_path, SMALL.shards[0]))


OPTIONS = DatasetOptions(shards=8, resize=256)
WRITER = WriterVersion("2", "planes")
# For each option, values that give other bytes.
OTHERS: dict[str, list[Any]] = {
    "shards": [1, 9],
    "format": ["TFRecord"],
    "resize": [None, 255],
    "quality": [89],
    "min_images_per_class": [0, 500],
    "seed": [1, 2**40],
    "validation_per_class": [1, 50],
}


def make(options: DatasetOptions = OPTIONS, writer: WriterVersion = WRITER) -> str:
    return make_key(writer, options, "source", None)


def test_every_option_is_in_the_table() -> None:
    assert set(OTHERS) == {field.name for field in dataclasses.fields(DatasetOptions)}
    assert {OPTIONS.format, *OTHERS["format"]} == set(FORMATS)


def test_no_two_inputs_share_a_key() -> None:
    changed = [
        dataclasses.replace(OPTIONS, **{name: value})
        for name, values in OTHERS.items()
        for value in values
    ]
    keys = [make(options) for options in (OPTIONS, *changed)]
    keys += [make(writer=WriterVersion("2", "opencv")), make(writer=WriterVersion("3", "planes"))]
    keys += [make_key(WRITER, OPTIONS, "other", None)]
    keys += [make_key(WRITER, OPTIONS, "source", pair) for pair in (("a", "b"), ("b", "a"))]
    assert all(one != other for one, other in combinations(keys, 2))


def test_only_words_that_are_given_change_the_key() -> None:
    # The key of a dataset that was sealed before there were words.
    before = "fca266559bb34763888653bbcdc9cf44"
    assert make() == make_key(WRITER, OPTIONS, "source", None, {}) == before
    words = [{"n01": "tench"}, {"n01": "bench"}, {"n02": "tench"}]
    keys = [make_key(WRITER, OPTIONS, "source", None, one) for one in words]
    assert len({before, *keys}) == 4


def test_a_key_can_name_a_folder_and_is_made_again() -> None:
    assert make() == make(DatasetOptions(shards=8, resize=256))
    assert len(make()) == 32
    assert set(make()) <= set("0123456789abcdef")


@pytest.mark.parametrize("name", OTHERS)
def test_options_survive_the_round_trip(name: str) -> None:
    for value in OTHERS[name]:
        options = dataclasses.replace(OPTIONS, **{name: value})
        assert DatasetOptions.from_fields(Fields(options.to_document(), "options")) == options
