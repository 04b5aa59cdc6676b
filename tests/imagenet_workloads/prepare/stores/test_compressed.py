"""Compressed class archives of a server, of keys and of a prefix, which a cache decompresses."""

import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard

from imagenet_workloads.commands import index
from support.file_server import FileServer
from support.pictures import collection, tar
from support.preparation import prepare
from support.remote_preparation import prepare_fetched, write_secret
from support.s3_server import ACCESS_KEY, SECRET_KEY, S3Server, serve_s3
from support.sentences import assert_says

CLASSES = collection({"n01": 4, "n02": 3, "n03": 5})
TARS = {f"{name}.tar": tar(images) for name, images in CLASSES.items()}
SERVED = {
    "n01.tar.gz": gzip.compress(TARS["n01.tar"]),
    "n02.tar.zst": zstandard.compress(TARS["n02.tar"]),
    "n03.tar": TARS["n03.tar"],
}
DATASET = ("--shards", "1", "--default-validation-per-class", "1")


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with serve_s3(tmp_path_factory.mktemp("s3")) as running:
        running.fill("imagenet", {f"part/{name}": one for name, one in SERVED.items()})
        yield running


@pytest.fixture
def secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}
    monkeypatch.setenv("IMAGENET_CREDENTIALS", str(write_secret(tmp_path / "secret", **keys)))


@pytest.fixture
def local(tmp_path: Path) -> bytes:
    """The dataset of the tars on a volume."""
    root = tmp_path / "tars"
    root.mkdir()
    for name, content in TARS.items():
        (root / name).write_bytes(content)
    return (prepare(root, tmp_path / "local", *DATASET) / "dataset.json").read_bytes()


def below(bucket: S3Server, *options: str) -> list[str]:
    return ["--s3-bucket=imagenet", f"--s3-endpoint={bucket.endpoint}", *options]


def of_bucket(bucket: S3Server) -> dict[str, list[str]]:
    keys = [f"--s3-keys=part/{name}" for name in SERVED]
    return {"prefix": below(bucket, "--s3-prefix=part"), "keys": below(bucket, *keys)}


@pytest.mark.parametrize("how", ["prefix", "keys"])
def test_a_cache_has_those_of_a_bucket_decompressed(
    how: str, bucket: S3Server, secret: None, local: bytes, tmp_path: Path
) -> None:
    reading = of_bucket(bucket)[how]
    found = prepare_fetched(tmp_path / "cache", tmp_path / "data", reading, *DATASET)
    assert (found / "dataset.json").read_bytes() == local
    kept = {path.stat().st_size for path in (tmp_path / "cache").rglob("*-n0*.tar*")}
    assert kept >= {len(one) for one in TARS.values()}


def test_a_cache_has_those_of_a_folder_on_a_server_decompressed(
    local: bytes, tmp_path: Path
) -> None:
    with FileServer({f"/part/{name}": one for name, one in SERVED.items()}).running() as server:
        names = [f"--http-name={name}" for name in SERVED]
        reading = ["--http-folder", f"{server.url}/part/", *names]
        found = prepare_fetched(tmp_path / "cache", tmp_path / "data", reading, *DATASET)
    assert (found / "dataset.json").read_bytes() == local


@pytest.mark.parametrize("how", ["prefix", "keys"])
def test_without_a_cache_the_message_says_to_write_one(
    how: str, bucket: S3Server, secret: None, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    options = [*of_bucket(bucket)[how], "--data", str(tmp_path / "data"), *DATASET]
    assert index.main(options) == 3
    said = capfd.readouterr().err
    assert_says(said, "n01.tar.gz", "is compressed", "are read in place")
    assert_says(said, "write source.s3.cache", "stored decompressed")
