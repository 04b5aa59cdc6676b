"""`imagenet-dataset`: a dataset goes to a bucket and comes back, is verified and deleted."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import obstore
import pytest

from imagenet_workloads.commands import dataset
from support.published import BUCKET, bucket_folder, files
from support.s3_server import S3Server, serve_s3
from support.tiny_dataset import write_dataset

SHARD = "train-00000-of-00002"
THERE = f"s3://{BUCKET}/sets/digits"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[S3Server]:
    (tmp_path / "s3").mkdir()
    with serve_s3(tmp_path / "s3") as running:
        bucket_folder(running, "digits")
        yield running


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def call(
    server: S3Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> Callable[..., str]:
    """The command; returns what it prints, or with `fails` its error."""
    monkeypatch.setenv("IMAGENET_CREDENTIALS", str(server.secret(tmp_path / "secret")))

    def run(*arguments: str | Path, fails: bool = False) -> str:
        code = dataset.main([*map(str, arguments), "--endpoint", server.endpoint])
        captured = capfd.readouterr()
        assert (code != 0) == fails, captured.err
        return captured.err if fails else captured.out

    return run


def test_the_life_of_a_dataset(server: S3Server, call: Callable[..., str], tmp_path: Path) -> None:
    local = write_dataset(tmp_path / "volume" / "datasets" / "k", train=40, validation=8).folder
    back = tmp_path / "back"
    listed = call("list", tmp_path / "volume").splitlines()
    assert listed[1].split() == ["0" * 12, "RecordIO", "10", "40", "8", str(local)]
    call("publish", local, THERE)
    assert call("list", f"s3://{BUCKET}/sets").splitlines()[1].endswith(f" {THERE}")
    shown = json.loads(call("show", THERE))
    assert (shown["images"], shown["shards"]) == ({"train": 40, "validation": 8}, 4)
    call("verify", THERE)
    call("fetch", THERE, back)
    assert contents(back) == contents(local)
    described = len((local / "dataset.json").read_bytes())
    assert call("fetch", THERE, back).endswith(f" {described} bytes were fetched\n")

    assert "nothing is deleted without --yes" in call("delete", THERE, fails=True)
    call("delete", THERE, "--yes")
    assert files(server, "sets/digits") == {}
    call("delete", local, "--yes")
    assert not local.exists()


def test_damage_in_a_bucket_is_named(
    server: S3Server, call: Callable[..., str], tmp_path: Path
) -> None:
    call("publish", write_dataset(tmp_path / "local", train=40, validation=8).folder, THERE)
    store, there_is = server.bucket(BUCKET), files(server, "sets/digits")
    for damage in (b"0\t0\n" + there_is[f"{SHARD}.idx"], b"0\tfar\n"):
        obstore.put(store, f"sets/digits/{SHARD}.idx", damage)
        found = call("verify", THERE, fails=True)
        assert f"1 of 4 shards are damaged: {THERE}/{SHARD}.idx: " in found
    obstore.delete(store, f"sets/digits/{SHARD}.idx")
    assert f"{SHARD}.idx: " in call("verify", THERE, fails=True)

    name = f"{SHARD}.rec"
    damaged = bytearray(there_is[name])
    damaged[-9] ^= 1
    obstore.put(store, f"sets/digits/{name}", bytes(damaged))
    found = call("verify", THERE, fails=True)
    assert f"1 of 4 shards are damaged: {THERE}/{name}: its checksum is wrong" in found
