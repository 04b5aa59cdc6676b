"""Shards joined into one index."""

import struct
from pathlib import Path

import mxnet as mx
import pytest

from imagenet_workloads.dataset import RECORD_IO, TF_RECORD, Shard, Split
from imagenet_workloads.errors import InputError
from imagenet_workloads.frameworks.mxnet.record_files import join, of_paths, of_split

MAGIC = struct.pack("<I", 0xCED7230A)
CONTENTS = [b"abc", b"", b"x" * 4 + MAGIC + b"yz", MAGIC * 3, b"12345678"]


def write(folder: Path, name: str, contents: list[bytes]) -> tuple[Path, Path]:
    record, index = folder / f"{name}.rec", folder / f"{name}.idx"
    writer = mx.recordio.MXIndexedRecordIO(str(index), str(record), "w")
    for key, content in enumerate(contents):
        writer.write_idx(key, content)
    writer.close()
    return record, index


def offsets(index: Path) -> list[int]:
    return [int(line.split("\t")[1]) for line in index.read_text().splitlines()]


def test_offsets_run_over_all_files(tmp_path: Path) -> None:
    first, second = write(tmp_path, "a", CONTENTS), write(tmp_path, "b", CONTENTS[:2])
    joined = join([first, second], tmp_path / "joined.idx")
    size = first[0].stat().st_size
    assert joined.images == len(CONTENTS) + 2
    assert offsets(joined.index) == [
        *offsets(first[1]),
        *(size + offset for offset in offsets(second[1])),
    ]
    assert [line.split("\t")[0] for line in joined.index.read_text().splitlines()] == [
        str(number) for number in range(joined.images)
    ]


def test_a_missing_index_is_made_from_the_records(tmp_path: Path) -> None:
    record, index = write(tmp_path, "a", CONTENTS)
    expected = offsets(index)
    index.unlink()
    joined = of_paths(str(record), "", tmp_path / "joined.idx")
    assert offsets(joined.index) == expected


def test_paths_with_their_indexes(tmp_path: Path) -> None:
    first, second = write(tmp_path, "a", CONTENTS), write(tmp_path, "b", CONTENTS[:2])
    records, indexes = f"{first[0]};{second[0]}", f"{first[1]};{second[1]}"
    assert of_paths(records, indexes, tmp_path / "1.idx").images == 7
    assert of_paths(records, "", tmp_path / "2.idx").records == (first[0], second[0])
    with pytest.raises(InputError, match="2 record files, but 1 index files"):
        of_paths(records, str(first[1]), tmp_path / "3.idx")


@pytest.mark.parametrize("damage", ["missing", "not RecordIO", "index is no index"])
def test_what_cannot_be_read_is_named(tmp_path: Path, damage: str) -> None:
    record, index = write(tmp_path, "a", CONTENTS)
    if damage == "missing":
        record.unlink()
    elif damage == "not RecordIO":
        record.write_bytes(b"GIF89a, and more")
        index.unlink()
    else:
        index.write_text("hello")
    with pytest.raises(InputError, match=r"a\.rec"):
        join([(record, index)], tmp_path / "joined.idx")


def test_a_split_whose_index_lost_lines_is_refused(tmp_path: Path) -> None:
    record, index = write(tmp_path, "a", CONTENTS)
    split = Split(5, (Shard(record.name, index.name, 5, record.stat().st_size, "0"),))
    assert of_split(split, RECORD_IO, tmp_path, tmp_path / "joined.idx").images == 5
    index.write_text("".join(index.read_text().splitlines(keepends=True)[:-1]))
    with pytest.raises(InputError, match=r"hold 4 records, dataset\.json says 5"):
        of_split(split, RECORD_IO, tmp_path, tmp_path / "joined.idx")


@pytest.mark.parametrize("index", [None, "train-00000-of-00001.idx"])
def test_tfrecord_is_refused_with_the_format_to_prepare(index: str | None, tmp_path: Path) -> None:
    split = Split(5, (Shard("train-00000-of-00001.tfrecord", index, 5, 100, "0"),))
    with pytest.raises(InputError, match="MXNet reads RecordIO; prepare it with --format RecordIO"):
        of_split(split, TF_RECORD, tmp_path, tmp_path / "joined.idx")
