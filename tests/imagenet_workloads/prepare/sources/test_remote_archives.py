"""Many archives on a server and in a bucket: the same datasets as from a folder on a volume."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from imagenet_workloads.commands import fetch, index, pack
from imagenet_workloads.prepare.layouts import decide as decisions
from imagenet_workloads.prepare.sources.http import expanded_names
from support.file_server import FileServer
from support.parquet_files import hugging_face, rows
from support.pictures import collection, tar, zipped
from support.preparation import prepare, refused, run_index
from support.remote_preparation import (
    files_on_server,
    prepare_fetched,
    prepare_remote,
    write_secret,
)
from support.s3_server import ACCESS_KEY, SECRET_KEY, S3Server, serve_s3
from support.sentences import assert_says
from support.shards import shard, split

CLASSES = collection({"n01": 4, "n02": 3, "n03": 5})
SHARDS = split()
FOLDERS: dict[str, dict[str, bytes]] = {
    "tars": {f"{name}.tar": tar(images) for name, images in CLASSES.items()},
    "zips": {f"{name}.zip": zipped(images) for name, images in CLASSES.items()},
    "shards": {f"imagenet-{number:06}.tar": shard(one) for number, one in enumerate(SHARDS)},
    "splits": {
        f"x-{name}-00.tar": shard(one) for name, one in zip(("train", "val"), SHARDS, strict=True)
    },
    "split": {
        "train.tar": tar({f"{name}.tar": tar(images) for name, images in CLASSES.items()}),
        "val.tar": tar(
            {f"{name}/v.JPEG": images[f"{name}_0.JPEG"] for name, images in CLASSES.items()}
        ),
    },
}
PARQUET = {
    f"{name}-0.parquet": hugging_face(rows(CLASSES)[first:last], tuple(CLASSES))
    for name, first, last in (("train", 0, 9), ("validation", 9, 12), ("test", 0, 1))
}
NAMES = {"shards": ["imagenet-{000000..000001}.tar"]}
ALL = ("--shards", "1")
DATASET = (*ALL, "--default-validation-per-class", "1")


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with serve_s3(tmp_path_factory.mktemp("s3")) as running:
        objects = {
            f"{folder}/{name}": one
            for folder, files in {**FOLDERS, "parquet": PARQUET}.items()
            for name, one in files.items()
        }
        running.fill("imagenet", objects)
        yield running


@pytest.fixture
def secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}
    monkeypatch.setenv("IMAGENET_CREDENTIALS", str(write_secret(tmp_path / "secret", **keys)))


@pytest.fixture
def server() -> Iterator[FileServer]:
    content = {f"/{f}/{name}": one for f, files in FOLDERS.items() for name, one in files.items()}
    with FileServer(content).running() as running:
        yield running


@pytest.fixture
def local(tmp_path: Path) -> Callable[[str], bytes]:
    def dataset(folder: str) -> bytes:
        root = tmp_path / folder
        root.mkdir()
        for name, content in FOLDERS[folder].items():
            (root / name).write_bytes(content)
        return (prepare(root, tmp_path / "local", *DATASET) / "dataset.json").read_bytes()

    return dataset


def on(server: FileServer, folder: str) -> list[str]:
    names = NAMES.get(folder, FOLDERS[folder])
    return ["--http-folder", f"{server.url}/{folder}/", *(f"--http-name={one}" for one in names)]


def below(bucket: S3Server, *options: str) -> list[str]:
    return ["--s3-bucket=imagenet", f"--s3-endpoint={bucket.endpoint}", *options]


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_of_a_server_gives_the_dataset_of_a_volume(
    folder: str, server: FileServer, local: Callable[[str], bytes], tmp_path: Path
) -> None:
    remote = prepare_remote(tmp_path / "remote", on(server, folder), *DATASET)
    assert (remote / "dataset.json").read_bytes() == local(folder)


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_prefix_or_keys_of_a_bucket_give_the_dataset_of_a_volume(
    folder: str,
    bucket: S3Server,
    secret: None,
    local: Callable[[str], bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    listed = [f"--s3-keys={folder}/{name}" for name in FOLDERS[folder]]
    whole = below(bucket, f"--s3-prefix={folder}")
    prefix = prepare_remote(tmp_path / "prefix", whole, *DATASET)
    fetched = prepare_fetched(
        tmp_path / "cache", tmp_path / "keys", below(bucket, *listed), *DATASET
    )
    cache = f"--cache={tmp_path / 'whole'}"
    assert fetch.main([*whole, cache]) == 0
    # Index and pack ask the bucket for nothing.
    monkeypatch.delenv("IMAGENET_CREDENTIALS")
    cached = prepare_remote(tmp_path / "cached", [*whole, cache], *DATASET)
    expected = local(folder)
    for dataset in (prefix, fetched, cached):
        assert (dataset / "dataset.json").read_bytes() == expected


def test_parquet_files_of_a_prefix_are_fetched_without_those_of_a_test_split(
    bucket: S3Server, secret: None, tmp_path: Path
) -> None:
    options, cache = below(bucket, "--s3-prefix=parquet"), tmp_path / "cache"
    in_place = prepare_remote(tmp_path / "in-place", options, *ALL)
    fetched = prepare_fetched(cache, tmp_path / "fetched", options, *ALL)
    found, expected = (
        json.loads((one / "dataset.json").read_text()) for one in (fetched, in_place)
    )
    # A cache does not hold the files of the test split, so they are not there to be counted.
    assert expected["decision"].pop("leftOut")[decisions.UNLISTED.name]["count"] == 1
    assert found == expected
    stored = {path.name.partition("-")[2] for path in cache.rglob("*.parquet")}
    assert stored == {"train-0.parquet", "validation-0.parquet"}


def test_loose_images_of_a_prefix_are_not_stored(
    bucket: S3Server, secret: None, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for prefix in ("/", "nothing"):
        options = below(bucket, f"--s3-prefix={prefix}", f"--cache={tmp_path / 'cache'}")
        assert fetch.main(options) == 3
        assert_says(capfd.readouterr().err, "only archives", "it has none", "remove cache")


def test_one_shard_is_a_source(server: FileServer, tmp_path: Path) -> None:
    files = files_on_server(f"{server.url}/shards", "imagenet-000000.tar")
    one = prepare_remote(tmp_path / "remote", files, *ALL)
    file = tmp_path / "imagenet-000000.tar"
    file.write_bytes(FOLDERS["shards"][file.name])
    local = prepare(file, tmp_path / "local", *ALL)
    assert (one / "dataset.json").read_bytes() == (local / "dataset.json").read_bytes()


@pytest.mark.parametrize(
    ("folder", "name"), [("tars", "n02.tar"), ("shards", "imagenet-000001.tar")]
)
def test_a_change_of_one_archive_between_index_and_pack_is_said(
    folder: str,
    name: str,
    server: FileServer,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    data = tmp_path / "data"
    key = run_index(None, data, *on(server, folder), *DATASET)["key"]
    content = bytearray(FOLDERS[folder][name])
    content[-1] ^= 1
    server.content[f"/{folder}/{name}"] = bytes(content)
    assert pack.main(["--data", str(data), "--key", key, *on(server, folder)]) == 3
    assert f"{name}: is another file: the source has changed" in capfd.readouterr().err


def test_the_estimate_counts_all_archives(
    server: FileServer, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    # Headers so far apart that each takes a request.
    images = {f"{number:04}.jpg": bytes(70 << 10) for number in range(150)}
    for name in ("a.tar", "b.tar", "c.tar", "d.tar"):
        server.content[f"/large/{name}"] = tar(images)
        # Otherwise the server would make a checksum of it for each answer.
        server.tags[f"/large/{name}"] = f'"{name}"'
    options = ["--http-folder", f"{server.url}/large/", "--http-max-requests", "500"]
    options += [f"--http-name={name}.tar" for name in "abcd"]
    said = refused(capfd, *options, "--data", str(tmp_path))
    assert_says(said, "listing takes about 6", "500 are allowed")
    assert_says(said, "raise maxRequests", "write source.http.cache")


@pytest.mark.parametrize(
    ("layout", "classes"), [("", []), ("parquet", ["n01", "n02", "n03"]), ("classFolders", ["n01"])]
)
def test_parquet_files_beside_archives_are_refused_unless_one_is_chosen(
    layout: str,
    classes: list[str],
    server: FileServer,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    server.content["/tars/x.parquet"] = hugging_face(rows(CLASSES), tuple(CLASSES))
    options = ["--http-folder", f"{server.url}/tars/", "--http-name=n01.tar"]
    options += ["--http-name=x.parquet", "--data", str(tmp_path), *ALL]
    if classes:
        result = run_index(None, tmp_path, *options, "--layout", layout)
        assert result["classes"] == len(classes)
    else:
        said = refused(capfd, *options)
        assert_says(said, "a Parquet file (such as x.parquet)", "an archive (such as n01.tar)")


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["n01.tar", "n02.zip"], "holds tars and zips"),
        (["n01.tar", "n04.tar"], "/n04.tar: 404 Not Found"),
    ],
)
def test_what_cannot_be_read_is_named(
    names: list[str],
    message: str,
    server: FileServer,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    server.content["/tars/n02.zip"] = FOLDERS["zips"]["n02.zip"]
    options = ["--http-folder", f"{server.url}/tars/", *(f"--http-name={one}" for one in names)]
    said = refused(capfd, *options, "--data", str(tmp_path))
    assert "error: spec.dataset.source.http: " in said
    assert message in said


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--http-folder=http://127.0.0.1:1/x/"], "--http-folder and --http-name go together"),
        (
            ["--http-folder=http://127.0.0.1:1/x/", "--http-name={9..1}.tar"],
            "--http-name: write different names, such as x-{000..127}.tar",
        ),
        (
            ["--s3-bucket=x", "--s3-keys=a/n01.tar", "--s3-keys=b/n01.tar"],
            "each of --s3-keys needs another last part",
        ),
    ],
)
def test_a_mistake_in_the_options(
    options: list[str], message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        index.main([*options, "--data", "/nowhere"])
    assert message in capfd.readouterr().err


def test_ranges_of_names() -> None:
    assert expanded_names(["x-{08..10}.tar", "a.tar"]) == [
        "a.tar",
        "x-08.tar",
        "x-09.tar",
        "x-10.tar",
    ]
    assert expanded_names(["x-{0..99999}.tar", "a.tar"]) is None
    assert expanded_names(["x-{0..1}-{0..1}.tar"]) is None
    assert expanded_names(["a.tar", "a.tar"]) is None
