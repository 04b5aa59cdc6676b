"""Published datasets of handwritten digits: each test has a prefix of one bucket."""

from __future__ import annotations

from pathlib import Path

import obstore

from imagenet_workloads.clients.folders import BucketFolder
from imagenet_workloads.clients.s3 import Bucket
from imagenet_workloads.prepare import publish
from support.s3_server import S3Server

BUCKET = "datasets"


def bucket_folder(server: S3Server, prefix: str) -> BucketFolder:
    """Return a folder of the bucket, which is made, opened with the server's own keys."""
    # SeaweedFS makes a bucket with its first object.
    server.fill(BUCKET, {"readme": b""})
    return BucketFolder(Bucket(BUCKET, server.bucket(BUCKET)), prefix)


def publish_to(server: S3Server, dataset: Path, prefix: str) -> str:
    """Publish a sealed dataset; return its address."""
    publish.run(dataset, bucket_folder(server, prefix), threads=2)
    return f"s3://{BUCKET}/{prefix}"


def files(server: S3Server, prefix: str) -> dict[str, bytes]:
    """Return the objects below a prefix, by name."""
    store = server.bucket(BUCKET)
    keys = [one["path"] for chunk in obstore.list(store, prefix) for one in chunk]
    return {key.removeprefix(f"{prefix}/"): bytes(obstore.get(store, key).bytes()) for key in keys}
