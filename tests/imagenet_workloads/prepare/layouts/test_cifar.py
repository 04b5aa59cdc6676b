"""CIFAR-10 and CIFAR-100, in both versions: folders, tars, compressed tars, files of a server."""

import bz2
import gzip
import hashlib
import lzma
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from imagenet_workloads.commands import index
from imagenet_workloads.dataset import read_dataset
from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare.layouts import cifar
from imagenet_workloads.prepare.source import Notes
from imagenet_workloads.prepare.sources import volume
from support.cifar import LABELS, NAMES, TEST, VERSIONS, seeds
from support.file_server import FileServer
from support.pictures import decode, difference, pixels, tar, zipped
from support.preparation import contents, prepare, records, refused, run_index
from support.remote_preparation import files_on_server, prepare_fetched, prepare_remote
from support.sentences import says


def write(path: Path, version: str, how: str) -> Path:
    files = {f"{version}/{name}": content for name, content in VERSIONS[version].items()}
    if how == "folder":
        for name, content in files.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_bytes(content)
        return path
    packed: dict[str, Callable[[], bytes]] = {
        "tar": lambda: tar(files),
        "zip": lambda: zipped(files),
        "gz": lambda: gzip.compress(tar(files), mtime=0),
        "bz2": lambda: bz2.compress(tar(files)),
        "xz": lambda: lzma.compress(tar(files)),
    }
    path.write_bytes(packed[how]())
    return path


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("how", ["folder", "gz"])
def test_every_version_becomes_the_same_dataset(version: str, how: str, tmp_path: Path) -> None:
    source = write(tmp_path / "source", version, how)
    options = ("--shards", "1", "--default-validation-per-class", "1", "--quality", "98")
    dataset = prepare(source, tmp_path / "data", *options)
    sealed = read_dataset(dataset)
    assert sealed.classes == NAMES
    assert (sealed.train.images, sealed.train.per_class) == (15, (6, 2, 7))
    assert (sealed.validation.images, sealed.validation.per_class) == (4, (1, 2, 1))
    if "100" not in version:
        expected = {
            split: sorted(
                (label, seed)
                for name, labels in batches.items()
                for label, seed in zip(labels, seeds(name, labels), strict=True)
            )
            for split, batches in (("train", LABELS), ("validation", {"test": TEST}))
        }
        for record in records(dataset):
            found = decode(record.jpeg)
            nearest = min(
                (difference(found, pixels(seed, 32, 32)), label)
                for label, seed in expected[record.split]
            )
            assert nearest[1] == record.label
            assert nearest[0] < 8
    # Neither in the volume nor beside it is anything left of the decompressed archive.
    assert {path.name for path in (tmp_path / "data").iterdir()} == {"datasets"}


@pytest.mark.parametrize("how", ["gz", "tar"])
@pytest.mark.parametrize("knows_ranges", [True, False])
def test_an_archive_of_a_server_is_the_dataset_of_a_volume(
    how: str, knows_ranges: bool, tmp_path: Path
) -> None:
    # One version suffices: a server only has its archive.
    source = write(tmp_path / "source", "cifar-10-batches-py", how)
    options = ("--shards", "1", "--quality", "98")
    local = prepare(source, tmp_path / "local", *options)
    content = source.read_bytes()
    files = FileServer({"/cifar.tar.gz": content}, knows_ranges=knows_ranges)
    digest = hashlib.md5(content, usedforsecurity=False).hexdigest()
    with files.running() as server:
        named = files_on_server(server.url, "cifar.tar.gz")
        checked = files_on_server(server.url, "cifar.tar.gz", checksum=f"md5:{digest}")
        cache = tmp_path / "cache"
        found = [prepare_fetched(cache, tmp_path / "fetched", checked, *options)]
        asked = len(server.requests)
        # A file with the checksum of the manifest is not asked for again.
        found.append(prepare_fetched(cache, tmp_path / "again", checked, *options))
        assert len(server.requests) == asked
        if how == "tar" and knows_ranges:
            found.append(prepare_remote(tmp_path / "in place", named, *options))
    for remote in found:
        assert remote.name == local.name
        assert (remote / "dataset.json").read_bytes() == (local / "dataset.json").read_bytes()
        assert (
            contents(remote)["train-00000-of-00001.rec"]
            == contents(local)["train-00000-of-00001.rec"]
        )


@pytest.mark.parametrize("how", ["tar", "zip", "bz2", "xz"])
def test_any_archive_of_it_will_do(how: str, tmp_path: Path) -> None:
    source = volume.open_source(
        write(tmp_path / "x", "cifar-10-batches-bin", how), None, tmp_path / "scratch"
    )
    images = list(source.scan(Notes()))
    assert [image.class_name for image in images[:3]] == ["ship", "truck", "airplane"]
    png = source.read(images[1].name, images[1].offset, images[1].size)
    assert np.array_equal(decode(png), pixels(101, 32, 32))
    source.close()


@pytest.mark.parametrize("version", VERSIONS)
def test_another_pixel_is_another_dataset(version: str, tmp_path: Path) -> None:
    source = write(tmp_path / "source", version, "folder")
    before = run_index(source, tmp_path / "data", "--shards", "1")["key"]
    assert run_index(source, tmp_path / "data", "--shards", "1")["key"] == before
    for part in ("1", "test"):
        (path,) = (
            path
            for path in (source / version).iterdir()
            if part in path.name or (part == "1" and path.name.startswith("train"))
        )
        content = bytearray(path.read_bytes())
        content[len(content) // 2 + 99] ^= 1
        path.write_bytes(content)
        after = run_index(source, tmp_path / "data", "--shards", "1")["key"]
        assert after != before
        before = after


def test_nothing_in_a_pickle_is_run(tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
            return (Path(str(tmp_path / "boom")).write_text, ("boom",))  # type: ignore[return-value]

    source = write(tmp_path / "source", "cifar-10-batches-py", "folder")
    (source / "cifar-10-batches-py" / "data_batch_2").write_bytes(pickle.dumps(Bomb(), 2))
    with pytest.raises(InputError, match=says("data_batch_2", "is no batch of CIFAR", "0 labels")):
        list(volume.open_source(source).scan(Notes()))
    assert not (tmp_path / "boom").exists()


@pytest.mark.parametrize(
    ("version", "name", "change", "message"),
    [
        ("cifar-10-batches-bin", "data_batch_3.bin", lambda old: old[:-1],
         r"data_batch_3\.bin: has 9218 bytes, not a multiple of 3073, so it is truncated"),
        ("cifar-10-batches-bin", "data_batch_3.bin", lambda old: b"\x09" + old[1:],
         r"image 0 has the label 9, and batches\.meta\.txt names 3 classes"),
        ("cifar-10-batches-bin", "batches.meta.txt", lambda _: b"", "names no classes, or one tw"),
        ("cifar-10-batches-py", "data_batch_3", lambda old: old[:-900], "is no pickle of CIFAR"),
        ("cifar-10-batches-py", "data_batch_3", lambda _: b"", "is no pickle of CIFAR"),
    ],
)  # fmt: skip
def test_says_what_is_wrong_with_a_file(
    version: str, name: str, change: Callable[[bytes], bytes], message: str, tmp_path: Path
) -> None:
    source = write(tmp_path / "source", version, "folder")
    path = source / version / name
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(InputError, match=message):
        list(volume.open_source(source).scan(Notes()))


def test_a_compressed_archive_that_is_damaged_or_large_is_refused(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "x.tar.gz", "cifar-10-batches-bin", "gz")
    arguments = ("--source", path, "--data", tmp_path / "data", "--shards", "1")
    whole = path.read_bytes()
    path.write_bytes(whole[:-900])
    assert f"{path}: does not decompress: Compressed file ended" in refused(capfd, *arguments)
    path.write_bytes(whole)
    for name in ("LARGEST_COMPRESSED", "LARGEST"):
        with monkeypatch.context() as limits:
            limits.setattr(f"imagenet_workloads.prepare.stores.compressed.{name}", 1000)
            said = refused(capfd, *arguments)
            assert f"{path}: is compressed, and each pod decompresses at most" in said
            assert "write source.http or source.s3 with cache" in said
    assert index.main([*map(str, arguments)]) == 0


def test_files_with_other_names_are_no_cifar(tmp_path: Path) -> None:
    assert not cifar.may_be({"train", "test"})
    assert cifar.may_be({"train", "test", "meta", "file.txt~"})
