"""A dataset from a hub, through huggingface_hub: in place or from a cache, pinned to a commit."""

import gzip
import json
import socket
import sys
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path

import pytest

from imagenet_workloads.commands import fetch, index, pack
from imagenet_workloads.dataset import read_dataset
from support.hugging_face_hub import COMMIT, Hub, serve_hub
from support.parquet_files import hugging_face, rows
from support.pictures import collection, tar
from support.preparation import contents, finish, refused, run_index, start
from support.remote_preparation import prepare_fetched, prepare_remote, write_secret
from support.sentences import assert_says

IMAGES = collection({"cat": 6, "dog": 5})
ROWS = rows(IMAGES)
NAMES = ("cat", "dog")
DATASET = "pets/photos"
FILES = {
    "README.md": b"# Photos",
    "data/test-00000-of-00001.parquet": hugging_face(ROWS[:1], NAMES, labels=[-1]),
    "data/train-00000-of-00002.parquet": hugging_face(ROWS[:4], NAMES),
    "data/train-00001-of-00002.parquet": hugging_face(ROWS[4:8], NAMES),
    "data/validation-00000-of-00001.parquet": hugging_face(ROWS[8:], NAMES),
}


@pytest.fixture
def hub() -> Iterator[Hub]:
    with serve_hub(FILES, DATASET, "hf_to-ken") as running:
        yield running


@pytest.fixture(autouse=True)
def secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = write_secret(tmp_path / "secret", HF_TOKEN="hf_to-ken")
    monkeypatch.setenv("IMAGENET_CREDENTIALS", str(folder))
    return folder


def reading(hub: Hub, *more: str, dataset: str = DATASET) -> list[str]:
    return [f"--hf-dataset={dataset}", f"--hf-endpoint={hub.api.url}", *more]


def test_the_splits_of_a_dataset_train_and_validate(hub: Hub, tmp_path: Path) -> None:
    dataset = prepare_remote(tmp_path / "data", reading(hub), "--shards", "1")
    sealed = read_dataset(dataset)
    assert sealed.classes == NAMES
    assert (sealed.train.images, sealed.validation.images) == (8, 3)
    assert COMMIT.encode() in contents(dataset)["plan/plan.json"]
    # Another host gets no token, and the token is in no file.
    assert all("Authorization" not in request.headers for request in hub.store.requests)
    assert all(request.headers.get("Range") for request in hub.store.requests)
    assert not any(b"hf_to-ken" in content for content in contents(dataset).values())


def test_pack_reads_the_commit_of_index(hub: Hub, tmp_path: Path) -> None:
    data = tmp_path / "data"
    options = reading(hub)
    key = run_index(None, data, *options, "--shards", "1", "--hf-revision=main")["key"]
    hub.commits["main"] = "f" * 40
    hub.commits["kept"] = COMMIT
    hub.api.requests.clear()
    assert pack.main(["--data", str(data), "--key", key, *options]) == 0
    paths = [request.path for request in hub.api.requests]
    assert paths
    assert all(f"/resolve/{COMMIT}/" in path for path in paths)


def test_the_variable_of_the_package_names_the_server(hub: Hub, tmp_path: Path) -> None:
    options = (f"--hf-dataset={DATASET}", "--hf-path=data/train-00000-of-00002.parquet")
    arguments = (*options, "--data", tmp_path / "data", "--shards", "1")
    # The package reads its variable when it is imported.
    index = start("index", *arguments, variables=[("HF_ENDPOINT", hub.api.url)])
    code, result, errors = finish(index)
    assert code == 0, errors
    assert json.loads(result)["images"] == {"train": 4, "validation": 0}


def test_a_dataset_may_be_an_archive(tmp_path: Path) -> None:
    loose = {f"{name}/{base}": one for name in IMAGES for base, one in IMAGES[name].items()}
    with serve_hub({"a/images.tar": tar(loose), "b.txt": b""}, DATASET) as hub:
        dataset = prepare_remote(tmp_path / "data", reading(hub), "--shards", "1")
    assert read_dataset(dataset).train.per_class == (6, 5)


def test_more_row_groups_than_allowed_are_refused(
    hub: Hub, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    options, cache = reading(hub, "--shards", "1"), ("--cache", str(tmp_path / "cache"))
    few = ("--hf-max-requests", "3")
    said = refused(capfd, *options, *few, "--data", str(tmp_path / "data"))
    assert_says(said, "3 are allowed", "raise maxRequests", "write source.huggingFace.cache")
    run_index(None, tmp_path / "data", *options, "--hf-max-requests", "100")
    # A cache has no limit.
    assert fetch.main(reading(hub, *cache)) == 0
    run_index(None, tmp_path / "cached", *options, *cache, *few)


def test_a_cache_is_filled_once_and_needs_neither_hub_nor_secret_afterwards(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_place = prepare_remote(tmp_path / "in-place", reading(hub), "--shards", "2")
    hub.store.requests.clear()
    hub.store.sent = 0
    options = reading(hub, "--cache", str(tmp_path / "cache"))
    assert fetch.main(options) == 0
    # The files of the test split are not read.
    read = [name for name in FILES if name.endswith(".parquet") and "test" not in name]
    assert {request.path.partition("?")[0] for request in hub.store.requests} == {
        f"/{name}" for name in read
    }
    assert hub.store.sent < sum(len(FILES[name]) for name in read) + 64 * len(read)
    assert fetch.main(options) == 0
    requests = len(hub.api.requests), len(hub.store.requests)
    monkeypatch.delenv("IMAGENET_CREDENTIALS")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    cached = prepare_remote(tmp_path / "data", options, "--shards", "2")
    assert cached.name == in_place.name
    found, expected = (json.loads((d / "dataset.json").read_text()) for d in (cached, in_place))
    # A cache does not hold the files of the test split, so they are not there to be counted.
    assert expected["decision"].pop("leftOut")
    assert found == expected
    assert (len(hub.api.requests), len(hub.store.requests)) == requests
    stored = {**contents(tmp_path / "cache"), **contents(cached)}
    assert not any(b"hf_to-ken" in one or b"signature" in one for one in stored.values())


def move_branch(hub: Hub, **content: bytes) -> None:
    """Has the branch name another commit, which has other files for some splits."""
    hub.commits["main"] = "f" * 40
    for split, one in content.items():
        (path,) = (path for path in hub.store.content if f"{split}-00001-of" in path)
        hub.store.content[path] = one


def test_a_branch_that_moves_after_fetch_changes_nothing(hub: Hub, tmp_path: Path) -> None:
    options = reading(hub, "--cache", str(tmp_path / "cache"), "--hf-revision=main")
    assert fetch.main(options) == 0
    move_branch(hub, train=hugging_face(ROWS[5:8], NAMES))
    dataset = prepare_remote(tmp_path / "data", options, "--shards", "1")
    assert read_dataset(dataset).train.images == 8
    assert COMMIT.encode() in contents(dataset)["plan/plan.json"]


def test_the_next_fetch_stores_what_the_new_commit_has(
    hub: Hub, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    cache, data = tmp_path / "cache", tmp_path / "data"
    options = reading(hub, "--cache", str(cache))
    assert fetch.main(options) == 0
    key = run_index(None, data, *options, "--shards", "1")["key"]
    hub.store.requests.clear()
    move_branch(hub, train=hugging_face(ROWS[5:8], NAMES))
    hub.store.content["/data/validation-0.parquet?signature=s"] = hub.store.content.pop(
        "/data/validation-00000-of-00001.parquet?signature=s"
    )
    assert fetch.main(options) == 0
    # The unchanged file is not asked for, and that of the former commit is deleted.
    asked = {request.path for request in hub.store.requests}
    assert not any("train-00000" in path for path in asked)
    assert not any("validation-00000" in name for name in contents(cache))
    assert run_index(None, data, *options, "--shards", "1")["images"]["train"] == 7
    assert pack.main(["--data", str(data), "--key", key, *options]) == 3
    assert "is another file: the source has changed" in capfd.readouterr().err


def test_a_job_reads_the_commit_that_it_has_fetched(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, data = tmp_path / "cache", tmp_path / "data"
    options = reading(hub, "--cache", str(cache))
    monkeypatch.setenv("IMAGENET_JOB_UID", "first")
    assert fetch.main(options) == 0
    key = run_index(None, data, *options, "--shards", "1")["key"]
    move_branch(hub, train=hugging_face(ROWS[5:8], NAMES))
    monkeypatch.setenv("IMAGENET_JOB_UID", "second")
    assert fetch.main(options) == 0
    monkeypatch.setenv("IMAGENET_JOB_UID", "first")
    assert pack.main(["--data", str(data), "--key", key, *options]) == 0


def test_a_file_of_another_commit_than_the_list_is_said(
    hub: Hub, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    options = reading(hub, "--cache", str(tmp_path / "cache"))
    assert fetch.main(options) == 0
    move_branch(hub, train=hugging_face(ROWS[5:8], NAMES))
    # It ends before the list is stored.
    hub.sums["data/validation-00000-of-00001.parquet"] = "0" * 64
    assert fetch.main(options) == 3
    said = capfd.readouterr().err
    file = "hf://datasets/pets/photos/data/validation-00000-of-00001.parquet: "
    assert_says(said, file, "has the sha", "fetch it again", "report it", "dataset's owner")
    said = refused(capfd, *options, "--data", str(tmp_path / "data"))
    assert_says(said, "another fetch has replaced it", "run imagenet-fetch again")


def test_index_needs_the_list_of_fetch(
    hub: Hub, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    options = reading(hub, "--cache", str(tmp_path / "cache"))
    said = refused(capfd, *options, "--data", str(tmp_path / "data"))
    assert_says(said, "hf://datasets/pets/photos: ", "not in the cache", "run imagenet-fetch")


@pytest.mark.parametrize("compressed", [False, True])
def test_an_archive_may_be_in_a_cache(
    compressed: bool, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    loose = {f"{name}/{base}": one for name in IMAGES for base, one in IMAGES[name].items()}
    content = tar(loose)
    with serve_hub({"a/x.tar": content, "b.txt": b""}, DATASET) as hub:
        in_place = prepare_remote(tmp_path / "in-place", reading(hub), "--shards", "1")
    files = {"a/x.tar.gz": gzip.compress(content)} if compressed else {"a/x.tar": content}
    with serve_hub(files, DATASET) as hub:
        if compressed:
            said = refused(capfd, *reading(hub), "--data", str(tmp_path / "data"))
            assert_says(said, "is compressed", "write source.huggingFace.cache", "decompressed")
        fetched = tmp_path / "cache", tmp_path / "data"
        assert prepare_fetched(*fetched, reading(hub), "--shards", "1").name == in_place.name


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--hf-revision=v9"], "pets/photos: has no revision v9; check revision"),
        (["--hf-path=date"], "has no file at or below date, at the commit 0123"),
        (["--hf-path=README.md"], "neither Parquet files nor a tar or zip; write the path of one"),
        (["--hf-dataset=pets/others"], "pets/others: there is no such dataset, or it is private"),
        (["--hf-dataset=pets/a/b"], "pets/a/b: is no name of a dataset; write OWNER/NAME"),
    ],
)
def test_what_a_hub_lacks_is_said(
    more: list[str], message: str, hub: Hub, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    said = refused(capfd, *reading(hub), *more, "--data", str(tmp_path / "data"))
    assert message in said


def test_a_server_without_ranges_needs_a_cache(
    hub: Hub, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    hub.store.knows_ranges = False
    said = refused(capfd, *reading(hub), "--data", str(tmp_path / "data"))
    assert_says(said, "not answer", "ranges of bytes", "write source.huggingFace.cache")
    found = prepare_fetched(tmp_path / "cache", tmp_path / "d", reading(hub), "--shards", "1")
    assert read_dataset(found).train.images == 8


def test_a_refused_token_is_permanent(
    hub: Hub, secret: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (secret / "HF_TOKEN").write_text("hf_wrong")
    said = refused(capfd, *reading(hub), "--data", str(tmp_path / "data"))
    assert "pets/photos: " in said
    assert "check " in said
    assert "token" in said.lower()
    assert "hf_wrong" not in said
    assert len(hub.api.requests) == 1


def test_a_gated_dataset_is_said(
    hub: Hub, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    hub.api.faults.appendleft(
        lambda handler: handler.refuse(HTTPStatus.FORBIDDEN, X_Error_Code="GatedRepo")
    )
    said = refused(capfd, *reading(hub), "--data", str(tmp_path / "data"))
    assert_says(said, "pets/photos: ", "is gated", "ask for access", "HF_TOKEN in secretName")


def test_a_secret_without_the_token_is_named(
    hub: Hub, secret: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (secret / "HF_TOKEN").unlink()
    said = refused(capfd, *reading(hub), "--data", str(tmp_path / "data"))
    assert_says(said, "lacks the key HF_TOKEN", "add it to the Secret")
    assert hub.api.requests == []


def test_a_server_that_is_away_is_tried_again_with_the_pod(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as away:
        # Nothing listens on it.
        away.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{away.getsockname()[1]}"
        options = (f"--hf-dataset={DATASET}", f"--hf-endpoint={url}")
        assert index.main([*options, "--data", str(tmp_path / "d")]) == 1
    assert "pets/photos: the server cannot be reached" in capfd.readouterr().err
