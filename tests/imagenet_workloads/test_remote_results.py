"""A training's results are uploaded once, continue after a kill, and are complete or absent."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from imagenet_workloads import remote_results
from imagenet_workloads.checkpoint import (
    CheckpointStore,
    Identity,
    Position,
    named_checkpoint,
    sums_of_model,
)
from imagenet_workloads.clients.s3 import Bucket
from imagenet_workloads.commands import publish
from imagenet_workloads.errors import InputError
from imagenet_workloads.train import start
from imagenet_workloads.train.command_line import parse
from support.processes import DEADLINE_SECONDS
from support.published import bucket_folder, files, kill_upload
from support.s3_server import S3Server, serve_s3

NOT_UPLOADED = {"attempts/r1/evaluation.json", "attempts/r1/thumbnails/0.jpg"}
NOT_UPLOADED |= {"attempts/r1/compiled/code", "attempts/r1/train.log"}
LAST = "attempts/r1/result.json"
CHECKPOINT = "attempts/r1/checkpoints/epoch-0003-batch-00000000"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with serve_s3(tmp_path_factory.mktemp("s3")) as running:
        yield running


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """The folder of a job with two attempts, of which the second has trained to its end."""
    job = tmp_path / "jobs" / "digits-6f3c1f0e"
    for attempt, epochs in ((0, (1,)), (1, (2, 3))):
        store = CheckpointStore(job, attempt, Identity("uid", "hash"), keep=3)
        for epoch in epochs:
            with store.begin(Position(epoch, 0)) as folder:
                (folder / "weights").write_bytes(bytes([epoch]) * 3000)
                (folder / "training.json").write_text('{"batchesPerEpoch": 5}')
        (store.attempt_folder / "metrics.jsonl").write_text(f'{{"attempt": {attempt}}}\n')
    attempt_folder = job / "attempts" / "r1"
    content: dict[str, bytes] = {
        "model-symbol.json": b"{}",
        "model-0003.params": b"weights" * 1000,
        "labels.json": b"[]",
        "model-card.md": b"# Card",
        "model-card.json": b"{}",
    }
    content |= {name.removeprefix("attempts/r1/"): b"-" for name in NOT_UPLOADED}
    for name, written in content.items():
        path = attempt_folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(written)
    model = {"symbol": "model-symbol.json", "params": "model-0003.params"}
    sums = sums_of_model(attempt_folder, model.values())
    listed = {name: {"bytes": one.bytes, "sha256": one.sha256} for name, one in sums.items()}
    document = {"job": "digits", "model": model, "files": listed}
    (attempt_folder / "result.json").write_text(json.dumps(document))
    return job


def contents(results: Path) -> dict[str, bytes]:
    """Return what an upload takes, by path."""
    found = {
        path.relative_to(results).as_posix(): path.read_bytes()
        for path in (results / "attempts").rglob("*")
        if path.is_file()
    }
    return {name: content for name, content in found.items() if name not in NOT_UPLOADED}


def upload(server: S3Server, results: Path, prefix: str) -> int:
    return remote_results.upload(results / "attempts/r1", bucket_folder(server, prefix))


def test_the_bucket_has_the_model_the_curves_and_the_checkpoints(
    server: S3Server, results: Path
) -> None:
    expected = contents(results)
    assert upload(server, results, "whole") == sum(map(len, expected.values()))
    assert files(server, "whole") == expected
    assert {name.split("/")[3] for name in expected if "/checkpoints/" in name} == {
        f"epoch-000{epoch}-batch-00000000" for epoch in (1, 2, 3)
    }
    assert upload(server, results, "whole") == 0


@pytest.mark.parametrize("kill_at", [1, 3, 6, 12, 17])
def test_a_killed_upload_continues(kill_at: int, server: S3Server, results: Path) -> None:
    prefix = f"killed-{kill_at}"
    kill_upload(
        "remote_results.upload(source, folder)", kill_at, server, results / "attempts/r1", prefix
    )
    before, expected = files(server, prefix), contents(results)
    assert len(before) == kill_at - 1
    assert LAST not in before
    for name in expected:
        if name.endswith("/manifest.json") and name in before:
            folder = name.removesuffix("manifest.json")
            assert {one for one in expected if one.startswith(folder)} <= before.keys()
    missing = {name: one for name, one in expected.items() if name not in before}
    assert upload(server, results, prefix) == sum(map(len, missing.values()))
    assert files(server, prefix) == expected


def test_the_folder_of_an_attempt_may_be_named_by_a_link_or_from_within(
    server: S3Server, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (results / "model").symlink_to("attempts/r1")
    remote_results.upload(results / "model", bucket_folder(server, "by-link"))
    monkeypatch.chdir(results / "attempts/r1")
    remote_results.upload(Path(), bucket_folder(server, "from-within"))
    assert files(server, "by-link") == files(server, "from-within") == contents(results)


def test_another_folder_than_that_of_an_attempt_is_refused(
    server: S3Server, results: Path, tmp_path: Path
) -> None:
    shutil.copytree(results / "attempts/r1", tmp_path / "copy")
    with pytest.raises(InputError, match="attempts/rN"):
        remote_results.upload(tmp_path / "copy", bucket_folder(server, "copy"))
    assert files(server, "copy") == {}


def test_what_differs_in_the_bucket_is_replaced(server: S3Server, results: Path) -> None:
    upload(server, results, "differs")
    folder = bucket_folder(server, "differs")
    expected = contents(results)
    folder.bucket.delete(folder.key(LAST))
    same_length = bytes(len(expected["attempts/r1/model-0003.params"]))
    folder.bucket.write(folder.key("attempts/r1/model-0003.params"), same_length)
    again = len(same_length) + len(expected[LAST])
    assert upload(server, results, "differs") == again
    assert files(server, "differs") == expected


def test_a_damaged_model_is_not_uploaded(server: S3Server, results: Path) -> None:
    (results / "attempts/r1/model-0003.params").write_bytes(b"weighty" * 1000)
    with pytest.raises(InputError, match=r"model-0003\.params: its checksum is wrong"):
        upload(server, results, "damaged")
    found = files(server, "damaged")
    assert LAST not in found
    assert "attempts/r1/model-0003.params" not in found


def test_a_damaged_checkpoint_is_left_out(
    server: S3Server, results: Path, caplog: pytest.LogCaptureFixture
) -> None:
    damaged = "attempts/r1/checkpoints/epoch-0002-batch-00000000"
    (results / damaged / "weights").write_bytes(b"x" * 3000)
    upload(server, results, "one-less")
    found = files(server, "one-less")
    assert LAST in found
    assert f"{damaged}/manifest.json" not in found
    assert any("epoch-0002" in message for message in caplog.messages)


def test_a_checkpoint_that_the_bucket_refuses_is_not_left_out(
    server: S3Server, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = Bucket.write

    def refusing(bucket: Bucket, key: str, *content: Any) -> None:
        if key.endswith("epoch-0002-batch-00000000/weights"):
            raise InputError(f"{key}: the server refuses the keys (QuotaExceeded)")
        write(bucket, key, *content)

    monkeypatch.setattr(Bucket, "write", refusing)
    with pytest.raises(InputError, match="QuotaExceeded"):
        upload(server, results, "refused")
    assert LAST not in files(server, "refused")


@pytest.mark.parametrize(
    "name", ["attempts/r1/checkpoints/epoch-0003-batch-00000000/weights", "attempts/r1/labels.json"]
)
def test_a_pipe_in_place_of_a_file_holds_no_upload_up(
    name: str, server: S3Server, results: Path
) -> None:
    (results / name).unlink()
    os.mkfifo(results / name)
    if "checkpoints" in name:
        upload(server, results, "pipe-in-checkpoint")
        assert name not in files(server, "pipe-in-checkpoint")
    else:
        with pytest.raises(InputError, match="a pipe, not a file"):
            upload(server, results, "pipe-in-model")


def test_the_result_of_an_earlier_release_lists_no_sums(server: S3Server, results: Path) -> None:
    path = results / LAST
    document = json.loads(path.read_text())
    del document["files"]
    path.write_text(json.dumps(document))
    upload(server, results, "older")
    assert files(server, "older") == contents(results)


def test_a_pipe_in_the_place_of_a_file_is_refused(server: S3Server, results: Path) -> None:
    log = results / "attempts/r0/metrics.jsonl"
    log.unlink()
    os.mkfifo(log)
    with pytest.raises(InputError, match=r"metrics\.jsonl: cannot be read: is a pipe"):
        upload(server, results, "pipe")
    assert files(server, "pipe") == {}


def test_without_a_model_nothing_is_uploaded(server: S3Server, results: Path) -> None:
    (results / LAST).write_text('{"model": {}, "reading": {"images": 60}}')
    with pytest.raises(InputError, match="has no model"):
        upload(server, results, "reading")
    shutil.rmtree(results / "attempts/r1")
    with pytest.raises(InputError, match=r"result\.json: no such file"):
        upload(server, results, "reading")
    assert files(server, "reading") == {}


def test_the_program_uploads_with_the_keys_of_a_secret(
    server: S3Server, results: Path, tmp_path: Path
) -> None:
    server.fill("datasets", {"readme": b""})
    environment = {**os.environ, "IMAGENET_CREDENTIALS": str(server.secret(tmp_path / "keys"))}
    words = tmp_path / "words"
    command = [sys.executable, "-m", publish.__name__, "--model", results / "attempts/r1"]
    command += ["--to", "s3://datasets/by-program", "--endpoint", server.endpoint]
    done = subprocess.run(
        list(map(str, command)),
        env={**environment, "IMAGENET_TERMINATION_LOG": str(words)},
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    size = sum(map(len, contents(results).values()))
    said = {
        "url": "s3://datasets/by-program",
        "endpoint": server.endpoint,
        "uploadedBytes": size,
    }
    assert json.loads(words.read_text()) == json.loads(done.stdout) == said


@pytest.mark.parametrize("given", [[], ["--dataset", "a", "--model", "b"]])
def test_a_dataset_or_a_model_is_uploaded(
    given: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        publish.main([*given, "--to", "s3://datasets/x"])
    assert "--dataset or --model" in capsys.readouterr().err


def fetched(server: S3Server, prefix: str, into: Path) -> Path:
    return remote_results.fetch_checkpoint(bucket_folder(server, prefix), into)


@pytest.mark.parametrize(
    ("below", "epoch"),
    [
        ("", 3),
        ("/attempts/r1", 3),
        ("/attempts/r0", 1),
        ("/attempts/r1/checkpoints/epoch-0002-batch-00000000", 2),
    ],
)
def test_the_newest_checkpoint_is_fetched(
    below: str, epoch: int, server: S3Server, results: Path, tmp_path: Path
) -> None:
    upload(server, results, "start")
    folder = fetched(server, f"start{below}", tmp_path / "scratch")
    found = named_checkpoint(folder)
    assert found.position == Position(epoch, 0)
    assert (folder / "weights").read_bytes() == bytes([epoch]) * 3000
    again = fetched(server, f"start{below}", tmp_path / "scratch")
    assert again == folder


def test_of_several_jobs_none_is_chosen(server: S3Server, results: Path, tmp_path: Path) -> None:
    """The prefix of an upload may have the results of many jobs."""
    for job in ("digits-6f3c1f0e", "photos-0a1b2c3d"):
        upload(server, results, f"many/{job}")
    with pytest.raises(InputError, match="has no complete checkpoint"):
        fetched(server, "many", tmp_path / "scratch")
    with pytest.raises(InputError, match=r"neither a file of weights nor .*results"):
        remote_results.fetch_weights(bucket_folder(server, "many"), tmp_path / "scratch")


@pytest.mark.parametrize("name", ["../weights", "/weights", ".", "", "a\0b"])
def test_a_name_in_a_bucket_leads_nowhere_else(
    name: str, server: S3Server, results: Path, tmp_path: Path
) -> None:
    upload(server, results, "hostile")
    folder = bucket_folder(server, f"hostile/{CHECKPOINT}")
    manifest = json.loads(folder.read_whole("manifest.json"))
    manifest["files"] = {name: {"bytes": 1, "sha256": "a5" * 32}}
    folder.bucket.write(folder.key("manifest.json"), json.dumps(manifest).encode())
    with pytest.raises(InputError, match="must be a path within the folder"):
        fetched(server, f"hostile/{CHECKPOINT}", tmp_path / "scratch")
    assert list((tmp_path / "scratch").iterdir()) == []


def test_a_result_that_does_not_list_its_model_is_refused(
    server: S3Server, results: Path, tmp_path: Path
) -> None:
    upload(server, results, "unlisted")
    folder = bucket_folder(server, "unlisted/attempts/r1")
    document = {"model": {"params": "model.safetensors"}, "files": {}}
    for content, words in (
        (json.dumps(document).encode(), r"files\.model\.safetensors is missing"),
        (b"\xff{}", "is not valid JSON"),
    ):
        folder.bucket.write(folder.key("result.json"), content)
        with pytest.raises(InputError, match=words):
            remote_results.fetch_weights(folder, tmp_path / "scratch")


def test_a_checkpoint_that_is_not_complete_is_none(
    server: S3Server, results: Path, tmp_path: Path
) -> None:
    upload(server, results, "cut")
    folder = bucket_folder(server, "cut")
    for one in folder.bucket.below("cut"):
        if one.key.endswith("epoch-0003-batch-00000000/manifest.json"):
            folder.bucket.delete(one.key)
    assert fetched(server, "cut", tmp_path / "scratch").name == "epoch-0002-batch-00000000"
    with pytest.raises(InputError, match="has no complete checkpoint"):
        fetched(server, "nothing", tmp_path / "scratch")


def test_a_damaged_checkpoint_is_refused_and_not_kept(
    server: S3Server, results: Path, tmp_path: Path
) -> None:
    upload(server, results, "bad")
    folder = bucket_folder(server, "bad")
    name = "attempts/r1/checkpoints/epoch-0003-batch-00000000/weights"
    folder.bucket.write(folder.key(name), b"x" * 3000)
    with pytest.raises(InputError, match="weights: its checksum is wrong"):
        fetched(server, "bad", tmp_path / "scratch")
    assert list((tmp_path / "scratch").iterdir()) == []


@pytest.mark.parametrize(
    ("below", "name"),
    [
        ("", "model-0003.params"),
        ("/attempts/r1", "model-0003.params"),
        ("/attempts/r1/model-0003.params", "model-0003.params"),
    ],
)
def test_the_weights_of_a_model_are_fetched(
    below: str, name: str, server: S3Server, results: Path, tmp_path: Path
) -> None:
    upload(server, results, "weights")
    folder = bucket_folder(server, f"weights{below}")
    for _ in range(2):
        file = remote_results.fetch_weights(folder, tmp_path / "scratch")
        assert (file.name, file.read_bytes()) == (name, b"weights" * 1000)
    with pytest.raises(InputError, match=r"neither a file of weights nor .*results"):
        remote_results.fetch_weights(bucket_folder(server, "none/here"), tmp_path / "scratch")


def test_a_training_starts_from_uploaded_results_once(
    server: S3Server, results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the keys of its own Secret; the processes of a pod share what one of them has fetched."""
    upload(server, results, "by-url")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("IMAGENET_START_CREDENTIALS", str(server.secret(tmp_path / "keys")))
    common = ["--network", "mlp", "--start-endpoint", server.endpoint]
    options = parse([*common, "--init-from-url", "s3://datasets/by-url"], {})
    folder = start.checkpoint(options)
    assert folder is not None and named_checkpoint(folder).position == Position(3, 0)
    bucket_folder(server, "by-url").bucket.delete(f"by-url/{CHECKPOINT}/weights")
    assert start.checkpoint(options) == folder
    weights = parse([*common, "--pretrained-url", "s3://datasets/by-url/attempts/r1"], {})
    file = start.weights(weights)
    assert file is not None and file.read_bytes() == b"weights" * 1000
    assert start.checkpoint(weights) is None
    assert start.weights(options) is None
    named = bucket_folder(server, "by-url")
    named.bucket.write(named.key("lock"), b"weights")
    file = start.weights(parse([*common, "--pretrained-url", "s3://datasets/by-url/lock"], {}))
    assert file is not None and file.read_bytes() == b"weights"


@pytest.mark.parametrize("with_checkpoints", [False, True])
def test_results_are_fetched_as_the_volume_has_them(
    with_checkpoints: bool, server: S3Server, results: Path, tmp_path: Path
) -> None:
    prefix = f"fetched-{with_checkpoints}"
    upload(server, results, prefix)
    into = tmp_path / "claim" / "jobs" / "digits"
    folder = bucket_folder(server, prefix)
    remote_results.fetch(folder, into, with_checkpoints=with_checkpoints)
    expected = contents(results)
    if not with_checkpoints:
        expected = {name: one for name, one in expected.items() if "/checkpoints/" not in name}
    found = {
        path.relative_to(tmp_path / "claim").as_posix(): path.read_bytes()
        for path in (tmp_path / "claim").rglob("*")
        if path.is_file()
    }
    assert found == {f"jobs/digits/{name}": one for name, one in expected.items()}
    with pytest.raises(InputError, match="no uploaded results"):
        remote_results.fetch(bucket_folder(server, "none"), into, with_checkpoints=True)
