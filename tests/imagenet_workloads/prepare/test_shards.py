"""The sidecar of a shard: what it says, and when it counts."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagenet_workloads.dataset import FORMATS, TF_RECORD
from imagenet_workloads.errors import InputError
from imagenet_workloads.fields import Fields
from imagenet_workloads.prepare import plan, shards
from imagenet_workloads.prepare.channel_statistics import ChannelStatistics
from imagenet_workloads.prepare.plan import PlannedShard
from imagenet_workloads.prepare.shards import ImageBoxes, Sidecar, SkippedImage
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
    sidecar = Sidecar("k", 1, 12, "0", "0", (1,), ChannelStatistics(), ())
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
