"""A dataset from a bucket, which SeaweedFS serves: an archive in place, or an object an image."""

import hashlib
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import obstore
import pytest

from imagenet_workloads.commands import fetch, index, pack
from imagenet_workloads.dataset import read_dataset
from support.development_kit import FOLDER, GROUND_TRUTH, META, WORDS, kit
from support.image_trees import classes_of
from support.parquet_files import hugging_face, rows
from support.pictures import Collection, collection, jpeg, tar, write_tar_of_tars
from support.preparation import contents, finish, prepare, refused, run_index, start
from support.remote_preparation import prepare_remote, write_secret
from support.s3_server import ACCESS_KEY, SECRET_KEY, S3Server, serve_s3
from support.sentences import assert_says

IMAGES = collection({f"n{number:02}": 6 for number in range(5)})
DATASET = ("--validation-per-class", "1", "--shards", "2")
VALIDATION = {f"val_{number}.JPEG": jpeg(number) for number in range(5)}
LABELS = "".join(f"n{number:02}\n" for number in range(5)).encode()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with serve_s3(tmp_path_factory.mktemp("s3")) as running:
        running.fill(
            "imagenet",
            {
                "archives/train.tar": archive_of(tmp_path_factory.mktemp("train"), IMAGES),
                "archives/val.tar": tar(VALIDATION),
                "archives/val.txt": LABELS,
                "archives/words.txt": b"n01\ttench\nn02\tgoldfish\n",
                **{f"val/{name}": one for name, one in VALIDATION.items()},
                **{f"loose/{name}": one for name, one in loose(IMAGES).items()},
                "loose/n00/readme.txt": b"",
                "x.parquet": hugging_face(rows(IMAGES), tuple(IMAGES)),
            },
        )
        yield running


@pytest.fixture(autouse=True)
def secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    keys = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}
    folder = write_secret(tmp_path / "secret", **keys)
    monkeypatch.setenv("IMAGENET_CREDENTIALS", str(folder))
    return folder


def archive_of(folder: Path, images: Collection) -> bytes:
    return write_tar_of_tars(folder / "train.tar", images).read_bytes()


def loose(images: Collection) -> dict[str, bytes]:
    return {f"{name}/{base}": one for name in images for base, one in images[name].items()}


def reading(server: S3Server, *more: str, bucket: str = "imagenet") -> list[str]:
    return [f"--s3-bucket={bucket}", f"--s3-endpoint={server.endpoint}", *more]


ARCHIVE, PREFIX = "--s3-key=archives/train.tar", "--s3-prefix=loose"


def test_an_archive_gives_the_same_dataset_as_on_a_volume(server: S3Server, tmp_path: Path) -> None:
    remote = prepare_remote(tmp_path / "remote", reading(server, ARCHIVE), *DATASET)
    file = tmp_path / "train.tar"
    file.write_bytes(archive_of(tmp_path, IMAGES))
    local = prepare(file, tmp_path / "local", *DATASET)
    assert remote.name == local.name
    assert (remote / "dataset.json").read_bytes() == (local / "dataset.json").read_bytes()


def test_an_archive_is_fetched_once_and_then_read_without_keys(
    server: S3Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    options = reading(server, ARCHIVE, "--s3-validation=archives/val.tar")
    more = ("--s3-labels=archives/val.txt", "--s3-class-words=archives/words.txt")
    cache = f"--cache={tmp_path / 'cache'}"
    remote = prepare_remote(tmp_path / "remote", options, *more)
    assert read_dataset(remote).class_words == {"n01": "tench", "n02": "goldfish"}
    digest = hashlib.sha256(archive_of(tmp_path, IMAGES)).hexdigest()
    wrong = f"--s3-checksum=sha256:{digest[::-1]}"
    assert fetch.main([*options, *more, cache, wrong]) == 3
    assert f"s3://imagenet/archives/train.tar: has the sha256 {digest}" in capfd.readouterr().err
    assert fetch.main([*options, *more, cache, f"--s3-checksum=sha256:{digest}"]) == 0
    monkeypatch.delenv("IMAGENET_CREDENTIALS")
    fetched = prepare_remote(tmp_path / "fetched", [*options, cache], *more)
    assert fetched.name == remote.name
    assert (fetched / "dataset.json").read_bytes() == (remote / "dataset.json").read_bytes()


def test_a_fetch_that_is_killed_continues_with_the_blocks_on_the_disk(
    server: S3Server, tmp_path: Path
) -> None:
    content = archive_of(tmp_path, IMAGES)
    options = [*reading(server, ARCHIVE), f"--cache={tmp_path / 'cache'}", "--connections=1"]
    # Killed when the third block is on the disk, before the journal says so.
    hook = """
import os, signal
from imagenet_workloads.prepare import fetch
fetch.BLOCK = 4096
real, calls = os.fdatasync, []
def fdatasync(file):
    real(file)
    calls.append(file)
    if len(calls) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
os.fdatasync = fdatasync
"""
    assert finish(start("fetch", *options, hook=hook))[0] == -signal.SIGKILL
    (journal,) = (tmp_path / "cache").rglob(".train.tar.tmp-*.blocks")
    assert journal.read_text().split()[-2:] == ["0", "1"]
    count = (
        hook.partition("real, calls")[0]
        + """
import atexit
from imagenet_workloads.clients import TRAFFIC
atexit.register(lambda: print(TRAFFIC.bytes))
"""
    )
    code, output, errors = finish(start("fetch", *options, hook=count))
    assert code == 0, errors
    assert int(output.split()[-1]) <= len(content) - 2 * 4096 + 17
    (stored,) = (tmp_path / "cache").rglob("*-train.tar")
    assert stored.read_bytes() == content


def test_each_image_may_be_an_object(server: S3Server, tmp_path: Path) -> None:
    dataset = prepare_remote(tmp_path / "data", reading(server, PREFIX), *DATASET)
    sealed = read_dataset(dataset)
    assert list(sealed.classes) == sorted(IMAGES)
    assert (sealed.train.images, sealed.validation.images) == (25, 5)
    assert sealed.passed_over == {".txt": 1}
    result = run_index(None, tmp_path / "plan", *reading(server, PREFIX), *DATASET)
    assert result["packing"]["requests"] == 30
    again = prepare_remote(tmp_path / "again", reading(server, PREFIX), *DATASET)
    assert contents(again) == contents(dataset)


def test_a_parquet_file_is_read_in_place(server: S3Server, tmp_path: Path) -> None:
    dataset = prepare_remote(tmp_path / "data", reading(server, "--s3-key=x.parquet"), *DATASET)
    assert (read_dataset(dataset).train.images, len(read_dataset(dataset).classes)) == (25, 5)


@pytest.mark.parametrize("validation", ["archives/val.tar", "val"])
def test_validation_images_have_a_label_file(
    validation: str, server: S3Server, tmp_path: Path
) -> None:
    options = reading(server, PREFIX, f"--s3-validation={validation}")
    dataset = prepare_remote(tmp_path / "data", options, "--s3-labels=archives/val.txt")
    sealed = read_dataset(dataset)
    assert (sealed.train.images, sealed.validation.images) == (30, 5)


IDS = {1: "n03", 2: "n02", 3: "n01", 999: "n00", 1000: "n04"}
KIT = {f"{FOLDER}/{name}": one for name, one in kit([1000, 1, 2, 3, 999], IDS).items()}
NUMBERS = f"--s3-labels={FOLDER}/{GROUND_TRUTH}"
NUMBERED = {f"val_{number}.JPEG": f"n{4 - number:02}" for number in range(5)}


@pytest.mark.parametrize("validation", ["archives/val.tar", "val"])
def test_the_development_kit_s_numbers_are_translated(
    validation: str, server: S3Server, tmp_path: Path
) -> None:
    server.fill("imagenet", KIT)
    options = reading(server, PREFIX, f"--s3-validation={validation}")
    words = f"--s3-class-words={FOLDER}/{META}"
    dataset = prepare_remote(tmp_path / "data", options, NUMBERS, words)
    assert classes_of(dataset, tmp_path / "data", "validation") == NUMBERED
    assert read_dataset(dataset).class_words == {**{n: f"words of {n}" for n in IMAGES}, **WORDS}


def test_the_development_kit_s_numbers_are_fetched_with_their_classes(
    server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.fill("imagenet", KIT)
    options = reading(server, ARCHIVE, "--s3-validation=archives/val.tar")
    options.append(f"--cache={tmp_path / 'cache'}")
    # No option names meta.mat: it is beside the labels.
    assert fetch.main([*options, NUMBERS]) == 0
    monkeypatch.delenv("IMAGENET_CREDENTIALS")
    dataset = prepare_remote(tmp_path / "data", options, NUMBERS)
    assert classes_of(dataset, tmp_path / "data", "validation") == NUMBERED


@pytest.mark.parametrize(
    ("source", "key"), [(ARCHIVE, "archives/train.tar"), (PREFIX, "loose/n00/{}")]
)
def test_a_change_between_index_and_pack_is_said(
    source: str, key: str, server: S3Server, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    images = collection({"n00": 3, "n01": 3})
    bucket = f"changes-{source[5:8]}"
    first = next(iter(images["n00"]))
    objects = {f"loose/{name}": one for name, one in loose(images).items()}
    server.fill(bucket, {"archives/train.tar": archive_of(tmp_path, images), **objects})
    options = reading(server, source, bucket=bucket)
    data = tmp_path / "data"
    key_of_dataset = run_index(None, data, *options, "--shards", "1")["key"]
    # As many bytes as before.
    other = bytearray(obstore.get(server.bucket(bucket), key.format(first)).bytes())
    other[-1] ^= 1
    obstore.put(server.bucket(bucket), key.format(first), bytes(other))
    assert pack.main(["--data", str(data), "--key", key_of_dataset, *options]) == 3
    assert "the source has changed since it was indexed" in capfd.readouterr().err


@pytest.mark.parametrize("source", [ARCHIVE, PREFIX])
def test_refused_keys_end_at_once(
    source: str, server: S3Server, secret: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (secret / "AWS_SECRET_ACCESS_KEY").write_text("an0ther")
    said = refused(capfd, *reading(server, source), "--data", tmp_path / "data")
    assert_says(said, "refuses the keys", "(SignatureDoesNotMatch)", "check the Secret")
    assert "an0ther" not in said
    assert ACCESS_KEY not in said


def test_more_requests_than_allowed_are_refused(
    server: S3Server, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    # Headers so far apart that each takes a request.
    images = {f"n01/{number:03}.jpg": bytes(70 << 10) for number in range(300)}
    server.fill("imagenet", {"large/train.tar": tar(images)})
    options = reading(server, "--s3-key=large/train.tar")
    said = refused(capfd, *options, "--s3-max-requests=500", "--data", tmp_path / "data")
    found = re.search(r"takes about (\d+) requests\D+packing (\d+)\D+500 are allowed", said)
    assert found is not None
    assert all(290 <= int(one) <= 320 for one in found.groups())
    assert_says(said, "raise maxRequests", "write source.s3.cache", "stores the archive")


@pytest.mark.parametrize(
    ("more", "listed", "packed"),
    [
        # The prefix and its 5 classes.
        ([], 6, 30),
        # A drawn split divides the same images, and others are read besides.
        (["--validation-per-class=1"], 6, 30),
        (["--s3-validation=val", "--s3-labels=archives/val.txt"], 10, 35),
    ],
)
def test_the_limit_is_heard_for_loose_images(
    more: list[str],
    listed: int,
    packed: int,
    server: S3Server,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    options = reading(server, PREFIX, "--shards=2", *more, "--data", str(tmp_path / "data"))
    said = refused(capfd, *options, f"--s3-max-requests={listed + packed - 1}")
    assert_says(said, f"s3://imagenet/loose/: listing took {listed} ", f"packing takes {packed},")
    assert_says(said, f" {listed + packed - 1} are allowed", "raise maxRequests")
    assert_says(said, "write a prefix with archives")
    # Nothing is there for pack.
    assert list((tmp_path / "data" / "datasets").iterdir()) == []
    assert index.main([*options, f"--s3-max-requests={listed + packed}"]) == 0


def test_the_limit_is_heard_for_parquet_files_of_a_bucket(
    server: S3Server, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for source in ("--s3-key=x.parquet", "--s3-keys=x.parquet"):
        options = reading(server, source, "--data", str(tmp_path / "data"), *DATASET)
        said = refused(capfd, *options, "--s3-max-requests=3")
        assert_says(said, "s3://imagenet/x.parquet: listing took", "raise maxRequests")
        assert_says(said, "write source.s3.cache", "stores the files")
        assert index.main([*options, "--s3-max-requests=100"]) == 0


@pytest.mark.parametrize(
    ("source", "bucket", "message"),
    [
        (ARCHIVE, "nowhere", "there is no such bucket"),
        (PREFIX, "nowhere", "there is no such bucket"),
        ("--s3-key=x.tar", "imagenet", "s3://imagenet/x.tar: there is no such object; check key"),
        ("--s3-prefix=x", "imagenet", "s3://imagenet/x/: holds no images"),
        ("--s3-prefix=val", "imagenet", "are in no folders, so they have no classes"),
    ],
)
def test_what_is_not_there_is_named(
    source: str,
    bucket: str,
    message: str,
    server: S3Server,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    options = reading(server, source, bucket=bucket)
    assert message in refused(capfd, *options, "--data", tmp_path / "data")


def test_a_secret_without_a_key_is_named(
    server: S3Server, secret: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (secret / "AWS_SECRET_ACCESS_KEY").unlink()
    said = refused(capfd, *reading(server, ARCHIVE), "--data", tmp_path / "data")
    assert_says(said, "lacks the key AWS_SECRET_ACCESS_KEY", "add it")


def test_keys_are_in_no_file_and_no_output(
    server: S3Server, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    dataset = prepare_remote(tmp_path / "data", reading(server, ARCHIVE), *DATASET)
    texts = ["".join(capfd.readouterr())]
    texts += [content.decode("latin-1") for content in contents(dataset).values()]
    assert not any(key in text for text in texts for key in (ACCESS_KEY, SECRET_KEY))


@pytest.mark.parametrize(
    ("more", "mistake"),
    [
        ([], "give either --s3-key, --s3-keys or --s3-prefix"),
        ([ARCHIVE, PREFIX], "give either --s3-key, --s3-keys or --s3-prefix"),
        ([PREFIX, "--s3-path-in-archive=x"], "--s3-path-in-archive goes with --s3-key"),
        ([PREFIX, "--s3-labels=x"], "--s3-labels goes with --s3-validation"),
        (
            [PREFIX, "--s3-validation=x", "--validation-per-class=1"],
            "either --validation-per-class or --s3-validation",
        ),
    ],
)
def test_a_mistake_in_the_options(
    more: list[str], mistake: str, capfd: pytest.CaptureFixture[str]
) -> None:
    options = reading(S3Server("http://127.0.0.1:1"), *more, "--data", "/nowhere")
    with pytest.raises(SystemExit):
        index.main(options)
    assert mistake in capfd.readouterr().err
