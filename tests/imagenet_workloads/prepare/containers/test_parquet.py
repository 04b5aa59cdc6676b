"""Parquet files as a source: on a volume, on a server and in a bucket, read by row groups."""

import sys
import threading
import zipfile
from pathlib import Path

import pyarrow as pa
import pytest

from imagenet_workloads.commands import pack
from imagenet_workloads.dataset import read_dataset
from imagenet_workloads.errors import InputError, WorkloadError
from imagenet_workloads.prepare.containers import archive as archives
from imagenet_workloads.prepare.containers.parquet import ParquetFile, open_parquet
from imagenet_workloads.prepare.containers.zip import ZipArchive
from imagenet_workloads.prepare.source import Notes
from imagenet_workloads.prepare.sources import volume
from imagenet_workloads.prepare.stores.blob import Blob
from support.blobs import BytesBlob
from support.file_server import FileServer
from support.parquet_files import hugging_face, plain, rows, written
from support.pictures import collection, jpeg, tar, write_folder, zipped
from support.preparation import contents, prepare, records, refused, run_index
from support.remote_preparation import files_on_server, prepare_fetched, prepare_remote
from support.sentences import assert_says, says

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


TYPES: dict[str, tuple[pa.Array, tuple[str, ...] | str]] = {
    "float": (pa.array([1.0, 2.0]), ("1", "2")),
    "bool": (pa.array([True, False]), ("true", "false")),
    "binary": (pa.array([b"a", b"b"]), ("a", "b")),
    "large_binary": (pa.array([b"a", b"b"], pa.large_binary()), ("a", "b")),
    "binary_view": (pa.array([b"a", b"b"], pa.binary_view()), ("a", "b")),
    "string_view": (pa.array(["a", "b"], pa.string_view()), ("a", "b")),
    "dictionary": (pa.array(["a", "b"]).dictionary_encode(), ("a", "b")),
    "broken numbers": (pa.array([1.5, 2.0]), r"row 0 has no class \(label is 1\.5\)"),
    "not a number": (pa.array([1.0, float("nan")]), r"row 1 has no class \(label is nan\)"),
    "infinite": (pa.array([1.0, float("inf")]), r"row 1 has no class \(label is inf\)"),
    "no text": (pa.array([b"\xff", b"b"]), r"the class name '\\udcff' is not UTF-8"),
    "lists": (
        pa.array([[1], [2]]),
        r"its column label is of the type list<.*; write whole",
    ),
    "dates": (pa.array([1, 2], pa.date32()), r"its column label is of the type date32\[day\]"),
}


@pytest.mark.parametrize("name", TYPES)
def test_labels_may_be_of_these_types(name: str, root: Path) -> None:
    labels, expected = TYPES[name]
    # Images in a column of any name beside a binary column of labels.
    table = pa.table({"anything": pa.array([b"x", b"y"]), "label": labels})
    (root / "x.parquet").write_bytes(written(table, 10))
    source = volume.open_source(root / "x.parquet")
    if isinstance(expected, str):
        with pytest.raises(InputError, match=expected):
            list(source.scan(Notes()))
    else:
        assert tuple(image.class_name for image in source.scan(Notes())) == expected


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize(
    ("labels", "is_right"), [([0, 1], True), (["dog", "cat"], True), (["0", "1"], False)]
)
def test_the_names_of_labels_in_one_file_are_those_of_all(
    labels: list[int] | list[str], is_right: bool, order: int, root: Path
) -> None:
    plainly = pa.table({"image": pa.array([b"x", b"y"]), "label": pa.array(labels)})
    files = [hugging_face(rows(IMAGES)[:2], NAMES, labels=[0, 1]), written(plainly, 10)][::order]
    for number, content in enumerate(files):
        (root / f"{number}.parquet").write_bytes(content)
    source = volume.open_source(root)
    if is_right:
        assert [one.class_name for one in source.scan(Notes())] == ["dog", "cat"] * 2
    else:
        with pytest.raises(
            InputError, match=says("has the label 0", "which is none of the 2 class names")
        ):
            list(source.scan(Notes()))


def test_a_file_of_another_name_is_refused(root: Path) -> None:
    for name in ("train-0", "train-1", "extra-0"):
        (root / f"{name}.parquet").write_bytes(plain(rows(IMAGES)))
    with pytest.raises(InputError, match=r"train-0\.parquet names a split and extra-0.par"):
        volume.open_source(root)


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
    assert_says(said, "x.parquet", "row group 0", "no images", "only their paths")


def test_a_changed_file_is_noticed(
    root: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (root / "x.parquet").write_bytes(hugging_face(rows(IMAGES), NAMES))
    data = tmp_path / "data"
    key = run_index(root, data, "--shards", "1")["key"]
    (root / "x.parquet").write_bytes(hugging_face(rows(IMAGES)[::-1], NAMES))
    assert pack.main(["--data", str(data), "--key", key, "--source", str(root)]) == 3
    assert_says(capfd.readouterr().err, "x.parquet: ", "another file", "the source has changed")
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
    with pytest.raises(InputError, match="pip install pyarrow"):
        list(volume.open_source(root).scan(Notes()))


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("folder", ["", "data/", "imagenet/train/"])
def test_a_zip_of_files_is_the_dataset_of_these(
    folder: str, method: int, root: Path, tmp_path: Path
) -> None:
    every = rows(IMAGES)
    parts = {f"{n:04}.parquet": hugging_face(part, NAMES) for n, part in
             enumerate((every[:4], every[4:7], every[7:]))}  # fmt: skip
    for name, content in parts.items():
        (root / name).write_bytes(content)
    path = tmp_path / "x.zip"
    named = {f"{folder}{name}": content for name, content in parts.items()}
    path.write_bytes(zipped({"README.md": b"x", **named}, method))
    dataset = prepare(path, tmp_path / "zip", *DATASET)
    assert read_dataset(dataset).classes == ("cat", "dog")
    assert jpegs(dataset) == jpegs(prepare(root, tmp_path / "data", *DATASET))


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_files_of_a_validation_split_in_a_zip_validate(method: int, tmp_path: Path) -> None:
    every = rows(IMAGES)
    content = {
        "data/train-0.parquet": hugging_face(every[:8], NAMES),
        "data/validation-0.parquet": hugging_face(every[8:], NAMES),
        "other/train-0.parquet": hugging_face(every[8:], NAMES),
    }
    (tmp_path / "x.zip").write_bytes(zipped(content, method))
    options = ("--shards", "2", "--path-in-archive", "data")
    sealed = read_dataset(prepare(tmp_path / "x.zip", tmp_path / "data", *options))
    assert (sealed.train.images, sealed.validation.images) == (8, 3)


def test_a_tar_of_files_is_read_in_place(tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    path.write_bytes(tar({"x.parquet": hugging_face(rows(IMAGES), NAMES)}))
    assert read_dataset(prepare(path, tmp_path / "data", *DATASET)).train.per_class == (5, 4)


@pytest.mark.parametrize("cut", ["content", "checksum"])
def test_a_damaged_file_in_a_zip_is_named(
    cut: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    content = zipped({"a/x.parquet": hugging_face(rows(IMAGES), NAMES)}, zipfile.ZIP_DEFLATED)
    # The first deflated block, or the checksum in the local header.
    place = 30 + len("a/x.parquet") + 40 if cut == "content" else 14
    damaged = content[:place] + bytes((content[place] ^ 0xFF,)) + content[place + 1 :]
    (tmp_path / "x.zip").write_bytes(damaged)
    error = refused(capfd, "--source", tmp_path / "x.zip", "--data", tmp_path / "data")
    assert_says(error, "x.zip: a/x.parquet ", "is damaged", "copy or download it again")


def test_a_large_deflated_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    content = hugging_face(rows(IMAGES), NAMES)
    monkeypatch.setattr(archives, "LARGEST", len(content) - 1)
    for method, is_refused in ((zipfile.ZIP_DEFLATED, True), (zipfile.ZIP_STORED, False)):
        (tmp_path / "x.zip").write_bytes(zipped({"x.parquet": content}, method))
        if not is_refused:
            run_index(tmp_path / "x.zip", tmp_path / "data", "--shards", "1")
            continue
        error = refused(capfd, "--source", tmp_path / "x.zip", "--data", tmp_path / "data")
        assert "and is compressed; at most" in error


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_few_inflated_files_are_kept(tmp_path: Path) -> None:
    content = {f"{n}.parquet": hugging_face(rows(IMAGES), NAMES) for n in range(5)}
    blob = BytesBlob(zipped(content, zipfile.ZIP_DEFLATED))
    archive = ZipArchive(blob)
    files = archives.FilesOfArchive(archive, list(archive.members()))
    before = open_files()
    opened = [files.open(name) for name in files.names]
    for one, expected in zip(opened, content.values(), strict=True):
        assert one.read(0, one.size) == expected
        one.close()
    assert open_files() - before == 2
    files.close()
    files.close()
    assert open_files() == before


def test_a_file_on_a_server_is_read_by_ranges(tmp_path: Path) -> None:
    # Much larger than the images of one row group.
    content = hugging_face(rows(IMAGES) + [("dog", jpeg(7, 1000, 1000))] * 20, NAMES, group=4)
    with FileServer({"/x.parquet": content}).running() as server:
        options = files_on_server(server.url, "x.parquet")
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


class Watched(BytesBlob):
    """A blob that notes which thread reads which range."""

    def __init__(self, content: bytes) -> None:
        super().__init__(content)
        self.ranges: list[tuple[int, int]] = []
        self.threads: set[int] = set()

    def read(self, offset: int, size: int) -> bytes:
        self.ranges.append((offset, size))
        self.threads.add(threading.get_ident())
        return super().read(offset, size)


def test_a_column_is_one_range_that_the_thread_that_asks_reads() -> None:
    """A thread of pyarrow that holds a file when Python ends would end it by SIGABRT."""
    blob = Watched(hugging_face(rows(IMAGES), NAMES))
    file = open_parquet(blob)
    blob.ranges.clear()
    assert len(file.labels(0, blob)) == len(file.images(0, blob)) == 4
    assert len(blob.ranges) == 2
    assert blob.threads == {threading.get_ident()}
