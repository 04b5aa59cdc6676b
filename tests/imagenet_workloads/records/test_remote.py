"""A worker reads a published dataset: only its lanes, once with a cache, and verified."""

import hashlib
import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path

import numpy as np
import obstore
import pytest

from imagenet_spec.program.kinds import ImageSize
from imagenet_spec.program.train import DataOptions
from imagenet_workloads.clients.folders import ServedFolder
from imagenet_workloads.clients.http import HttpClient
from imagenet_workloads.commands import publish
from imagenet_workloads.data.augmentation import Recipe
from imagenet_workloads.data.batches import WorkerShare
from imagenet_workloads.data.order import Order
from imagenet_workloads.data.ordered_data import open_remote_dataset
from imagenet_workloads.dataset import RECORD_IO, Dataset, Split, WriterVersion, read_dataset
from imagenet_workloads.errors import InputError, WorkloadError
from imagenet_workloads.records import remote
from imagenet_workloads.records.remote import (
    BlockCache,
    RemoteRecords,
    open_remote_split,
    require_room,
)
from imagenet_workloads.records.split import Records, open_split
from support.file_server import FileServer, Handler
from support.image_splits import FORMATS, write_split
from support.pictures import jpeg
from support.processes import wait_until
from support.published import BUCKET, bucket_folder, files, publish_to
from support.reading import ordered_training, validated
from support.s3_server import S3Server, serve_s3
from support.sentences import says

IMAGES = [jpeg(number) for number in range(140)]
RECIPE = Recipe((3, 8, 8))
VARIED = Recipe((3, 8, 8), sizes=(ImageSize(0, 8), ImageSize(1, 12), ImageSize(2, 6)))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with serve_s3(tmp_path_factory.mktemp("s3")) as running:
        yield running


def write_dataset(folder: Path, format: str = RECORD_IO) -> Dataset:
    """Write 128 training images in three shards, and 12 validation images."""

    def split(name: str, images: list[bytes], shards: int) -> Split:
        written = write_split(folder / name, format, images, shards)
        for path in (folder / name).iterdir():
            path.rename(folder / path.name.replace("train", name))
        return replace(
            written,
            shards=tuple(
                replace(
                    shard,
                    record=(record := shard.record.replace("train", name)),
                    index=shard.index and shard.index.replace("train", name),
                    sha256=hashlib.sha256((folder / record).read_bytes()).hexdigest(),
                )
                for shard in written.shards
            ),
        )

    sealed = Dataset(
        key="0" * 32,
        format=format,
        writer=WriterVersion("test", "opencv"),
        options={},
        classes=tuple(f"n{number:03}" for number in range(128)),
        train=split("train", IMAGES[:128], 3),
        validation=split("val", IMAGES[128:], 1),
        mean=(0, 0, 0),
        std=(1, 1, 1),
    )
    (folder / "dataset.json").write_text(sealed.to_json())
    return sealed


def open_train(server: S3Server, prefix: str, sealed: Dataset) -> RemoteRecords:
    return open_remote_split(sealed.train, sealed.format, bucket_folder(server, prefix))


def keep(records: RemoteRecords, cache: Path, worker: int, workers: int) -> int:
    """Keep the lanes of a worker; return their bytes."""
    blocks = records.blocks(Order(records.count, 0).lanes_of(worker, workers))
    records.keep(cache, blocks)
    return sum(map(records.block_size, blocks))


def train(records: Records, worker: int, workers: int, *epochs: tuple[int, int]) -> bytes:
    """Read epochs, each from a position; return a digest of all pixels and labels."""
    share = WorkerShare(worker, workers, batch_size_per_process=16)
    digest = hashlib.sha256()
    with ordered_training(records, VARIED, share) as training:
        for number, position in epochs:
            for batch in training.epoch(number, position):
                digest.update(batch.images.tobytes() + batch.labels.tobytes())
    return digest.digest()


@pytest.mark.parametrize("format", FORMATS)
def test_each_worker_fetches_its_lanes_once(
    format: str, server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # So that a lane has several blocks.
    monkeypatch.setattr(remote, "BLOCK_BYTES", 1 << 12)
    sealed = write_dataset(tmp_path / "data", format)
    prefix = f"lanes-{format}"
    publish_to(server, tmp_path / "data", prefix)
    local = open_split(sealed.train, format, tmp_path / "data")
    fetched = []
    for worker in range(4):
        records = open_train(server, prefix, sealed)
        needed = keep(records, tmp_path / f"cache-{worker}", worker, 4)
        with closing(records):
            for epochs in [(0, 0), (1, 0)], [(2, 40)]:
                assert train(records, worker, 4, *epochs) == train(local, worker, 4, *epochs)
            assert records.fetched == needed
            assert (tmp_path / f"cache-{worker}").stat().st_size == needed
        fetched.append(records.fetched)
    assert sum(fetched) == local.bytes
    assert max(fetched) < 0.3 * local.bytes


def test_the_next_lanes_are_fetched_before_they_are_asked_for(
    server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # So that the order of the requests is that of the blocks.
    monkeypatch.setattr(remote, "FETCHERS", 1)
    sealed = write_dataset(tmp_path / "data")
    publish_to(server, tmp_path / "data", "ahead")
    content = {f"/digits/{name}": one for name, one in files(server, "ahead").items()}
    with FileServer(content).running() as served:
        client = HttpClient()
        folder = ServedFolder(f"{served.url}/digits/", client)
        records = open_remote_split(sealed.train, sealed.format, folder)
        needed = keep(records, tmp_path / "cache", 0, 1)
        opened = len(served.requests)
        # The third shard's records come first.
        numbers = [*range(100, 128), *range(100)]
        with records.ahead(numbers):
            wait_until(lambda: records.fetched == needed, "all lanes are in the cache")
        fetched = served.requests[opened:]
        shards = [shard.record for shard in sealed.train.shards]
        paths = [Path(one.path).name for one in fetched]
        assert list(dict.fromkeys(paths)) == [shards[2], shards[0], shards[1]]
        for block in records.blocks(Order(records.count, 0).lanes_of(0, 1)):
            records.read(block)
        assert served.requests[opened:] == fetched
        records.close()
        client.close()


def test_without_a_cache_each_epoch_is_fetched(server: S3Server, tmp_path: Path) -> None:
    sealed = write_dataset(tmp_path / "data")
    publish_to(server, tmp_path / "data", "no-cache")
    records = open_train(server, "no-cache", sealed)
    local = open_split(sealed.train, sealed.format, tmp_path / "data")
    assert train(records, 0, 1, (0, 0), (1, 0)) == train(local, 0, 1, (0, 0), (1, 0))
    # The window in which a lane's ring begins is read in two pieces.
    assert records.fetched == pytest.approx(2 * local.bytes, rel=0.2)


def test_validation_images_are_those_of_the_volume(server: S3Server, tmp_path: Path) -> None:
    sealed = write_dataset(tmp_path / "data")
    publish_to(server, tmp_path / "data", "validation")
    folder = bucket_folder(server, "validation")
    local = open_split(sealed.validation, sealed.format, tmp_path / "data")
    remote = open_remote_split(sealed.validation, sealed.format, folder)
    remote.keep(tmp_path / "cache", remote.blocks([range(6)]))
    for worker in range(2):
        found, expected = (
            [batch.images for batch in validated(one, RECIPE, 4, worker, 2)]
            for one in (remote, local)
        )
        assert np.array_equal(found, expected)
    assert remote.fetched == local.bytes


@pytest.mark.parametrize("cached", [True, False])
def test_a_flipped_bit_is_named(cached: bool, server: S3Server, tmp_path: Path) -> None:
    sealed = write_dataset(tmp_path / "data")
    prefix = f"flipped-{cached}"
    publish_to(server, tmp_path / "data", prefix)
    records = open_train(server, prefix, sealed)
    name = sealed.train.shards[1].record
    content = bytearray(files(server, prefix)[name])
    # In the pixels of record 2 of the second shard.
    content[records.size([43, 44, 45]) - 30] ^= 1
    obstore.put(server.bucket(BUCKET), f"{prefix}/{name}", bytes(content))
    if cached:
        keep(records, tmp_path / "cache", 0, 1)
    with pytest.raises(InputError, match=rf"/{prefix}/{name}: record 2 \(from 0\): its check"):
        train(records, 0, 1, (0, 0))


def test_damaged_sums_are_named(server: S3Server, tmp_path: Path) -> None:
    sealed = write_dataset(tmp_path / "data")
    publish_to(server, tmp_path / "data", "sums")
    name = f"{sealed.train.shards[0].record}.sums"
    content = bytearray(files(server, "sums")[name])
    content[4] ^= 1
    obstore.put(server.bucket(BUCKET), f"sums/{name}", bytes(content))
    with pytest.raises(InputError, match=says(".rec.sums", "it is damaged", "or of another shard")):
        open_train(server, "sums", sealed)
    obstore.delete(server.bucket(BUCKET), f"sums/{name}")
    with pytest.raises(InputError, match=r"\.rec\.sums: there is no such object"):
        open_train(server, "sums", sealed)


def cut_off(handler: Handler) -> None:
    handler.answer(
        HTTPStatus.PARTIAL_CONTENT, b"x" * 50, {"Content-Range": "bytes 0-99/100"}, lacks=50
    )


def test_connections_to_a_server_may_be_cut(server: S3Server, tmp_path: Path) -> None:
    sealed = write_dataset(tmp_path / "data")
    publish_to(server, tmp_path / "data", "served")
    content = {f"/digits/{name}": one for name, one in files(server, "served").items()}
    local = open_split(sealed.train, sealed.format, tmp_path / "data")
    with FileServer(content).running() as served:
        client = HttpClient(pause=lambda seconds: None)
        folder = ServedFolder(f"{served.url}/digits/", client)
        records = open_remote_split(sealed.train, sealed.format, folder)
        keep(records, tmp_path / "cache", 0, 1)
        served.faults += [cut_off, None, cut_off, None]
        assert train(records, 0, 1, (0, 0)) == train(local, 0, 1, (0, 0))
        client.close()
    assert not served.faults
    assert records.fetched == local.bytes


def test_a_server_without_ranges_is_refused(tmp_path: Path) -> None:
    with FileServer({"/d/a.rec": b"x" * 100}, knows_ranges=False).running() as served:
        client = HttpClient()
        with pytest.raises(InputError, match=r"a\.rec: the server does not answer .* ranges"):
            ServedFolder(f"{served.url}/d", client).read("a.rec", 5, 10)
        client.close()


def test_a_small_cache_is_refused_before_anything_is_fetched() -> None:
    require_room(20 << 30, 20 << 30)
    with pytest.raises(
        InputError, match=says("the cache needs 31 GiB, 20 GiB are free", "write a larger")
    ):
        require_room(31 << 30, 20 << 30)


def test_a_cache_that_becomes_full_is_named(tmp_path: Path) -> None:
    (tmp_path / "train").symlink_to("/dev/full")
    cache = BlockCache(
        tmp_path / "train", [range(2)], lambda run: [run.start, run.stop], lambda run: [b"a", b"b"]
    )
    with closing(cache), pytest.raises(WorkloadError, match="train: the cache is full: No space"):
        cache.read(range(1))


def test_the_options_open_dataset_and_cache(
    server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sealed = write_dataset(tmp_path / "data")
    url = publish_to(server, tmp_path / "data", "options")
    monkeypatch.setenv("IMAGENET_CREDENTIALS", str(server.secret(tmp_path / "secret")))
    data = DataOptions(dataset_url=url, dataset_endpoint=server.endpoint, cache=tmp_path / "cache")
    found = open_remote_dataset(data, seed=0, rank=1, ranks=2)
    assert found.dataset == sealed == read_dataset(tmp_path / "data")
    train(found.train, 1, 2, (0, 0))
    assert (tmp_path / "cache" / "rank-1" / "train").stat().st_size == found.train.fetched
    with pytest.raises(InputError, match=r"the cache needs .* KiB, 0.977 KiB are free"):
        open_remote_dataset(data.replace(cache_size=1000), seed=0, rank=1, ranks=2)


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("an0ther", says("refuses the keys", "SignatureDoesNotMatch", "check the Secret")),
        (None, says("the Secret lacks", "AWS_SECRET_ACCESS_KEY", "add it")),
    ],
)
def test_a_secret_with_a_wrong_or_without_a_key_neither_publishes_nor_trains(
    key: str | None,
    words: str,
    server: S3Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    write_dataset(tmp_path / "data")
    url = publish_to(server, tmp_path / "data", "refused")
    secret = server.secret(tmp_path / "secret")
    (secret / "AWS_SECRET_ACCESS_KEY").unlink()
    if key is not None:
        (secret / "AWS_SECRET_ACCESS_KEY").write_text(key)
    monkeypatch.setenv("IMAGENET_CREDENTIALS", str(secret))
    with pytest.raises(InputError, match=words):
        open_remote_dataset(DataOptions(dataset_url=url, dataset_endpoint=server.endpoint), 0, 0, 1)
    to = ["--to", f"{url}-again", "--endpoint", server.endpoint]
    assert publish.main(["--dataset", str(tmp_path / "data"), *to]) == 3
    assert re.search(words, capfd.readouterr().err)
    assert not files(server, "refused-again")


def test_an_address_is_a_folder_in_a_bucket() -> None:
    with pytest.raises(
        InputError, match=says("s3://bucket", "is no folder in a bucket", "write s3://BUCK")
    ):
        open_remote_dataset(DataOptions(dataset_url="s3://bucket"), 0, 0, 1)
