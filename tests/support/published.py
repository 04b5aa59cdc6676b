"""Published datasets of handwritten digits: each test has a prefix of one bucket."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import obstore

from imagenet_workloads.clients.folders import BucketFolder
from imagenet_workloads.clients.s3 import Bucket
from imagenet_workloads.prepare import publish
from support.processes import DEADLINE_SECONDS
from support.s3_server import S3Server

BUCKET = "datasets"

_KILLED = """
import os, signal, sys
from pathlib import Path
import obstore
from imagenet_workloads import remote_results
from imagenet_workloads.prepare import publish
from support.published import bucket_folder
from support.s3_server import S3Server
put, calls = obstore.put, 0
def deadly(store, key, content, **options):
    global calls
    calls += 1
    if calls == int(sys.argv[1]) + 1:  # the first one makes the bucket
        os.kill(os.getpid(), signal.SIGKILL)
    return put(store, key, content, **options)
obstore.put = deadly
source, folder = Path(sys.argv[3]), bucket_folder(S3Server(sys.argv[2]), sys.argv[4])
"""


def kill_upload(line: str, kill_at: int, server: S3Server, source: Path, prefix: str) -> None:
    """Send `source` to a prefix by a line of code that ends by SIGKILL at its n-th object.

    The line finds both as `source` and `folder`.
    """
    program = [sys.executable, "-c", f"{_KILLED}{line}"]
    arguments = [str(kill_at), server.endpoint, str(source), prefix]
    killed = subprocess.run(
        [*program, *arguments],
        cwd=Path(__file__).parents[1],
        timeout=DEADLINE_SECONDS,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL


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
