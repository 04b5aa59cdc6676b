"""Ranges of records over files: every record once, whatever the number of ranks."""

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagenet_workloads.dataset import Shard, Split
from imagenet_workloads.errors import InputError
from imagenet_workloads.frameworks.tensorflow.record_ranges import (
    RecordFile,
    of_paths,
    of_rank,
    of_split,
)
from imagenet_workloads.train.sharding import share


def files(counts: list[int]) -> list[RecordFile]:
    return [RecordFile(Path(f"f{place}"), count, 10) for place, count in enumerate(counts)]


@given(counts=st.lists(st.integers(0, 30), min_size=1, max_size=8), ranks=st.integers(1, 9))
def test_every_record_is_in_one_piece_of_one_rank(counts: list[int], ranks: int) -> None:
    whole = [(f"f{place}", number) for place, count in enumerate(counts) for number in range(count)]
    found = []
    for rank in range(ranks):
        ranges = of_rank(files(counts), rank, ranks)
        assert sum(record_range.take for record_range in ranges) == share(sum(counts), rank, ranks)
        for record_range in ranges:
            assert record_range.take > 0
            last = record_range.skip + record_range.take
            found += [(record_range.path.name, number) for number in range(record_range.skip, last)]
    assert found == whole


def record(data: bytes) -> bytes:
    return struct.pack("<QI", len(data), 0) + data + b"\0\0\0\0"


def test_records_are_counted_by_their_lengths(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(record(b"") + record(b"x" * 100))
    (tmp_path / "b").write_bytes(b"")
    found = of_paths(f"{tmp_path}/a;{tmp_path}/b")
    assert [(file.records, file.bytes) for file in found] == [(2, 132), (0, 0)]
    assert of_paths("") == ()


@pytest.mark.parametrize(
    "content", [None, b"abc", record(b"whole")[:-1], b"\xff" * 40, record(b"a") + b"\x05"]
)
def test_a_file_that_is_none_is_named(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "r.tfrecord"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=str(path)):
        of_paths(str(path))


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "no such file, though"), (b"123", "has 3 bytes, dataset.json says 5; prepare it")],
)
def test_a_shard_must_be_as_it_was_sealed(
    tmp_path: Path, content: bytes | None, message: str
) -> None:
    if content is not None:
        (tmp_path / "s").write_bytes(content)
    split = Split(1, (Shard("s", None, 1, 5, "0"),))
    with pytest.raises(InputError, match=message):
        of_split(split, tmp_path)


def test_shards_are_taken_in_their_order(tmp_path: Path) -> None:
    shards = []
    for name, records in (("b", 2), ("a", 3)):
        (tmp_path / name).write_bytes(b"12345")
        shards.append(Shard(name, None, records, 5, "0"))
    found = of_split(Split(5, tuple(shards)), tmp_path)
    assert [(file.path.name, file.records) for file in found] == [("b", 2), ("a", 3)]
