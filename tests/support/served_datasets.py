"""A published dataset on a server of files or in a bucket, and a training that reads it.

For the environments of frameworks.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from imagenet_workloads.dataset import Shard, Split, read_dataset
from imagenet_workloads.records import record_sums
from imagenet_workloads.records.split import open_split
from support.file_server import FileServer, basic
from support.published import publish_to
from support.remote_preparation import write_secret
from support.s3_server import ACCESS_KEY, SECRET_KEY, serve_s3
from support.training_cluster import train

LOGIN = {"username": "rea-der", "password": "pass-word"}


@dataclass(frozen=True)
class ServedTraining:
    """What a training from a server has come to.

    Attributes:
        result: The content of result.json.
        stderr: What it said.
        bytes_sent: By the server.
        bytes_of_records: Of the whole dataset.
    """

    result: dict[str, Any]
    stderr: str
    bytes_sent: int
    bytes_of_records: int


def published_files(dataset: Path) -> dict[str, bytes]:
    """Return the files of a published dataset, by name."""
    sealed = read_dataset(dataset)
    found = {path.name: path.read_bytes() for path in dataset.iterdir() if path.is_file()}
    for shard in (*sealed.train.shards, *sealed.validation.shards):
        found[shard.record + record_sums.SUFFIX] = _sums(dataset, sealed.format, shard)
    return found


def train_from_server(dataset: Path, folder: Path, *options: str) -> ServedTraining:
    """Train with `imagenet-train` from a server with a login, with a cache for the records."""
    sealed, files = read_dataset(dataset), published_files(dataset)
    secret = write_secret(folder / "secret", **LOGIN)
    content = {f"/digits/{name}": one for name, one in files.items()}
    with FileServer(content, basic(*LOGIN.values())).running() as server:
        where = ["--dataset-url", f"{server.url}/digits"]
        result, stderr = _train(secret, folder, *where, *options)
        sent = server.sent
    shards = (*sealed.train.shards, *sealed.validation.shards)
    return ServedTraining(result, stderr, sent, sum(shard.bytes for shard in shards))


def train_from_bucket(dataset: Path, folder: Path, *options: str) -> dict[str, Any]:
    """Publish a dataset to a bucket and train from there with keys; return the result."""
    (folder / "s3").mkdir()
    with serve_s3(folder / "s3") as server:
        secret = server.secret(folder / "secret")
        url = publish_to(server, dataset, "digits")
        where = ["--dataset-url", url, "--dataset-endpoint", server.endpoint]
        result, stderr = _train(secret, folder, *where, *options)
    assert not any(key in stderr for key in (ACCESS_KEY, SECRET_KEY))
    return result


def _train(secret: Path, folder: Path, *options: str) -> tuple[dict[str, Any], str]:
    """Train with a cache; return the content of result.json, and what the program said."""
    where = ["--cache", str(folder / "cache"), "--output", str(folder / "output")]
    ended = train([*where, *options], IMAGENET_CREDENTIALS=str(secret))
    assert ended.returncode == 0, ended.stderr
    return json.loads((folder / "output/attempts/r0/result.json").read_text()), ended.stderr


def _sums(dataset: Path, format: str, shard: Shard) -> bytes:
    records = open_split(Split(shard.records, (shard,)), format, dataset)
    content = records.read(range(records.count))
    records.close()
    return record_sums.encode(
        [len(one) for one in content], [record_sums.checksum(one) for one in content], shard
    )
