"""Parquet files as a source: on a volume, on a server and in a bucket, read by row groups."""

import sys
from pathlib import Path

import pyarrow as pa
import pytest

from imagenet_workloads.commands import pack
from imagenet_workloads.dataset import read_dataset
from imagenet_workloads.errors import InputError, WorkloadError
from imagenet_workloads.prepare.sources import volume
from imagenet_workloads.prepare.sources.parquet_file import ParquetFile, open_parquet
from imagenet_workloads.prepare.sources.source import Blob, Notes
from support.blobs import BytesBlob
from support.file_server import FileServer
from support.parquet_files import hugging_face, plain, rows, written
from support.pictures import collection, jpeg, write_folder
from support.preparation import contents, prepare, records, refused, run_index
from support.remote_preparation import prepare_fetched, prepare_remote

IMAGES = collection({"cat": 6, "dog": 5})
NAMES = ("dog", "cat")
DATASET = ("--shards", "2", "--validation-per-class", "1")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "parquet"
    folder.mkdir()
    return folder


def jpegs(dataset: Path) -> list[tuple[float, bytes]]:
    """Label and bytes of all records, sorted."""
    return sorted((record.label, record.jpeg) for record in records(dataset))


@pytest.mark.parametrize("folder", ["", "data", "default/train"])
def test_files_are_the_dataset_of_their_images(folder: str, root: Path, tmp_path: Path) -> None:
    every = rows(IMAGES)
    (root / folder).mkdir(parents=True, exist_ok=True)
    for number, part in enumerate((every[:7], every[7:])):
        (root / folder / f"{number:04}.parquet").write_bytes(hugging_face(part, NAMES))
    dataset = prepare(root, tmp_path / "data", *DATASET)
    plainly = prepare(write_folder(tmp_path / "folders", IMAGES), tmp_path / "data", *DATASET)
    sealed = read_dataset(dataset)
    assert sealed.classes == ("cat", "dog")
    assert sealed.train.per_class == (5, 4)
    assert jpegs(dataset) == jpegs(plainly)


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"compression": "zstd", "use_dictionary": False},
        {"data_page_version": "2.0", "image": "image", "label": "label"},
    ],
)
def test_a_file_may_have_bytes_and_names(how: dict[str, str], root: Path, tmp_path: Path) -> None:
    (root / "x.parquet").write_bytes(plain(rows(IMAGES), **how))
    dataset = prepare(root / "x.parquet", tmp_path / "data", *DATASET)
    assert read_dataset(dataset).train.per_class == (5, 4)


def test_numbers_without_names_are_the_classes(root: Path, tmp_path: Path) -> None:
    images = pa.array([jpeg(1), jpeg(2)], pa.large_binary())
    table = pa.table({"fine_label": pa.array([7, 30], pa.uint8()), "anything": images})
    (root / "x.parquet").write_bytes(written(table, 10))
    assert read_dataset(prepare(root, tmp_path / "data", "--shards", "1")).classes == ("30", "7")


def test_files_of_a_validation_split_validate(root: Path, tmp_path: Path) -> None:
    every = rows(IMAGES)
    (root / "data").mkdir()
    for name, part in (("train", every[:8]), ("validation", every[8:]), ("test", every[:1])):
        file = root / "data" / f"{name}-00000-of-00001.parquet"
        file.write_bytes(hugging_face(part, NAMES))
    sealed = read_dataset(prepare(root, tmp_path / "data", "--shards", "1"))
    assert (sealed.train.images, sealed.validation.images) == (8, 3)


def test_a_shard_reads_each_row_group_once(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "x.parquet").write_bytes(hugging_face(rows(IMAGES), NAMES, group=4))
    data = tmp_path / "data"
    key = run_index(root, data, "--shards", "1")["key"]
    read: list[int] = []
    images = ParquetFile.images

    def counted(self: ParquetFile, group: int, blob: Blob) -> pa.ChunkedArray:
        read.append(group)
        return images(self, group, blob)

    monkeypatch.setattr(ParquetFile, "images", counted)
    common = ["--data", str(data), "--key", key, "--source", str(root), "--threads", "2"]
    assert pack.main(common) == 0
    assert read == [0, 1, 2]


def test_a_row_without_a_whole_image_is_a_damaged_image(root: Path, tmp_path: Path) -> None:
    every = [("cat", None), ("dog", b"no image"), *rows(IMAGES)]
    (root / "x.parquet").write_bytes(hugging_face(every, NAMES))
    dataset = prepare(root, tmp_path / "data", "--shards", "1", "--max-skipped-fraction", "0.5")
    assert read_dataset(dataset).skipped.count == 2
    assert (dataset / "skipped.jsonl").read_text().count("x.parquet/0000000") == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (hugging_face(rows(IMAGES)[:2], NAMES, labels=[1, -1]), r"row 1 has no class .*is -1\)"),
        (hugging_face(rows(IMAGES)[:2], NAMES, labels=[1, 5]), "label 5, and .* names 2 classes"),
        (plain([("a\x01", b"x")]), "control characters"),
        (plain([("", b"x")]), "row 0 has no class"),
        (plain([("a", b"x")], label="url"), "has no column of labels.* among url, jpg; call it la"),
        (written(pa.table({"label": [1], "x": [2]}), 1), "has no column of images among label, x"),
        (b"PAR1 and more", "cannot be read as Parquet"),
        (hugging_face(rows(IMAGES), NAMES)[:-200], "cannot be read as Parquet"),
        (b"<html>", "cannot be read as Parquet"),
    ],
)  # fmt: skip
def test_says_what_is_wrong_with_a_file(content: bytes, message: str, root: Path) -> None:
    (root / "x.parquet").write_bytes(content)
    with pytest.raises(InputError, match=message):
        list(volume.open_source(root).scan(Notes()))


def test_a_file_with_paths_in_place_of_images_is_refused(
    root: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (root / "x.parquet").write_bytes(hugging_face([("cat", None), ("dog", None)], NAMES))
    options = ("--source", str(root), "--shards", "1")
    said = refused(capfd, *options, "--data", str(tmp_path / "data"))
    assert "row group 0 has no images, perhaps only their paths" in said


def test_a_changed_file_is_noticed(
    root: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (root / "x.parquet").write_bytes(hugging_face(rows(IMAGES), NAMES))
    data = tmp_path / "data"
    key = run_index(root, data, "--shards", "1")["key"]
    (root / "x.parquet").write_bytes(hugging_face(rows(IMAGES)[::-1], NAMES))
    assert pack.main(["--data", str(data), "--key", key, "--source", str(root)]) == 3
    assert "x.parquet: is another file: the source has changed" in capfd.readouterr().err
    assert run_index(root, data, "--shards", "1")["key"] != key


def test_a_folder_in_a_parquet_file_is_refused(root: Path) -> None:
    (root / "x.parquet").write_bytes(plain(rows(IMAGES)))
    with pytest.raises(InputError, match="has no folders; remove pathInArchive"):
        volume.open_source(root / "x.parquet", "train")


def test_without_pyarrow_the_error_says_what_to_install(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "x.parquet").write_bytes(plain(rows(IMAGES)))
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(InputError, match=r"pip install 'imagenet-workloads\[parquet\]'"):
        list(volume.open_source(root).scan(Notes()))


def test_a_file_on_a_server_is_read_by_ranges(tmp_path: Path) -> None:
    # Much larger than the images of one row group.
    content = hugging_face(rows(IMAGES) + [("dog", jpeg(7, 1000, 1000))] * 20, NAMES, group=4)
    with FileServer({"/x.parquet": content}).running() as server:
        options = ["--http-file", "x.parquet", f"{server.url}/x.parquet"]
        dataset = prepare_remote(tmp_path / "data", options, "--shards", "1")
        assert {request.headers.get("Range") is None for request in server.requests} == {False}
        (tmp_path / "x.parquet").write_bytes(content)
        local = prepare(tmp_path / "x.parquet", tmp_path / "local", "--shards", "1")
        assert jpegs(dataset) == jpegs(local)
        # The key is of the ETag: the same bytes under another one are another dataset.
        again = run_index(None, tmp_path / "data", *options, "--shards", "1")
        assert (again["key"], again["sealed"]) == (dataset.name, True)
        cached = prepare_fetched(tmp_path / "cache", tmp_path / "cached", options, "--shards", "1")
        assert cached.name == dataset.name
        assert (cached / "dataset.json").read_bytes() == (dataset / "dataset.json").read_bytes()
        server.tags["/x.parquet"] = '"another"'
        assert run_index(None, tmp_path / "data", *options, "--shards", "1")["key"] != dataset.name
        assert contents(dataset)


class Failing(BytesBlob):
    """A file whose server goes away after its footer was read."""

    is_gone = False

    def read(self, offset: int, size: int) -> bytes:
        if self.is_gone:
            raise WorkloadError("the server cannot be reached")
        return super().read(offset, size)


def test_a_server_that_goes_away_is_no_damage_of_the_file() -> None:
    blob = Failing(hugging_face(rows(IMAGES), NAMES))
    file = open_parquet(blob)
    blob.is_gone = True
    with pytest.raises(WorkloadError, match="cannot be reached") as raised:
        file.labels(0, blob)
    assert not isinstance(raised.value, InputError)
