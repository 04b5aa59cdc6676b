"""Which images make which split: the properties that every training relies on."""

from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from imagenet_spec.names import FORMATS
from imagenet_workloads import files
from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare import split
from imagenet_workloads.prepare.codecs import choose
from imagenet_workloads.prepare.codecs.codec import Recipe
from imagenet_workloads.prepare.containers.folder import FolderListing
from imagenet_workloads.prepare.scan import scan
from imagenet_workloads.prepare.split import (
    DROPPED,
    Classes,
    bounds,
    choose_classes,
    draw,
    shard_counts,
    shuffle,
)
from imagenet_workloads.records import format_named
from support.pictures import Collection, collection, jpeg, write_folder
from support.preparation import prepare
from support.sentences import says

counts = st.dictionaries(st.text(max_size=5), st.integers(1, 30), min_size=1, max_size=8)


def classes_of(count_of: dict[str, int], fewest: int = 1) -> Classes:
    return choose_classes(list(count_of), list(count_of.values()), [], fewest)


def images_of(
    count_of: dict[str, int], seed: int = 0
) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    numbers = np.repeat(np.arange(len(count_of)), list(count_of.values())).astype(np.uint32)
    np.random.default_rng(seed).shuffle(numbers)
    return numbers


def test_keeps_classes_with_exactly_the_fewest() -> None:
    classes = choose_classes(["b", "a", "c", "d"], [500, 499, 501, 1], ["e"], 500)
    assert classes.names == ("b", "c")
    assert classes.dropped == {"a": 499, "d": 1, "e": 0}
    assert classes.labels.tolist() == [0, DROPPED, 1, DROPPED]


def test_no_class_left_is_an_error_that_says_how_large_they_are() -> None:
    with pytest.raises(
        InputError, match=says("no class has 500 images or more", "the largest of 3 has 7")
    ):
        choose_classes(["a", "b"], [7, 3], ["c"], 500)
    with pytest.raises(
        InputError, match=says("no class has 1 images or more", "the largest of 0 has 0")
    ):
        choose_classes([], [], [], 0)


@given(count_of=counts, fewest=st.integers(0, 20))
def test_labels_are_positions_among_the_sorted_names(count_of: dict[str, int], fewest: int) -> None:
    kept = sorted(name for name, count in count_of.items() if count >= fewest)
    if not kept:
        with pytest.raises(InputError):
            classes_of(count_of, fewest)
        return
    classes = classes_of(count_of, fewest)
    assert classes.names == tuple(kept)
    for name, label in zip(count_of, classes.labels.tolist(), strict=True):
        assert label == (kept.index(name) if name in kept else DROPPED)


@settings(deadline=None)
@given(count_of=counts, per_class=st.integers(0, 5), seed=st.integers(0, 3))
def test_draws_the_same_number_of_every_kept_class(
    count_of: dict[str, int], per_class: int, seed: int
) -> None:
    count_of = {name: count + per_class for name, count in count_of.items()}
    classes = classes_of(count_of, fewest=per_class + 3) if any(
        count >= per_class + 3 for count in count_of.values()
    ) else classes_of(count_of)  # fmt: skip
    class_of = images_of(count_of, seed)
    train, validation = draw(class_of, list(count_of), classes, per_class, seed)
    assert not set(train.tolist()) & set(validation.tolist())
    labels = classes.labels[class_of]
    in_dataset = np.flatnonzero(labels != DROPPED).tolist()
    assert sorted([*train.tolist(), *validation.tolist()]) == in_dataset
    drawn = Counter(labels[validation].tolist())
    assert drawn == {label: per_class for label in range(len(classes.names)) if per_class}


def test_a_draw_does_not_depend_on_other_classes() -> None:
    alone = draw(images_of({"a": 20}), ["a"], classes_of({"a": 20}), 5, 7)[1]
    both = {"z": 9, "a": 20}
    class_of = np.array([0] * 9 + [1] * 20, np.uint32)
    together = draw(class_of, list(both), classes_of(both), 5, 7)[1]
    assert (together[together >= 9] - 9).tolist() == alone.tolist()


def test_another_seed_draws_and_shuffles_otherwise() -> None:
    count_of = {"a": 100}
    arguments = (images_of(count_of), list(count_of), classes_of(count_of), 10)
    draws = {tuple(draw(*arguments, seed)[1].tolist()) for seed in (0, 1, 2)}
    orders = {
        tuple(shuffle(np.arange(50, dtype=np.uint32), seed, name).tolist())
        for seed in (0, 1)
        for name in ("train", "validation")
    }
    assert (len(draws), len(orders)) == (3, 4)
    assert {tuple(sorted(order)) for order in orders} == {tuple(range(50))}


def test_a_class_that_validation_would_empty_is_an_error() -> None:
    count_of = {"a": 50, "b": 60}
    message = "the class a has 50 images, and the validation needs 50"
    with pytest.raises(InputError, match=message):
        draw(images_of(count_of), list(count_of), classes_of(count_of), 50, 0)


@given(images=st.integers(0, 10**6), shards=st.integers(1, 300))
def test_shards_share_the_images_evenly(images: int, shards: int) -> None:
    parts = bounds(images, shards)
    lengths = {end - start for start, end in parts}
    assert (parts[0][0], parts[-1][1], len(parts)) == (0, images, shards)
    assert all(one[1] == other[0] for one, other in pairwise(parts))
    assert max(lengths) - min(lengths) <= 1
    assert bounds(images, 0) == []


@pytest.mark.parametrize(
    ("train", "validation", "shards", "expected"),
    [(1_231_167, 50_000, 8, 1), (100, 0, 4, 0), (100, 1, 4, 1), (10, 100, 2, 20), (8, 4, 8, 4)],
)
def test_validation_shards_are_as_large_as_training_shards(
    train: int, validation: int, shards: int, expected: int
) -> None:
    assert shard_counts(train, validation, shards) == (shards, expected)


def test_a_shard_without_images_is_an_error() -> None:
    with pytest.raises(InputError, match="7 training images do not fill 8 shards"):
        shard_counts(7, 0, 8)


def estimated(source: Path, scratch: Path, format: str, recipe: Recipe) -> int:
    folder = FolderListing(source)
    with files.unnamed_file(scratch) as rows:
        found = scan(folder, rows, lambda *_: None)
        numbers = np.arange(len(found), dtype=np.uint32)
        codec = choose("opencv")
        sample = split.SourceSample(
            split.Part(folder, found, numbers, found.classes(), np.arange(len(found.class_names)))
        )
        return split.estimate_bytes(sample, recipe, codec, format_named(format))


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("resize", [None, 16, 60])
def test_the_shards_take_about_what_was_estimated(
    format: str, resize: int | None, tmp_path: Path
) -> None:
    source = write_folder(tmp_path / "source", collection({"a": 20, "b": 21}))
    told = estimated(source, tmp_path, format, Recipe(resize, 90))
    options = ("--shards", "2", "--format", format, "--codec", "opencv")
    more = () if resize is None else ("--resize", str(resize))
    dataset = prepare(source, tmp_path / "data", *options, *more)
    taken = sum(path.stat().st_size for path in dataset.glob("train-*.*") if path.suffix != ".json")
    assert taken <= told <= 1.25 * taken


def test_damaged_images_count_as_they_are(tmp_path: Path) -> None:
    whole: Collection = {"a": {"0.jpg": jpeg(0)}}
    damaged: Collection = {"a": {"0.jpg": bytes(len(whole["a"]["0.jpg"]))}}
    as_they_are = Recipe(None, 90)
    sizes = {
        estimated(write_folder(tmp_path / name, images), tmp_path, "RecordIO", as_they_are)
        for name, images in (("whole", whole), ("damaged", damaged))
    }
    assert len(sizes) == 1


def test_only_a_sample_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split, "SIZE", 5)
    read: list[str] = []
    real = FolderListing.read

    def counted(folder: FolderListing, name: str, offset: int, size: int) -> bytes:
        read.append(name)
        return real(folder, name, offset, size)

    monkeypatch.setattr(FolderListing, "read", counted)
    source = write_folder(tmp_path / "source", collection({"a": 30}))
    told = estimated(source, tmp_path, "RecordIO", Recipe(None, 90))
    assert len(read) == 5
    assert told > 25 * min(path.stat().st_size for path in source.rglob("*.JPEG"))
