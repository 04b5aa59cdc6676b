"""Archives of a prefix in a cache, of which later fetches store and delete some."""

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from imagenet_workloads.clients.s3 import open_bucket
from imagenet_workloads.commands import fetch, pack
from imagenet_workloads.errors import WorkloadError
from imagenet_workloads.prepare.sources.cache import CacheEntry, Record
from support.pictures import collection, tar
from support.preparation import refused, run_index
from support.remote_preparation import write_secret
from support.s3_server import ACCESS_KEY, SECRET_KEY, S3Server, serve_s3
from support.sentences import assert_says

CLASSES = {name: tar(images) for name, images in collection({"a": 3, "b": 2, "c": 4}).items()}
DATASET = ("--shards", "1", "--default-validation-per-class", "1")
EIGHT_DAYS = 8 * 24 * 3600


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with serve_s3(tmp_path_factory.mktemp("s3")) as running:
        yield running


@pytest.fixture(autouse=True)
def secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}
    monkeypatch.setenv("IMAGENET_CREDENTIALS", str(write_secret(tmp_path / "secret", **keys)))


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def fill(server: S3Server, prefix: str, **archives: bytes) -> None:
    """Have these archives below a prefix, and no others."""
    bucket = open_bucket("imagenet", server.endpoint, None)
    server.fill("imagenet", {f"{prefix}/{name}.tar": one for name, one in archives.items()})
    for found in bucket.below(prefix):
        if found.key.rpartition("/")[2].removesuffix(".tar") not in archives:
            bucket.delete(found.key)


def reading(server: S3Server, prefix: str, cache: Path) -> list[str]:
    bucket = ("--s3-bucket=imagenet", f"--s3-endpoint={server.endpoint}")
    return [*bucket, f"--s3-prefix={prefix}", f"--cache={cache}"]


def stored(cache: Path) -> list[str]:
    """The names of the archives in a cache."""
    return sorted(path.name.partition("-")[2] for path in cache.rglob("*.tar"))


def folder_of(cache: Path, archive: str) -> Path:
    (found,) = (path for path in cache.rglob(f"{archive}-*") if path.is_dir())
    return found


def test_archives_that_left_the_prefix_are_deleted(
    server: S3Server, cache: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    options, data = reading(server, "renamed", cache), tmp_path / "data"
    fill(server, "renamed", a=CLASSES["a"], b=CLASSES["b"])
    assert fetch.main(options) == 0
    key = run_index(None, data, *options, *DATASET)["key"]
    fill(server, "renamed", a=CLASSES["a"], c=CLASSES["c"])
    assert fetch.main(options) == 0
    assert stored(cache) == ["a.tar", "c.tar"]
    assert run_index(None, data, *options, *DATASET)["images"]["train"] == 5
    # The plan of the former list needs the archive that was deleted.
    assert pack.main([*options, "--data", str(data), "--key", key]) == 3
    assert "b.tar: is not in the cache" in capfd.readouterr().err


def test_a_job_reads_the_archives_of_its_own_list(
    server: S3Server, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options, data = reading(server, "two", cache), tmp_path / "data"
    fill(server, "two", a=CLASSES["a"], b=CLASSES["b"])
    monkeypatch.setenv("IMAGENET_JOB_UID", "first")
    assert fetch.main(options) == 0
    key = run_index(None, data, *options, *DATASET)["key"]
    fill(server, "two", a=CLASSES["a"], c=CLASSES["c"])
    monkeypatch.setenv("IMAGENET_JOB_UID", "second")
    assert fetch.main(options) == 0
    assert stored(cache) == ["a.tar", "b.tar", "c.tar"]
    monkeypatch.setenv("IMAGENET_JOB_UID", "first")
    assert pack.main([*options, "--data", str(data), "--key", key]) == 0
    assert run_index(None, data, *options, *DATASET)["key"] == key
    assert fetch.main(options) == 0
    assert stored(cache) == ["a.tar", "c.tar"]


def test_only_folders_of_the_last_list_and_abandoned_ones_are_deleted(
    server: S3Server, cache: Path
) -> None:
    options = reading(server, "kept", cache)
    fill(server, "kept", a=CLASSES["a"], b=CLASSES["b"])
    assert fetch.main(options) == 0
    # Another fetch may fill the first now; the second was left by one that never ended.
    begun, abandoned = (folder_of(cache, "a.tar").with_name(name) for name in ("new", "old"))
    begun.mkdir()
    abandoned.mkdir()
    age = abandoned.stat().st_mtime - EIGHT_DAYS
    os.utime(abandoned, (age, age))
    fill(server, "kept", b=CLASSES["b"])
    assert fetch.main(options) == 0
    assert stored(cache) == ["b.tar"]
    assert (begun.exists(), abandoned.exists()) == (True, False)


def test_two_fetches_may_delete_the_same_folder(
    server: S3Server, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = reading(server, "both", cache)
    fill(server, "both", a=CLASSES["a"], b=CLASSES["b"])
    assert fetch.main(options) == 0
    fill(server, "both", b=CLASSES["b"])
    delete = shutil.rmtree

    def delete_after_the_other(folder: Path, **more: Any) -> None:
        delete(folder)
        delete(folder, **more)

    monkeypatch.setattr(shutil, "rmtree", delete_after_the_other)
    assert fetch.main(options) == 0
    assert stored(cache) == ["b.tar"]


def test_an_archive_that_another_fetch_replaced_is_said(
    server: S3Server,
    cache: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    options = reading(server, "mixed", cache)
    fill(server, "mixed", a=CLASSES["a"], b=CLASSES["b"])
    assert fetch.main(options) == 0
    fill(server, "mixed", a=CLASSES["c"], b=CLASSES["b"])
    store = CacheEntry.store

    def end_before_the_list(entry: CacheEntry, record: Record) -> None:
        if entry.folder.name.startswith("prefix-"):
            raise WorkloadError("killed")
        store(entry, record)

    with monkeypatch.context() as patched:
        patched.setattr(CacheEntry, "store", end_before_the_list)
        assert fetch.main(options) == 1
    index: Sequence[str] = [*options, "--data", str(tmp_path / "data"), *DATASET]
    said = refused(capfd, *index)
    assert_says(said, "mixed/a.tar: ", "another fetch has replaced it", "imagenet-fetch again")
    assert fetch.main(options) == 0
    found = run_index(None, tmp_path / "data", *options, *DATASET)
    assert found["images"]["train"] == 4
