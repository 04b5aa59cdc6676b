"""What index says of pack's requests and bytes, beside those that pack then sends."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from imagenet_workloads.clients import TRAFFIC
from imagenet_workloads.commands import index, pack
from imagenet_workloads.prepare.source import Notes
from imagenet_workloads.prepare.sources import kinds as sources
from support.file_server import FileServer
from support.parquet_files import hugging_face, rows
from support.pictures import collection, jpeg, tar, write_tar_of_tars, zipped
from support.preparation import prepare, refused, run_index
from support.remote_preparation import files_on_server, prepare_fetched, prepare_remote
from support.sentences import assert_says

IMAGES = collection({"n01": 20, "n02": 20, "n03": 2})
SHARDS = ("--shards", "2")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[FileServer]:
    archive = write_tar_of_tars(tmp_path / "train.tar", IMAGES)
    # Images much larger than the footers.
    photographs = [("n01", jpeg(number, 400, 400)) for number in range(40)]
    parquet = hugging_face([*rows(IMAGES), *photographs], tuple(IMAGES), group=8)
    content = {"/train.tar": archive.read_bytes(), "/x.parquet": parquet}
    with FileServer(content).running() as running:
        yield running


def reading(server: FileServer, name: str) -> list[str]:
    return files_on_server(server.url, name)


def packed(data: Path, result: dict[str, Any], *options: str) -> tuple[int, int]:
    """Packs; returns the requests and the bytes that this took."""
    before = TRAFFIC.requests, TRAFFIC.bytes
    assert pack.main(["--data", str(data), "--key", result["key"], "--threads", "2", *options]) == 0
    return TRAFFIC.requests - before[0], TRAFFIC.bytes - before[1]


def test_pack_reads_each_image_of_an_archive_once(server: FileServer, tmp_path: Path) -> None:
    options = reading(server, "train.tar")
    drawn = ("--validation-per-class", "2", "--min-images-per-class", "5")
    result = run_index(None, tmp_path / "data", *options, *SHARDS, *drawn)
    # The class with two images is dropped after the listing.
    assert (result["packing"]["requests"], result["images"]["train"]) == (40, 36)
    requests, bytes = packed(tmp_path / "data", result, *options)
    # Besides, the archive is opened for each split, and its first headers show the layout.
    opening, headers = requests - 40, bytes - result["packing"]["bytes"]
    assert 0 < opening <= 10
    assert 0 < headers <= opening * 16384


LARGE_TREE = {
    # Headers so far apart that each takes a request.
    **{f"train/n0{number % 2}/{number:04}.jpg": bytes(70 << 10) for number in range(500)},
    **{f"val/n0{number % 2}/{number:04}.jpg": bytes(70 << 10) for number in range(100)},
}


def test_a_tree_is_refused_before_it_is_listed_as_a_whole(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with FileServer({"/tree.tar": tar(LARGE_TREE)}).running() as server:
        # Without a tag, the server would make a checksum for each answer.
        server.tags["/tree.tar"] = '"1"'
        options = [*reading(server, "tree.tar"), "--data", str(tmp_path / "data")]
        said = refused(capfd, *options, "--http-max-requests", "1100")
        # It is listed once, for both splits and the labels.
        found = re.search(r"takes about (\d+) requests\D+packing (\d+)\D+1100 are allowed", said)
        assert found is not None
        assert 590 <= int(found[1]) <= 610
        assert 590 <= int(found[2]) <= 610
        assert len(server.requests) < 300


def test_a_tree_is_listed_once_for_both_splits(tmp_path: Path) -> None:
    with FileServer({"/tree.tar": tar(LARGE_TREE)}).running() as server:
        server.tags["/tree.tar"] = '"1"'
        parsed = index.build_parser().parse_args(
            [*reading(server, "tree.tar"), "--data", str(tmp_path / "data")]
        )
        source = sources.open_source(parsed)
        before = TRAFFIC.requests
        assert sum(1 for _ in source.scan(Notes())) == 500
        assert source.listing is not None and source.own_validation is not None
        validation = source.own_validation()
        assert validation is not None
        assert sum(1 for _ in validation.source.scan(Notes())) == 100
        sent = TRAFFIC.requests - before
        assert sent / 1.1 < source.listing.requests < sent * 1.1


def test_each_shard_reads_the_row_groups_of_its_images(server: FileServer, tmp_path: Path) -> None:
    options = reading(server, "x.parquet")
    result = run_index(None, tmp_path / "data", *options, *SHARDS)
    # Both shards have images of each of the 11 groups.
    assert result["packing"]["requests"] == 22
    requests, bytes = packed(tmp_path / "data", result, *options)
    assert 22 < requests <= 28
    assert bytes / 1.3 < result["packing"]["bytes"] < bytes * 1.3


@pytest.mark.parametrize("zipped_as", ["", "x.zip"])
def test_more_row_groups_than_allowed_are_refused(
    zipped_as: str, server: FileServer, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    if zipped_as:
        server.content["/x.zip"] = zipped({"data/x.parquet": server.content["/x.parquet"]})
    source = reading(server, zipped_as or "x.parquet")
    options = [*source, *SHARDS, "--data", str(tmp_path / "data")]
    # By the plan alone: its 22 requests are fewer.
    said = refused(capfd, *options, "--http-max-requests", "22")
    found = re.search(r"listing took (\d+) requests\D+packing takes 22\D+22 are allowed", said)
    assert found is not None
    assert_says(said, "raise maxRequests", "write source.http.cache", "stores the files")
    assert list((tmp_path / "data" / "datasets").iterdir()) == []
    most = str(int(found[1]) + 22)
    # What is packed then is not read again, so that less is enough.
    result = run_index(None, tmp_path / "data", *source, *SHARDS, "--http-max-requests", most)
    packed(tmp_path / "data", result, *source, "--shard", "1")
    fewer = str(int(found[1]) + 11)
    assert index.main([*options, "--http-max-requests", fewer]) == 0
    # A cache has no limit.
    cached = (tmp_path / "cache", tmp_path / "cached")
    prepare_fetched(*cached, source, *SHARDS, "--http-max-requests", "1")


def test_the_limit_is_of_the_validation_archive_too(
    server: FileServer, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    server.content["/val.tar"] = server.content["/train.tar"]
    options = [*reading(server, "train.tar"), *reading(server, "val.tar"), *SHARDS]
    options += ["--http-validation", "val.tar", "--data", str(tmp_path / "data")]
    # The estimate is of the training images.
    said = refused(capfd, *options, "--http-max-requests", "80")
    assert_says(said, "listing took", "packing takes 84,", "80 are allowed")


def test_what_is_packed_is_not_read_again(server: FileServer, tmp_path: Path) -> None:
    options = reading(server, "train.tar")
    data = tmp_path / "data"
    whole = run_index(None, data, *options, *SHARDS)["packing"]
    result = run_index(None, data, *options, *SHARDS)
    packed(data, result, *options, "--shard", "1")
    rest = run_index(None, data, *options, *SHARDS)["packing"]
    assert (whole["requests"], rest["requests"]) == (42, 21)
    prepare_remote(data, options, *SHARDS)
    again = run_index(None, data, *options, *SHARDS)
    assert again["sealed"]
    assert "packing" not in again


def test_images_of_a_volume_take_no_requests(server: FileServer, tmp_path: Path) -> None:
    for dataset in (
        prepare(tmp_path / "train.tar", tmp_path / "local", *SHARDS),
        prepare_fetched(
            tmp_path / "cache", tmp_path / "cached", reading(server, "train.tar"), *SHARDS
        ),
    ):
        log = dataset.parents[1].parent / f"{dataset.parents[1].name}-termination-log"
        assert not {"listing", "packing"} & json.loads(log.read_text()).keys()
