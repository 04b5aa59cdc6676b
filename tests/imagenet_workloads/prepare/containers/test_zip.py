"""Zips as zipfile writes them: stored, deflated, streamed, zip64; and what is wrong with others."""

import io
import struct
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagenet_workloads.dataset import read_dataset
from imagenet_workloads.errors import WorkloadError
from imagenet_workloads.prepare.containers.archive import Kind
from imagenet_workloads.prepare.containers.zip import ZipArchive
from imagenet_workloads.prepare.source import Notes
from imagenet_workloads.prepare.sources import volume
from imagenet_workloads.prepare.stores.blob import DamagedImageError
from imagenet_workloads.prepare.stores.volume import File
from support.blobs import BytesBlob
from support.pictures import TIME, jpeg, tar, zipped
from support.preparation import prepare
from support.sentences import says

FILES = {
    "a/1.jpg": b"x" * 3000,
    "a/empty.jpg": b"",
    "b/2.jpg": bytes(range(256)) * 40,
    "é/雪.jpg": b"snow",
}


class Unseekable(io.RawIOBase):
    """A pipe: what is written cannot be corrected later."""

    def __init__(self) -> None:
        self.written = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        assert isinstance(data, (bytes, bytearray, memoryview))
        self.written += data
        return len(data)


def streamed(files: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """A zip whose local headers have no sizes, as of `zip - | …`."""
    stream = Unseekable()
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return bytes(stream.written)


def contents(content: bytes) -> dict[str, bytes]:
    archive = ZipArchive(BytesBlob(content))
    return {
        one.name: archive.read(one.name, one.offset, one.size)
        for one in archive.members()
        if one.kind is Kind.FILE
    }


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_reads_stored_deflated_and_streamed_members(method: int) -> None:
    assert contents(zipped(FILES, method)) == FILES
    assert contents(streamed(FILES, method)) == FILES
    # A program that unpacks itself has bytes before the zip.
    assert contents(b"#!/bin/sh\n" * 99 + zipped(FILES, method)) == FILES


def test_lists_folders_links_and_times() -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.mkdir("a")
        link = zipfile.ZipInfo("a/link.jpg")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "1.jpg")
        plain = zipfile.ZipInfo("./a\\b.jpg", (2017, 7, 14, 2, 40, 0))
        plain.create_system = 0
        archive.writestr(plain, b"x")
    found = {one.name: one for one in ZipArchive(BytesBlob(buffer.getvalue())).members()}
    assert [(name, one.kind) for name, one in found.items()] == [
        ("a", Kind.FOLDER),
        ("a/link.jpg", Kind.LINK),
        ("./a\\b.jpg".removeprefix("./"), Kind.FILE),
    ]
    assert found["a\\b.jpg"].mtime == TIME * 10**9


def test_reads_what_only_zip64_can_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A member beyond 4 GiB, in a file with a hole, and more than 65,535 members.
    path = tmp_path / "x.zip"
    with path.open("wb") as file:
        file.truncate(5 << 30)
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        for name, content in FILES.items():
            archive.writestr(name, content)
    blob = File(path)
    found = list(ZipArchive(blob).members())
    assert min(one.offset for one in found) == 5 << 30
    read = {one.name: ZipArchive(blob).read(one.name, one.offset, one.size) for one in found}
    assert read == FILES
    blob.close()
    # Sizes that only zip64's fields have.
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 10)
    assert contents(zipped(FILES)) == FILES
    many = zipped({f"a/{n}.jpg": b"" for n in range(65_600)})
    assert sum(1 for _ in ZipArchive(BytesBlob(many)).members()) == 65_600


def test_a_zip_becomes_the_dataset_of_its_images(tmp_path: Path) -> None:
    images = {f"{name}/{n}.jpg": jpeg(n) for name in ("a", "b") for n in range(4)}
    sealed = []
    for name, content in (
        ("x.tar", tar(images)),
        ("stored.zip", zipped(images)),
        ("streamed.zip", streamed(images)),
        ("x.zip", zipped({f"{c}.zip": zipped(
            {f"{n}.jpg": jpeg(n) for n in range(4)}, zipfile.ZIP_DEFLATED) for c in "ab"})),
        ("t.zip", zipped({f"{c}.tar": tar({f"{n}.jpg": jpeg(n) for n in range(4)}) for c in "ab"})),
        ("z.tar", tar({f"{c}.zip": zipped({f"{n}.jpg": jpeg(n) for n in range(4)}) for c in "ab"})),
    ):  # fmt: skip
        (tmp_path / name).write_bytes(content)
        dataset = prepare(tmp_path / name, tmp_path / f"{name}-data", "--shards", "1")
        sealed.append(read_dataset(dataset))
    assert {one.classes for one in sealed} == {("a", "b")}
    assert {one.train.shards[0].sha256 for one in sealed} == {sealed[0].train.shards[0].sha256}


def test_a_damaged_member_is_a_damaged_image() -> None:
    content = bytearray(zipped({"a/1.jpg": b"y" * 500}))
    place = content.index(b"yyyy")
    content[place] = 0
    with pytest.raises(DamagedImageError, match="another checksum"):
        contents(bytes(content))
    content = bytearray(zipped({"a/1.jpg": bytes(range(250)) * 9}, zipfile.ZIP_DEFLATED))
    content[60:70] = b"\xff" * 10
    with pytest.raises(DamagedImageError, match=r"does not decompress|is cut off"):
        contents(bytes(content))


def encrypted(content: bytes) -> bytes:
    """A zip whose entries say that they are encrypted."""
    changed = bytearray(content)
    place = -1
    while (place := content.find(b"PK\x01\x02", place + 1)) >= 0:
        changed[place + 8] |= 1
    return bytes(changed)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (zipped({"a/1.jpg": b"x"})[:-30], "has no central directory, so it is truncated"),
        (encrypted(zipped({"a/1.jpg": b"x"})), "a/1.jpg is encrypted; make the archive again"),
        (zipped({"a/1.jpg": b"x"}, zipfile.ZIP_LZMA), "by another method than deflate; make .* -0"),
        (zipped({"1.jpg": b"x"}), r"in no folders.*--validation-source"),
        (zipped({"n1.zip": zipped({"1.jpg": b"x"})}, zipfile.ZIP_DEFLATED),
         r"inner archive n1\.zip is compressed, .*; unpack the outer archive"),
        (zipped({"README": b"x"}), "holds neither images nor archives of images"),
        (zipped({"a/1.jpg": b"x"}).replace(b"PK\x01\x02", b"PK\x01\x03"), "no entry of a zip at"),
    ],
)  # fmt: skip
def test_says_what_is_wrong_with_a_zip(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    path.write_bytes(content)
    with pytest.raises(WorkloadError, match=rf"{path}: .*{message}|{path}: {message}"):
        list(volume.open_source(path).scan(Notes()))


def test_a_zip_that_changed_since_it_was_listed_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    path.write_bytes(zipped({"a/1.jpg": b"x" * 99, "a/2.jpg": b"y"}))
    source = volume.open_source(path)
    _, second = source.scan(Notes())
    path.write_bytes(zipped({"a/3.jpg": b"x" * 99, "a/4.jpg": b"y"}))
    with pytest.raises(WorkloadError, match=says("a/2.jpg is not at byte", "has changed since")):
        source.read(second.name, second.offset, second.size)
    source.close()


@given(position=st.integers(0, 10_000), byte=st.integers(0, 255))
def test_any_damaged_byte_gives_an_error_of_ours_or_images(position: int, byte: int) -> None:
    content = bytearray(zipped(FILES, zipfile.ZIP_DEFLATED))
    content[position % len(content)] = byte
    with suppress(WorkloadError, DamagedImageError):
        contents(bytes(content))


def test_an_empty_zip_has_no_members() -> None:
    assert struct.pack("<18x") in zipped({})
    assert contents(zipped({})) == {}
