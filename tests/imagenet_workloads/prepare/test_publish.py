"""A sealed dataset is uploaded once, continues after a kill, and is complete or absent."""

import dataclasses
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from imagenet_workloads.dataset import read_dataset
from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare import publish, seal
from imagenet_workloads.records.image_list import read_image_list
from imagenet_workloads.records.remote import read_remote_image_list
from support.older_datasets import make_older
from support.pictures import collection, write_tar_of_tars
from support.preparation import prepare
from support.published import bucket_folder, files, kill_upload
from support.s3_server import S3Server, serve_s3
from support.tiny_dataset import write_dataset


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with serve_s3(tmp_path_factory.mktemp("s3")) as running:
        yield running


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_dataset(tmp_path_factory.mktemp("data"), train=40, validation=8, shards=2).folder


def upload(server: S3Server, dataset: Path, prefix: str) -> int:
    return publish.run(dataset, bucket_folder(server, prefix), threads=1)


def test_the_bucket_has_the_files_of_the_volume_and_the_sums(
    server: S3Server, dataset: Path
) -> None:
    uploaded = upload(server, dataset, "whole")
    found = files(server, "whole")
    sums = {key for key in found if key.endswith(".sums")}
    assert len(sums) == 4
    assert {key: one for key, one in found.items() if key not in sums} == {
        f"{path.name}": path.read_bytes() for path in dataset.iterdir()
    }
    assert uploaded == sum(map(len, found.values()))
    assert upload(server, dataset, "whole") == 0


@pytest.mark.parametrize("kill_at", [1, 3, 4, 6, 12, 13])
def test_a_killed_upload_continues(kill_at: int, server: S3Server, dataset: Path) -> None:
    prefix = f"killed-{kill_at}"
    kill_upload("publish.run(source, folder, threads=1)", kill_at, server, dataset, prefix)
    before = files(server, prefix)
    assert "dataset.json" not in before
    complete = {
        shard.record
        for split in (read_dataset(dataset).train, read_dataset(dataset).validation)
        for shard in split.shards
        if f"{shard.record}.sums" in before
    }
    uploaded = upload(server, dataset, prefix)
    after = files(server, prefix)
    again = {
        key: one
        for key, one in after.items()
        if not any(key.startswith(f"{Path(record).stem}.") for record in complete)
    }
    assert uploaded == sum(map(len, again.values()))
    assert len(complete) == min((kill_at - 1) // 3, 4)
    assert after == dict(after, **before)


def test_a_damaged_shard_is_not_published(server: S3Server, tmp_path: Path) -> None:
    damaged = write_dataset(tmp_path, train=40, validation=0, shards=1).folder
    path = damaged / read_dataset(damaged).train.shards[0].record
    content = bytearray(path.read_bytes())
    content[-10] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match=f"{path.name}: its checksum is wrong"):
        upload(server, damaged, "damaged")
    assert files(server, "damaged") == {}


def test_another_dataset_is_not_replaced(server: S3Server, dataset: Path, tmp_path: Path) -> None:
    upload(server, dataset, "other")
    before = files(server, "other")
    other = write_dataset(tmp_path, train=30, validation=0, shards=1).folder
    with pytest.raises(InputError, match=r"dataset\.json: is another dataset, with the key 0000"):
        upload(server, other, "other")
    assert files(server, "other") == before


@pytest.fixture
def versions(tmp_path: Path) -> tuple[Path, Path]:
    """A dataset of TFRecord, and the same one of a version that wrote no indexes."""
    source = write_tar_of_tars(tmp_path / "source.tar", collection({"a": 6, "b": 6}))
    newer = prepare(source, tmp_path / "data", "--shards", "2", "--format", "TFRecord")
    older = Path(shutil.copytree(newer, tmp_path / "older"))
    make_older(older)
    return older, newer


def test_what_an_older_version_has_published_is_the_same_dataset(
    server: S3Server, versions: tuple[Path, Path]
) -> None:
    older, newer = versions
    upload(server, older, "older")
    before = files(server, "older")
    assert upload(server, newer, "older") == 0
    assert files(server, "older") == before


def test_an_upload_and_a_copy_that_an_older_version_began_get_their_indexes(
    server: S3Server, versions: tuple[Path, Path], tmp_path: Path
) -> None:
    older, newer = versions
    upload(server, older, "begun")
    folder = bucket_folder(server, "begun")
    publish.fetch(folder, tmp_path / "copy", threads=1)
    # The last file of both.
    folder.bucket.delete(folder.key("dataset.json"))
    (tmp_path / "copy" / "dataset.json").unlink()

    upload(server, newer, "begun")
    shards = {path.name: path.read_bytes() for path in newer.glob("train-*")}
    assert files(server, "begun").items() >= shards.items()
    publish.fetch(folder, tmp_path / "copy", threads=1)
    seal.verify_folder(tmp_path / "copy", threads=1)
    assert len(list((tmp_path / "copy").glob("*.idx"))) == 2


def test_a_bucket_and_a_copy_have_the_names_of_the_images(server: S3Server, tmp_path: Path) -> None:
    raw = write_tar_of_tars(tmp_path / "raw.tar", collection({"a": 5, "b": 4}))
    dataset = prepare(raw, tmp_path / "data", "--shards", "2")
    upload(server, dataset, "named")
    folder = bucket_folder(server, "named")
    publish.fetch(folder, tmp_path / "copy", threads=2)
    for shard in read_dataset(dataset).train.shards:
        listed = read_image_list(dataset / shard.record)
        assert listed
        assert read_remote_image_list(folder, shard) == listed
        assert read_image_list(tmp_path / "copy" / shard.record) == listed
        older = dataclasses.replace(shard, image_list=None)
        assert read_remote_image_list(folder, older) is None
    publish.delete(folder)
    assert files(server, "named") == {}
