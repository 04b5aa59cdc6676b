"""A competition and a dataset of Kaggle: in place or from a cache, by links that expire."""

import sys
import zipfile
from collections.abc import Callable, Iterator
from http import HTTPStatus
from pathlib import Path

import pytest

from imagenet_workloads.commands import fetch, index, pack
from imagenet_workloads.dataset import read_dataset
from imagenet_workloads.prepare import fetch as fetching
from support.file_server import Handler, basic
from support.kaggle_server import Kaggle, serve_kaggle
from support.parquet_files import hugging_face, rows
from support.pictures import collection, tar, zipped
from support.preparation import contents, prepare, refused, run_index
from support.remote_preparation import prepare_fetched, prepare_remote, write_secret
from support.sentences import assert_says

IMAGES = collection({"n01": 6, "n02": 5})
TREE = "ILSVRC/Data/CLS-LOC"
LOOSE = {f"{name}/{base}": one for name in IMAGES for base, one in IMAGES[name].items()}
OTHER = {name: one for name, one in LOOSE.items() if not name.endswith("_0.JPEG")}
ARCHIVE = zipped(
    {
        **{f"{TREE}/train/{name}": one for name, one in LOOSE.items()},
        **{f"{TREE}/val/v_{n}.JPEG": one for n, one in enumerate(list(IMAGES["n01"].values())[:3])},
        "ILSVRC/ImageSets/CLS-LOC/train_cls.txt": b"n01/n01_0 1\n",
        "LOC_synset_mapping.txt": b"n01 tench, Tinca tinca\nn02 goldfish\n",
        "LOC_val_solution.csv": b"ImageId,PredictionString\nv_0,n01 1\nv_1,n02 1\nv_2,n01 2\n",
    }
)
FILES = {
    "competitions/data/download-all/imagenet-challenge": ARCHIVE,
    "competitions/data/download/imagenet-challenge/a b/images.tar": tar(LOOSE),
    "datasets/download/pets/photos@1": zipped(LOOSE),
    "datasets/download/pets/photos@2": zipped(OTHER),
    "datasets/download/pets/photos@2:a b/images.tar": tar(LOOSE),
    "datasets/download/pets/photos@2:x.parquet": hugging_face(rows(IMAGES), tuple(IMAGES)),
}
LOGIN = basic("rea-der", "k-e-y")
SECRETS = ("k-e-y", LOGIN.removeprefix("Basic "), "sig-na-ture", "X-Goog")
SHARDS = ("--shards", "1")

Reading = Callable[..., list[str]]


@pytest.fixture
def kaggle() -> Iterator[Kaggle]:
    with serve_kaggle(FILES, LOGIN) as running:
        yield running


@pytest.fixture(autouse=True)
def secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = write_secret(tmp_path / "secret", username="rea-der", key="k-e-y")
    monkeypatch.setenv("IMAGENET_CREDENTIALS", str(folder))
    return folder


def competition(kaggle: Kaggle, *more: str) -> list[str]:
    name = "--kaggle-competition=imagenet-challenge"
    return [name, f"--kaggle-endpoint={kaggle.api.url}", *more]


def dataset(kaggle: Kaggle, *more: str) -> list[str]:
    return ["--kaggle-dataset=pets/photos", f"--kaggle-endpoint={kaggle.api.url}", *more]


def test_a_competition_in_place_is_the_dataset_of_its_zip_on_a_volume(
    kaggle: Kaggle, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "kaggle.zip").write_bytes(ARCHIVE)
    local = prepare(tmp_path / "kaggle.zip", tmp_path / "local", *SHARDS)
    remote = prepare_remote(tmp_path / "data", competition(kaggle), *SHARDS)
    assert remote.name == local.name
    assert (remote / "dataset.json").read_bytes() == (local / "dataset.json").read_bytes()
    sealed = read_dataset(remote)
    assert sealed.class_words == {"n01": "tench, Tinca tinca", "n02": "goldfish"}
    assert (sealed.train.images, sealed.validation.per_class) == (11, (2, 1))
    # Kaggle is asked once by index, and for each split by pack; the other host gets no login.
    assert [request.headers["Authorization"] for request in kaggle.api.requests] == [LOGIN] * 3
    assert all("Authorization" not in request.headers for request in kaggle.store.requests)
    assert all(request.headers.get("Range") for request in kaggle.store.requests)
    texts = [*map(str, contents(tmp_path / "data").values()), *capfd.readouterr()]
    assert not any(word in text for text in texts for word in SECRETS)


def test_a_cache_is_filled_once_and_needs_no_secret_afterwards(
    kaggle: Kaggle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kaggle.zip").write_bytes(ARCHIVE)
    local = prepare(tmp_path / "kaggle.zip", tmp_path / "local", *SHARDS)
    cache = tmp_path / "cache"
    for _ in range(2):
        kaggle.signature += 1
        assert fetch.main([*competition(kaggle), "--cache", str(cache)]) == 0
    assert kaggle.store.sent <= len(ARCHIVE) + 64
    sent = len(kaggle.api.requests)
    monkeypatch.delenv("IMAGENET_CREDENTIALS")
    reading = [*competition(kaggle), "--cache", str(cache)]
    assert prepare_remote(tmp_path / "data", reading, *SHARDS).name == local.name
    assert len(kaggle.api.requests) == sent
    found = {**contents(cache), **contents(tmp_path / "data")}
    assert not any(word in f"{name} {one!r}" for name, one in found.items() for word in SECRETS)


def test_a_server_without_ranges_needs_a_cache(
    kaggle: Kaggle, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    kaggle.store.knows_ranges = False
    said = refused(capfd, *competition(kaggle), "--data", str(tmp_path / "data"))
    assert_says(said, "not answer", "ranges of bytes", "write source.kaggle.cache")
    found = prepare_fetched(tmp_path / "cache", tmp_path / "data", competition(kaggle), *SHARDS)
    assert read_dataset(found).train.images == 11


def expiring(kaggle: Kaggle, requests: int) -> None:
    """Has the link expire after some requests to the host of the files."""

    def expire(handler: Handler) -> None:
        kaggle.signature += 1
        kaggle.serve(handler)

    kaggle.store.faults.rotate(-requests)
    kaggle.store.faults.appendleft(expire)
    kaggle.store.faults.rotate(requests)


def test_an_expired_link_is_replaced_in_place_and_while_fetching(
    kaggle: Kaggle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expiring(kaggle, 6)
    found = prepare_remote(tmp_path / "data", competition(kaggle), *SHARDS)
    assert read_dataset(found).train.images == 11
    assert len(kaggle.api.requests) > 3

    monkeypatch.setattr(fetching, "BLOCK", 4096)
    asked = len(kaggle.api.requests)
    expiring(kaggle, 4)
    options = [*competition(kaggle), "--cache", str(tmp_path / "cache"), "--connections", "1"]
    assert fetch.main(options) == 0
    assert len(kaggle.api.requests) == asked + 2
    (content,) = (one for name, one in contents(tmp_path / "cache").items() if ".zip" in name[-4:])
    assert content == ARCHIVE


def test_the_newest_version_of_a_dataset_is_that_of_index(kaggle: Kaggle, tmp_path: Path) -> None:
    data, options = tmp_path / "data", dataset(kaggle)
    key = run_index(None, data, *options, *SHARDS)["key"]
    kaggle.newest = 2
    assert pack.main(["--data", str(data), "--key", key, *options]) == 0
    assert all("@1?" in request.path for request in kaggle.store.requests)
    assert run_index(None, data, *options, *SHARDS)["images"] == {"train": 9, "validation": 0}
    older = run_index(None, data, *options, "--kaggle-version=1", *SHARDS)
    assert older["key"] == key


@pytest.mark.parametrize("of", [competition, dataset])
def test_one_file_may_be_the_archive(of: Reading, kaggle: Kaggle, tmp_path: Path) -> None:
    kaggle.newest = 2
    options = of(kaggle, "--kaggle-file=a b/images.tar")
    found = prepare_remote(tmp_path / "data", options, *SHARDS)
    assert read_dataset(found).train.per_class == (6, 5)
    assert prepare_fetched(tmp_path / "cache", tmp_path / "d", options, *SHARDS).name == found.name


def test_one_file_may_be_parquet(kaggle: Kaggle, tmp_path: Path) -> None:
    options = dataset(kaggle, "--kaggle-file=x.parquet", "--kaggle-version=2")
    found = prepare_remote(tmp_path / "data", options, *SHARDS)
    assert read_dataset(found).train.per_class == (6, 5)


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_the_zip_may_hold_parquet_files(kaggle: Kaggle, method: int, tmp_path: Path) -> None:
    every = rows(IMAGES)
    parts = {"0.parquet": every[:7], "1.parquet": every[7:]}
    content = {name: hugging_face(part, tuple(IMAGES)) for name, part in parts.items()}
    archive = zipped(content, method)
    kaggle.files = {"datasets/download/pets/photos@1": archive}
    found = prepare_remote(tmp_path / "data", dataset(kaggle), *SHARDS)
    assert read_dataset(found).train.per_class == (6, 5)
    again = prepare_fetched(tmp_path / "cache", tmp_path / "d", dataset(kaggle), *SHARDS)
    assert again.name == found.name
    (tmp_path / "x.zip").write_bytes(archive)
    assert prepare(tmp_path / "x.zip", tmp_path / "local", *SHARDS).name == found.name


def test_a_token_is_sent_as_one(kaggle: Kaggle, secret: Path, tmp_path: Path) -> None:
    for name in ("username", "key"):
        (secret / name).unlink()
    (secret / "KAGGLE_API_TOKEN").write_text("KGAT_to-ken\n")
    kaggle.login = "Bearer KGAT_to-ken"
    run_index(None, tmp_path / "data", *competition(kaggle), *SHARDS)


def test_without_a_secret_no_key_of_this_machine_is_sent(
    kaggle: Kaggle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("IMAGENET_CREDENTIALS")
    (tmp_path / ".kaggle").mkdir()
    (tmp_path / ".kaggle" / "kaggle.json").write_text('{"username": "me", "key": "mine"}')
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KAGGLE_API_TOKEN", "mine")
    kaggle.login = ""
    run_index(None, tmp_path / "data", *dataset(kaggle), *SHARDS)
    assert all("Authorization" not in request.headers for request in kaggle.api.requests)


def test_rules_that_are_not_accepted_are_permanent(
    kaggle: Kaggle, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    kaggle.accepted = False
    options = competition(kaggle)
    rules = ("accept the rules", f"{kaggle.api.url}/competitions/imagenet-")
    assert_says(refused(capfd, *options, "--data", str(tmp_path / "data")), *rules)
    assert fetch.main([*options, "--cache", str(tmp_path / "cache")]) == 3
    assert_says(capfd.readouterr().err, *rules)
    assert len(kaggle.api.requests) == 2
    said = refused(capfd, *dataset(kaggle), "--data", str(tmp_path / "data"))
    assert_says(said, "user of the key", "may not read the dataset", "ask for access")


@pytest.mark.parametrize("of", [competition, dataset])
def test_a_refused_key_is_permanent_and_in_no_message(
    of: Reading, kaggle: Kaggle, secret: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (secret / "key").write_text("wr-ong")
    said = refused(capfd, *of(kaggle), "--data", str(tmp_path / "data"))
    assert_says(said, "401 Unauthorized", "refuses the key")
    assert_says(said, "KAGGLE_API_TOKEN, or username and key, in the Secret")
    assert "wr-ong" not in said
    assert len(kaggle.api.requests) == 1


def test_a_link_that_is_refused_at_once_is_no_matter_of_rules(
    kaggle: Kaggle, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    kaggle.store.faults.appendleft(lambda handler: handler.refuse(HTTPStatus.FORBIDDEN))
    said = refused(capfd, *competition(kaggle), "--data", str(tmp_path / "data"))
    assert "403 Forbidden: the server refuses the request" in said
    assert "sig-na-ture" not in said


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        (["key"], "the Secret lacks the key key; add it to the Secret"),
        (["username", "key"], "the Secret lacks the key KAGGLE_API_TOKEN; add it to the Secret"),
    ],
)
def test_a_secret_without_a_key_is_named(
    missing: list[str],
    message: str,
    kaggle: Kaggle,
    secret: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    for name in missing:
        (secret / name).unlink()
    assert message in refused(capfd, *competition(kaggle), "--data", str(tmp_path / "data"))
    assert kaggle.api.requests == []


def test_what_kaggle_lacks_is_said(
    kaggle: Kaggle, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    data = ("--data", str(tmp_path / "data"))
    said = refused(capfd, *competition(kaggle, "--kaggle-file=x.tar"), *data)
    assert_says(said, "no such competition or file", "check competition and file")
    said = refused(capfd, *dataset(kaggle, "--kaggle-version=9"), *data)
    assert_says(said, "no such dataset or file", "check dataset, version and file")


def test_a_server_that_gives_no_version_is_refused(
    kaggle: Kaggle, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    kaggle.newest = 0
    said = refused(capfd, *dataset(kaggle), "--data", str(tmp_path / "data"))
    assert "/api/v1/datasets/view/pets/photos: currentVersionNumber" in said


def test_a_missing_package_is_named(
    kaggle: Kaggle,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(sys.modules, "kagglesdk.competitions.types", None)
    said = refused(capfd, *competition(kaggle), "--data", str(tmp_path / "data"))
    assert "kagglesdk is missing; type: pip install 'kagglesdk<0.2'" in said


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--kaggle-dataset=a/b"], "either --kaggle-competition or --kaggle-dataset, not both"),
        (["--kaggle-version=1"], "--kaggle-version goes with --kaggle-dataset"),
    ],
)
def test_options_that_exclude_each_other(
    options: list[str], message: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        index.main(["--kaggle-competition=c", *options, "--data", str(tmp_path / "data")])
    assert message in capfd.readouterr().err
