"""Records of both formats are found, read and taken apart, or their damage is named."""

import re
import struct
import subprocess
import sys
import warnings
from errno import EACCES
from pathlib import Path

import pytest

from imagenet_workloads.dataset import RECORD_IO, TF_RECORD, files_named
from imagenet_workloads.errors import InputError, WorkloadError
from imagenet_workloads.records import recordio
from imagenet_workloads.records import split as module
from imagenet_workloads.records.split import Records, open_paths, open_split
from support.image_splits import FORMATS, open_images, without_indexes, write_split
from support.sentences import says

MAGIC = struct.pack("<I", recordio.MAGIC)
# Lengths that are padded and not, and images that RecordIO stores in pieces.
IMAGES = [b"a" * 5, b"bcde", MAGIC, b"xxxx" + MAGIC + MAGIC + b"y", b"12345678" * 100, b"z"] * 4


def labels_and_images(records: Records, run: range) -> list[tuple[int, bytes]]:
    found = [
        records.parse(number, record) for number, record in zip(run, records.read(run), strict=True)
    ]
    return [(image.label, image.encoded) for image in found]


def test_a_folder_that_cannot_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The tests may run as root, who may read every folder.
    def refused(_: Path) -> None:
        raise PermissionError(EACCES, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", refused)
    with pytest.raises(InputError, match=re.escape(f"{tmp_path}: cannot be read: Permission")):
        files_named(str(tmp_path))


@pytest.mark.parametrize("format", FORMATS)
def test_all_records_are_read_as_they_were_written(format: str, tmp_path: Path) -> None:
    records = open_images(tmp_path, format, IMAGES, shards=5)
    assert records.count == len(IMAGES)
    assert records.bytes == sum(path.stat().st_size for path in tmp_path.glob("*.*rec*"))
    runs = records.runs(range(len(IMAGES)))
    assert [len(run) for run in runs] == [5, 5, 5, 5, 4]
    found = [pair for run in runs for pair in labels_and_images(records, run)]
    assert found == list(enumerate(IMAGES))
    assert (records.opens, records.reads, records.bytes_read) == (5, 5, records.bytes)


@pytest.mark.parametrize("format", FORMATS)
def test_a_run_is_neighbours_in_one_file(format: str, tmp_path: Path) -> None:
    records = open_images(tmp_path, format, IMAGES, shards=2)
    some = [0, 1, 3, 10, 11, 12, 13, 23]
    runs = records.runs(some)
    assert runs == [range(2), range(3, 4), range(10, 12), range(12, 14), range(23, 24)]
    assert [label for run in runs for label, _ in labels_and_images(records, run)] == some
    assert records.size(some) == records.bytes_read
    assert records.runs([]) == []


@pytest.mark.parametrize("format", FORMATS)
def test_more_files_than_may_be_open(
    format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_OPEN_FILES", 2)
    records = open_images(tmp_path, format, IMAGES, shards=6)
    for _ in range(2):
        for run in records.runs(range(len(IMAGES))):
            assert labels_and_images(records, run) == [(at, IMAGES[at]) for at in run]
    assert records.opens == 2 + 2 * 4
    records.close()


def test_files_of_the_command_line(tmp_path: Path) -> None:
    write_split(tmp_path / "r", RECORD_IO, IMAGES, shards=2)
    write_split(tmp_path / "t", TF_RECORD, IMAGES)
    a, b = sorted((tmp_path / "r").glob("*.rec"))
    found = open_paths(f"{a};{b};{tmp_path}/t/train-00000.tfrecord")
    assert found.count == 2 * len(IMAGES)
    # Without an index, the headers are read.
    b.with_suffix(".idx").unlink()
    assert open_paths(f"{a};{b}").count == len(IMAGES)
    with pytest.raises(InputError, match="2 record files, but 1 index files"):
        open_paths(f"{a};{b}", f"{a}.idx")
    with pytest.raises(InputError, match=r"nothing\.rec: cannot be read: No such file"):
        open_paths(f"{tmp_path}/nothing.rec")


def test_a_record_with_several_labels_has_the_first() -> None:
    header = struct.pack("<IfQQ", 2, 0, 7, 0) + struct.pack("<ff", 5, 6)
    record = b"".join(recordio.encode(header, b"image"))
    assert recordio.parse(record) == (b"image", 5, 7)


@pytest.mark.parametrize("label", [float("inf"), float("nan"), 1.5])
@pytest.mark.parametrize("several", [False, True])
def test_a_label_that_is_no_whole_number_is_damage(label: float, several: bool) -> None:
    header = struct.pack("<IfQQ", several, 0 if several else label, 7, 0)
    record = b"".join(recordio.encode(header + struct.pack("<f", label) * several, b"image"))
    with pytest.raises(ValueError, match=says(f"label is {label}", "no whole number")):
        recordio.parse(record)
    with pytest.raises(ValueError, match=says(f"label is {label}", "no whole number")):
        recordio.read_label(lambda start, size: record[start : start + size], len(record))


def test_a_folder_stands_for_its_record_files(tmp_path: Path) -> None:
    for name in ("b.rec", "a.rec", "a.idx", "x.txt"):
        (tmp_path / name).touch()
    alone = tmp_path / "alone.rec"
    assert files_named(f"{alone};{tmp_path}") == [alone, tmp_path / "a.rec", tmp_path / "b.rec"]


@pytest.mark.parametrize(
    ("name", "said"),
    [("x.txt", "holds no .rec or .tfrecord files"), ("dataset.json", "write --dataset ")],
)
def test_a_folder_of_something_else_is_refused(name: str, said: str, tmp_path: Path) -> None:
    (tmp_path / name).touch()
    with pytest.raises(InputError, match=re.escape(f"{tmp_path}: ")) as raised:
        files_named(str(tmp_path))
    assert said in str(raised.value)


@pytest.mark.parametrize("format", FORMATS)
def test_identities_are_those_of_the_records(format: str, tmp_path: Path) -> None:
    records = open_images(tmp_path, format, IMAGES, shards=2)
    parsed = [
        records.parse(number, records.read(range(number, number + 1))[0])
        for number in range(records.count)
    ]
    assert records.identities().tolist() == [found.identity for found in parsed]
    assert len({found.identity for found in parsed}) == len(IMAGES)


def test_a_header_with_the_magic_number_has_an_identity() -> None:
    header = struct.pack("<IfQQ", 0, 5, recordio.MAGIC, 0)
    record = b"".join(recordio.encode(header, b"image"))
    found = recordio.read_identity(lambda begin, size: record[begin : begin + size], len(record))
    assert found == recordio.parse(record).identity == recordio.MAGIC


@pytest.mark.parametrize("format", FORMATS)
def test_damage_in_a_record_is_named(format: str, tmp_path: Path) -> None:
    split = write_split(tmp_path, format, IMAGES)
    path = tmp_path / split.shards[0].record
    content = bytearray(path.read_bytes())
    first = open_split(split, format, tmp_path).size([0])
    # In the header of the second record.
    content[first + 1] ^= 0xFF
    if format == RECORD_IO:
        path.write_bytes(content)
        records = open_split(split, format, tmp_path)
        with pytest.raises(InputError, match=r"train-00000\.rec: record 1 \(from 0\): .*magic"):
            labels_and_images(records, range(3))
        return
    path.write_bytes(content)
    message = r"train-00000\.tfrecord: record 1 \(from 0\): the checksum of a record's length is"
    with pytest.raises(InputError, match=message):
        labels_and_images(open_split(split, format, tmp_path), range(3))
    with pytest.raises(InputError, match=r"train-00000\.tfrecord: the checksum of a record's len"):
        open_split(without_indexes(split), format, tmp_path)
    content[first + 1] ^= 0xFF
    content[first - 1] ^= 0xFF
    path.write_bytes(content)
    records = open_split(split, format, tmp_path)
    with pytest.raises(
        InputError, match=says("record 0", "from 0)", "the checksum of its data is wrong")
    ):
        labels_and_images(records, range(3))


@pytest.mark.parametrize("format", FORMATS)
def test_a_shard_that_is_cut_off_is_named(format: str, tmp_path: Path) -> None:
    split = write_split(tmp_path, format, IMAGES)
    path = tmp_path / split.shards[0].record
    records = open_split(split, format, tmp_path)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(InputError, match=f"{path.name}: it ends before byte {records.bytes}"):
        records.read(range(len(IMAGES)))
    path.write_bytes(path.read_bytes()[:60])
    with pytest.raises(InputError, match=f"{path.name}: "):
        open_split(split, format, tmp_path)


@pytest.mark.parametrize("format", FORMATS)
def test_an_index_of_another_file_is_refused(format: str, tmp_path: Path) -> None:
    split = write_split(tmp_path, format, IMAGES)
    index = tmp_path / "train-00000.idx"
    lines = index.read_text().splitlines(keepends=True)
    index.write_text("".join(lines[:-1]))
    with pytest.raises(InputError, match=r"has 23 records, not 24"):
        open_split(split, format, tmp_path)
    index.write_text("".join(lines[:-1]) + "23\tfar\n")
    with pytest.raises(InputError, match=says("train-00000.idx", "not KEY<TAB>OFFSET")):
        open_split(split, format, tmp_path)
    index.write_text("".join(lines) + "24\t999999\n")
    with pytest.raises(InputError, match=r"its index is of another file"):
        open_split(split, format, tmp_path)


# Prints the reads of opening a split of so many records, without those of the first opening.
READS = """
import sys
from pathlib import Path
from support.image_splits import open_split, without_indexes, write_split
def reads():
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["syscr"])
format, folder, records, is_indexed = sys.argv[1:]
split = write_split(Path(folder), format, [b"image"] * int(records), shards=4)
split = split if is_indexed == "True" else without_indexes(split)
open_split(split, format, Path(folder))
before = reads()
open_split(split, format, Path(folder))
print(reads() - before)
"""


def reads_at_opening(format: str, folder: Path, records: int, is_indexed: bool) -> int:
    options = [format, str(folder), str(records), str(is_indexed)]
    command = [sys.executable, "-c", READS, *options]
    tests = Path(__file__).parents[2]
    return int(subprocess.run(command, cwd=tests, check=True, stdout=subprocess.PIPE).stdout)


@pytest.mark.parametrize("format", FORMATS)
def test_opening_reads_the_indexes_and_no_header(format: str, tmp_path: Path) -> None:
    few = reads_at_opening(format, tmp_path / "few", 4, is_indexed=True)
    assert reads_at_opening(format, tmp_path / "many", 800, is_indexed=True) == few
    assert reads_at_opening(format, tmp_path / "bare", 800, is_indexed=False) > 800


@pytest.mark.parametrize("format", FORMATS)
def test_a_split_is_the_same_without_indexes(format: str, tmp_path: Path) -> None:
    split = write_split(tmp_path, format, IMAGES, shards=3)
    with_index = open_split(split, format, tmp_path)
    bare = open_split(without_indexes(split), format, tmp_path)
    # An index that is missing is no damage: the records say where they begin.
    for path in tmp_path.glob("*.idx"):
        path.unlink()
    missing = open_split(split, format, tmp_path)
    for one in (bare, missing):
        assert one.identities().tolist() == with_index.identities().tolist()
        for run in with_index.runs(range(len(IMAGES))):
            assert one.read(run) == with_index.read(run)


def test_a_file_that_goes_away_is_named(tmp_path: Path) -> None:
    records = open_images(tmp_path, RECORD_IO, IMAGES)
    (tmp_path / "train-00000.rec").unlink()
    with pytest.raises(WorkloadError, match=r"train-00000\.rec: cannot be read: No such file"):
        records.read(range(1))


def test_shards_that_are_opened_at_the_same_time_change_no_warnings(tmp_path: Path) -> None:
    split = write_split(tmp_path, RECORD_IO, IMAGES * 20, shards=60)
    before = list(warnings.filters)
    for _ in range(10):
        open_split(split, RECORD_IO, tmp_path)
        assert warnings.filters == before
