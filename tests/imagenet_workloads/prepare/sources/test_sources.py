"""Each kind of source lists the same images, reads each in place, and refuses what it must."""

import gzip
import io
import tarfile
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare.entry_names import is_image
from imagenet_workloads.prepare.source import Image, Notes, Source
from imagenet_workloads.prepare.sources import volume
from imagenet_workloads.prepare.stores.volume import File
from support.pictures import (
    TIME,
    Collection,
    collection,
    tar,
    write_folder,
    write_tar_of_folders,
    write_tar_of_tars,
    write_zip_of_folders,
    write_zip_of_zips,
)

IMAGES = collection({"n01": 3, "n02": 2, "n10": 1})
WRITERS: dict[str, Callable[[Path, Collection], Path]] = {
    "folder of folders": write_folder,
    "tar of tars": write_tar_of_tars,
    "tar of folders": write_tar_of_folders,
    "zip of folders": write_zip_of_folders,
    "zip of zips": write_zip_of_zips,
}


def scanned(source: Source) -> tuple[list[Image], Notes]:
    notes = Notes()
    return list(source.scan(notes)), notes


@pytest.mark.parametrize("kind", WRITERS)
def test_lists_and_reads_every_image(kind: str, tmp_path: Path) -> None:
    source = volume.open_source(WRITERS[kind](tmp_path / "source", IMAGES))
    assert source.kind == kind
    images, notes = scanned(source)
    assert (notes.ignored, notes.empty) == (0, [])
    found: Collection = {}
    for image in images:
        content = source.read(image.name, image.offset, image.size)
        found.setdefault(image.class_name, {})[image.name.rpartition("/")[2]] = content
    assert found == IMAGES
    assert images == scanned(source)[0]
    if kind != "folder of folders":
        assert {image.mtime for image in images} == {TIME * 10**9}
    source.close()


def test_inner_archives_are_listed_at_the_same_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_tar_of_tars(tmp_path / "source", IMAGES)
    with tarfile.open(path) as outer:
        unread = {member.offset_data for member in outer.getmembers()}
    source = volume.open_source(path)
    all_are_read = threading.Barrier(len(unread), timeout=60)
    read = File.read

    def together(file: File, offset: int, size: int) -> bytes:
        if offset in unread:
            unread.remove(offset)
            all_are_read.wait()
        return read(file, offset, size)

    monkeypatch.setattr(File, "read", together)
    images, _ = scanned(source)
    assert [image.class_name for image in images] == ["n01"] * 3 + ["n02"] * 2 + ["n10"]
    assert not unread
    source.close()


@pytest.mark.parametrize("kind", WRITERS)
def test_tells_how_far_it_is(kind: str, tmp_path: Path) -> None:
    source = volume.open_source(WRITERS[kind](tmp_path / "source", IMAGES))
    notes = Notes()
    shares = [notes.share for _ in source.scan(notes)]
    assert shares == sorted(shares)
    assert len(set(shares)) >= 3, "at least one step a class"
    assert 0 <= shares[0] < shares[-1] < 1
    source.close()


def test_a_folder_is_listed_by_name_and_images_may_lie_deeper(tmp_path: Path) -> None:
    for name in ("b/2.png", "b/10.png", "a/images/x.jpg", "a/y.jpg", "B/1.bmp"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    images, _ = scanned(volume.open_source(tmp_path))
    assert [(image.class_name, image.name) for image in images] == [
        ("B", "B/1.bmp"),
        ("a", "a/images/x.jpg"),
        ("a", "a/y.jpg"),
        ("b", "b/10.png"),
        ("b", "b/2.png"),
    ]


def test_follows_links_in_folders_and_names_a_dangling_one(tmp_path: Path) -> None:
    # As Kubernetes mounts ConfigMaps and Secrets.
    elsewhere = tmp_path / "source" / "..data"
    write_folder(elsewhere, {"a": {"1.jpg": b"x"}})
    (tmp_path / "source" / "a").symlink_to(elsewhere / "a")
    source = volume.open_source(tmp_path / "source")
    assert [image.size for image in scanned(source)[0]] == [1]
    (elsewhere / "a" / "2.jpg").symlink_to("nothing")
    with pytest.raises(InputError, match=r"a/2\.jpg: cannot be accessed"):
        scanned(source)


def test_passes_over_what_is_no_image_and_counts_it(tmp_path: Path) -> None:
    write_folder(tmp_path, {"a": {"1.jpg": b"x", "._1.jpg": b"", "notes.txt": b""}, "empty": {}})
    write_folder(tmp_path, {".cache": {"1.jpg": b"x"}, "lost+found": {"1.jpg": b"x"}})
    (tmp_path / "README").touch()
    images, notes = scanned(volume.open_source(tmp_path))
    assert [image.name for image in images] == ["a/1.jpg"]
    assert (notes.ignored, notes.empty) == (3, ["empty"])
    assert notes.suffixes == {".txt": 1, "hidden": 1, "none": 1}


def test_tars_pass_over_what_is_no_image_too(tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    inner = tar({"a/1.jpg": b"x", "a/._1.jpg": b"", "a/LICENSE": b"", "2.JPEG": b"y"})
    path.write_bytes(tar({"n1.tar": inner, "README": b"", "n2.tar": b"", "n3.tar": tar({})}))
    images, notes = scanned(volume.open_source(path))
    assert [image.name for image in images] == ["n1.tar/a/1.jpg", "n1.tar/2.JPEG"]
    assert (notes.ignored, notes.empty) == (3, ["n2", "n3"])
    assert notes.suffixes == {"hidden": 1, "none": 2}
    many = {f"data/a/{number}.jpg": b"x" for number in range(100)}
    path.write_bytes(tar({**many, "data/list.txt": b"", "data/stray.jpg": b""}))
    images, notes = scanned(volume.open_source(path, "data"))
    assert [(image.class_name, image.name) for image in images] == [("a", name) for name in many]
    assert notes.ignored == 1
    assert notes.left_out == {"beside the class folders": (1, "data/stray.jpg")}


def test_compressed_archives_in_an_archive_are_passed_over_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    members = {"n1.tar": tar({"1.jpg": b"x"}), "n2.tar.gz": b"", "n3.TGZ": b"", "n4.tar.gz": b""}
    path.write_bytes(tar(members))
    images, notes = scanned(volume.open_source(path))
    assert [image.class_name for image in images] == ["n1"]
    assert notes.suffixes == {".tar.gz": 2, ".tgz": 1}


def test_few_suffixes_are_told_apart(tmp_path: Path) -> None:
    names = [f"a/{number}.s{number}" for number in range(100)] + ["a/x." + "y" * 200, "a/x. \x01"]
    (tmp_path / "x.tar").write_bytes(tar({"a/1.jpg": b"x", **dict.fromkeys(names, b"")}))
    _, notes = scanned(volume.open_source(tmp_path / "x.tar"))
    assert notes.ignored == notes.suffixes.total() == 102
    assert notes.suffixes["other"] == 102 - 15
    assert len(notes.suffixes) == 16


@pytest.mark.parametrize(
    ("members", "message"),
    [
        (
            {"a/x.tar": tar({"1.jpg": b""}), "b/x.tar": tar({"1.jpg": b""})},
            "two archives called x.tar",
        ),
        (
            {f"{top}/{name}/1.jpg": b"" for top in ("first", "second") for name in ("n1", "n2")},
            "first and second both hold n1, n2",
        ),
        ({"a\x01/1.jpg": b""}, "control characters"),
        ({b"caf\xe9/1.jpg".decode("utf-8", "surrogateescape"): b""}, "not UTF-8"),
        (
            {"n1.tar": tar({"1.jpg": b"x"}), "n2.tar": gzip.compress(tar({"1.jpg": b"x"}))},
            r"n2\.tar: is compressed .gzip",
        ),
        ({"n1.tar": tar({"1.jpg": b"x" * 600})[:900]}, r"n1\.tar: its member 1\.jpg is not whole"),
    ],
)
def test_refuses_what_would_mix_classes_up(
    members: dict[str, bytes], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "x.tar"
    path.write_bytes(tar(members))
    source = volume.open_source(path)
    with pytest.raises(InputError, match=message):
        scanned(source)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            gzip.compress(tar({"a/1.jpg": b""}), mtime=0),
            "compressed .gzip.*decompress it first by gunzip",
        ),
        (b"PK\x03\x04" + bytes(600), "the zip has no central directory, so it is truncated"),
        (b"\xff\xd8" * 600, "neither a folder nor a tar or zip archive"),
        (tar({"1.jpg": b"x"}), "in no folders.*--validation-source"),
        (tar({"n1.tar.gz": b"x"}), "inner archive n1.tar.gz is compressed"),
        (tar({"readme.txt": b"x"}), "neither images nor archives"),
        (b"", "truncated at byte 0"),
    ],
)
def test_says_what_is_wrong_with_a_file(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        scanned(volume.open_source(path))


def test_says_that_there_is_no_such_path(tmp_path: Path) -> None:
    for opens in (volume.open_source, volume.open_flat):
        with pytest.raises(InputError, match="nowhere: no such file or folder"):
            opens(tmp_path / "nowhere")


@pytest.mark.parametrize("kind", [tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE])
def test_a_pipe_or_a_device_in_a_tar_is_passed_over(kind: bytes, tmp_path: Path) -> None:
    def write(name: str, image: str, other: str, content: bytes) -> Path:
        path = tmp_path / name
        with tarfile.open(path, "w") as archive:
            passed_over, kept = tarfile.TarInfo(other), tarfile.TarInfo(image)
            passed_over.type, kept.size = kind, len(content)
            archive.addfile(passed_over)
            archive.addfile(kept, io.BytesIO(content))
        return path

    sources = (
        volume.open_source(write("folders.tar", "a/1.jpg", "a/2.jpg", b"x")),
        volume.open_flat(write("flat.tar", "1.jpg", "2.jpg", b"x")),
        volume.open_source(write("tars.tar", "n1.tar", "n2.tar", tar({"1.jpg": b"x"}))),
    )
    for source in sources:
        images, notes = scanned(source)
        assert [image.name.rpartition("/")[2] for image in images] == ["1.jpg"]
        assert notes.ignored == 1
        source.close()


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE])
def test_a_link_in_a_tar_is_an_error_with_the_way_out(kind: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    with tarfile.open(path, "w") as archive:
        archive.addfile(tarfile.TarInfo("a/1.jpg"))
        link = tarfile.TarInfo("a/2.jpg")
        link.type, link.linkname = kind, "a/1.jpg"
        archive.addfile(link)
    with pytest.raises(InputError, match=r"a/2\.jpg is a link.*--dereference"):
        scanned(volume.open_source(path))


def test_a_source_that_changed_is_noticed(tmp_path: Path) -> None:
    root = write_folder(tmp_path / "folder", {"a": {"1.jpg": b"xy"}})
    source = volume.open_source(root)
    (image,) = scanned(source)[0]
    (root / "a/1.jpg").write_bytes(b"longer")
    with pytest.raises(InputError, match="6 bytes in place of 2: the source has changed"):
        source.read(image.name, image.offset, image.size)
    (root / "a/1.jpg").unlink()
    with pytest.raises(InputError, match="is gone: the source has changed"):
        source.read(image.name, image.offset, image.size)


@pytest.mark.parametrize("offset", [512, 1024, 700, 10**6])
def test_a_tar_that_changed_is_noticed(offset: int, tmp_path: Path) -> None:
    path = write_tar_of_folders(tmp_path / "x.tar", {"a": {"1.jpg": b"x" * 100, "2.jpg": b"y"}})
    source = volume.open_source(path)
    assert source.read("a/1.jpg", 512, 100) == b"x" * 100
    with pytest.raises(InputError, match="the source has changed"):
        source.read("a/1.jpg", offset, 99)
    source.close()


def test_flat_sources_list_images_without_classes(tmp_path: Path) -> None:
    members = {"b.JPEG": b"1", "a.JPEG": b"22", "list.txt": b""}
    root = tmp_path / "val"
    root.mkdir()
    for name, content in members.items():
        (root / name).write_bytes(content)
    path = tmp_path / "val.tar"
    path.write_bytes(tar({f"val/{name}": content for name, content in members.items()}))
    for place, kind, expected in (
        (root, "flat folder", ["a.JPEG", "b.JPEG"]),
        (path, "flat tar", ["val/b.JPEG", "val/a.JPEG"]),
    ):
        source = volume.open_flat(place)
        images, notes = scanned(source)
        assert source.kind == kind
        assert [image.name for image in images] == expected
        assert {image.class_name for image in images} == {""}
        assert notes.ignored == 1
        for image in images:
            content = source.read(image.name, image.offset, image.size)
            assert content == members[image.name.rpartition("/")[2]]
        source.close()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.JPEG", True), ("a/b.jpg", True), ("x.Png", True), ("x.tiff", True), ("x.bmp", True),
        ("x.txt", False), ("jpg", False), (".jpg", False), ("a/._b.jpg", False), ("x.jpg/", False),
        ("x.tar", False), ("", False),
    ],
)  # fmt: skip
def test_tells_images_by_their_names(name: str, expected: bool) -> None:
    assert is_image(name) is expected


def test_reads_from_several_places_of_one_tar_at_once(tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    many = {"a": {f"{number}.jpg": bytes([number]) * 2000 for number in range(100)}}
    source = volume.open_source(write_tar_of_tars(tmp_path / "x.tar", many))
    images = scanned(source)[0]
    with ThreadPoolExecutor(8) as pool:
        found = pool.map(lambda image: source.read(image.name, image.offset, image.size), images)
        assert list(found) == list(many["a"].values())
    source.close()
