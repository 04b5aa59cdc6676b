"""The sidecars of shards, the sums of colours, and how many images may be left out."""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagenet_spec.names import FORMATS
from imagenet_workloads.dataset import TF_RECORD
from imagenet_workloads.errors import InputError
from imagenet_workloads.fields import Fields
from imagenet_workloads.prepare import plan, shards
from imagenet_workloads.prepare.plan import PlannedShard
from imagenet_workloads.prepare.shards import ChannelStatistics, ImageBoxes, Sidecar, SkippedImage
from imagenet_workloads.records import format_named

texts = st.text(st.characters(codec="utf-8"), max_size=20)
counts = st.integers(0, 2**40)
triples = st.tuples(counts, counts, counts)
fractions = st.floats(0, 1)
boxes = st.lists(st.tuples(fractions, fractions, fractions, fractions), max_size=3).map(tuple)
sidecars = st.builds(
    Sidecar,
    key=texts,
    records=counts,
    bytes=counts,
    record_sha256=texts,
    index_sha256=st.none() | texts,
    per_class=st.lists(counts, max_size=5).map(tuple),
    statistics=st.builds(ChannelStatistics, counts, triples, triples),
    skipped=st.lists(st.builds(SkippedImage, texts, texts, texts), max_size=3).map(tuple),
    boxes=st.lists(st.builds(ImageBoxes, counts, boxes), max_size=3).map(tuple),
    image_list_sha256=st.none() | texts,
)


@given(sidecar=sidecars)
def test_any_sidecar_survives_the_round_trip(sidecar: Sidecar) -> None:
    assert Sidecar.from_fields(Fields.parse(sidecar.to_json(), "x.json")) == sidecar


@pytest.fixture(params=FORMATS)
def shard(request: pytest.FixtureRequest, tmp_path: Path) -> PlannedShard:
    """A whole shard of 12 bytes in `tmp_path`."""
    (shard,) = plan.name_shards(plan.TRAIN, [1], format_named(request.param))
    for name in shard.files:
        (tmp_path / name).write_bytes(b"twelve bytes")
    sidecar = Sidecar("k", 1, 12, "0", "0", (1,), ChannelStatistics(), (), image_list_sha256="0")
    (tmp_path / shard.sidecar).write_text(sidecar.to_json())
    return shard


def test_a_shard_is_whole_with_all_its_files_at_their_length(
    shard: PlannedShard, tmp_path: Path
) -> None:
    assert shards.is_whole(tmp_path, shard)
    for name in (*shard.files, shard.sidecar):
        content = (tmp_path / name).read_bytes()
        (tmp_path / name).unlink()
        assert not shards.is_whole(tmp_path, shard), f"without {name}"
        (tmp_path / name).write_bytes(content)
    for content in (b"", b"twelve bytes and more"):
        (tmp_path / shard.record).write_bytes(content)
        assert not shards.is_whole(tmp_path, shard)


def test_only_a_shard_of_tfrecord_may_lack_its_index(shard: PlannedShard, tmp_path: Path) -> None:
    path = tmp_path / shard.sidecar
    document = json.loads(path.read_text())
    del document["indexSha256"]
    path.write_text(json.dumps(document))
    (tmp_path / shard.index).unlink()
    if shard.format.name == TF_RECORD:
        assert shards.is_whole(tmp_path, shard)
        return
    assert not shards.is_whole(tmp_path, shard)
    with pytest.raises(InputError, match=r"indexSha256 is missing"):
        shards.read(tmp_path, shard)


def test_a_shard_of_an_older_version_is_whole_without_a_list_of_its_images(
    shard: PlannedShard, tmp_path: Path
) -> None:
    path = tmp_path / shard.sidecar
    document = json.loads(path.read_text())
    del document["imageListSha256"]
    path.write_text(json.dumps(document))
    (tmp_path / shard.image_list).unlink()
    assert shards.is_whole(tmp_path, shard)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 0}, "version is not 1"),
        ({"sha256": None}, "sha256 must be a string"),
        ({"channels": {"points": 1, "sums": [1, 2], "squares": [1, 2, 3]}}, "three whole numbers"),
        ({"skipped": [{"name": "x"}]}, "skipped[0].class is missing"),
        ({"perClass": [1.5]}, "perClass[0] must be a count"),
        ({"boxes": [{"key": 1, "boxes": [[0, 0, 2, 1]]}]}, "must be a list of numbers from 0 to 1"),
    ],
)
def test_a_wrong_sidecar_is_one_message(
    change: dict[str, Any], message: str, shard: PlannedShard, tmp_path: Path
) -> None:
    path = tmp_path / shard.sidecar
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(InputError) as caught:
        shards.read(tmp_path, shard)
    assert str(caught.value).startswith(str(path))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("fraction", "images", "allowed"),
    [
        (0.001, 1_281_167, 1281), (0.001, 999, 0), (0.001, 1000, 1), (0.29, 100, 29),
        (0, 10**9, 0), (1, 7, 7), (0.1, 30, 3), (0.07, 100, 7), (0.5, 1, 0),
    ],
)  # fmt: skip
def test_the_share_is_rounded_down(fraction: float, images: int, allowed: int) -> None:
    assert shards.allowed_images(fraction, images) == allowed


@given(thousandths=st.integers(0, 1000), images=st.integers(0, 10**6))
def test_a_share_in_decimals_is_what_a_person_would_compute(thousandths: int, images: int) -> None:
    exact = Fraction(thousandths, 1000) * images
    assert shards.allowed_images(thousandths / 1000, images) == exact.numerator // exact.denominator


def test_the_latest_word_counts_and_an_equal_one_writes_nothing(tmp_path: Path) -> None:
    shards.write_limit(tmp_path, 0.001)
    shards.write_limit(tmp_path, 0.5)
    assert shards.read_limit(tmp_path, 100) == 50
    before = (tmp_path / "limits.json").stat()
    shards.write_limit(tmp_path, 0.5)
    after = (tmp_path / "limits.json").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


@pytest.mark.parametrize("value", [-0.1, 1.1, "0.1", None, [0.1]])
def test_a_wrong_limit_is_named(value: object, tmp_path: Path) -> None:
    (tmp_path / "limits.json").write_text(json.dumps({"maxSkippedFraction": value}))
    with pytest.raises(InputError, match=r"limits\.json: maxSkippedFraction must be a number"):
        shards.read_limit(tmp_path, 100)


def test_the_error_names_the_first_images_and_the_ways_out() -> None:
    skipped = [
        SkippedImage(f"a/{number}\udcff.jpg", "a", f"reason {number}") for number in range(12)
    ]
    message = str(shards.too_many(skipped, 100, 3, "the dataset"))
    first = "; ".join(rf"a/{number}\xff.jpg: reason {number}" for number in range(10))
    facts = ("12 damaged", "the dataset", "3 of 100", f"({first}; …)", "maxSkippedFraction")
    assert [fact for fact in facts if fact not in message] == []
    assert "…" not in str(shards.too_many(skipped[:10], 100, 2, "the dataset"))


@given(
    images=st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=5),
    seed=st.integers(0, 99),
)
def test_equals_numpy_over_all_points(images: list[tuple[int, int]], seed: int) -> None:
    random = np.random.default_rng(seed)
    made = [random.integers(0, 256, (*size, 3), dtype=np.uint8) for size in images]
    total = ChannelStatistics.of(made)
    points = np.concatenate([image.reshape(-1, 3) for image in made])
    assert total.points == len(points)
    assert np.allclose(total.mean(), points.mean(axis=0))
    assert np.allclose(total.std(), points.std(axis=0))
    # However the images are divided among threads and shards.
    assert (
        sum((ChannelStatistics.of([image]) for image in reversed(made)), ChannelStatistics())
        == total
    )


def test_is_exact_for_a_whole_imagenet() -> None:
    one = ChannelStatistics.of([np.full((640, 480, 3), 255, np.uint8)[::3, ::3]])
    many = ChannelStatistics(
        one.points * 10**7,
        (one.sums[0] * 10**7,) * 3,
        (one.squares[0] * 10**7,) * 3,
    )
    assert (many.mean(), many.std()) == ((255.0,) * 3, (0.0,) * 3)


def test_takes_a_grid_that_is_no_contiguous_array() -> None:
    image = np.random.default_rng(0).integers(0, 256, (30, 40, 3), dtype=np.uint8)
    assert ChannelStatistics.of([image[::3, ::3]]) == ChannelStatistics.of([image[::3, ::3].copy()])


def test_no_points_have_no_colour() -> None:
    assert ChannelStatistics.of([]) == ChannelStatistics()
    assert (ChannelStatistics().mean(), ChannelStatistics().std()) == ((0.0,) * 3, (0.0,) * 3)


def test_comes_back_from_json() -> None:
    statistics = ChannelStatistics.of([np.arange(12, dtype=np.uint8).reshape(2, 2, 3)])
    assert ChannelStatistics.from_fields(Fields(statistics.to_document(), "x")) == statistics
    with pytest.raises(InputError, match="sums must be three whole numbers"):
        ChannelStatistics.from_fields(Fields({"points": 1, "sums": [1], "squares": [1, 2, 3]}, "x"))
