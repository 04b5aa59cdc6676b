"""A dataset from archives on a server: the same bytes as from a volume, no trace of the login."""

import re
import tarfile
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from imagenet_workloads.commands import index, pack
from imagenet_workloads.dataset import read_dataset
from imagenet_workloads.prepare import plan as plans
from imagenet_workloads.prepare.source import Notes
from imagenet_workloads.prepare.sources import kinds as sources
from support.development_kit import GROUND_TRUTH, META, WORDS, kit, unpacked
from support.file_server import FileServer, Handler, basic
from support.image_trees import UNLABELLED, classes_of
from support.pictures import (
    Collection,
    collection,
    jpeg,
    tar,
    write_tar_of_folders,
    write_tar_of_tars,
)
from support.preparation import contents, prepare, refused, run_index
from support.remote_preparation import (
    files_on_server,
    prepare_fetched,
    prepare_remote,
    write_secret,
)
from support.sentences import assert_says

IMAGES = collection({f"n{number:02}": 6 for number in range(10)})
DATASET = ("--validation-per-class", "1", "--shards", "2")
MEETING = 8
WRITERS: dict[str, Callable[[Path, Collection], Path]] = {
    "tar of tars": write_tar_of_tars,
    "tar of folders": write_tar_of_folders,
}


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return write_tar_of_tars(tmp_path / "train.tar", IMAGES)


@pytest.fixture
def server(archive: Path) -> Iterator[FileServer]:
    with FileServer({"/train.tar": archive.read_bytes()}).running() as running:
        yield running


def reading(
    server: FileServer, *more: str, others: Sequence[str] = (), **attributes: str
) -> list[str]:
    return [*files_on_server(server.url, "train.tar", *others, **attributes), *more]


class Meeting:
    """Keeps requests for some places in the archive until several wait at the same time.

    Args:
        places: first bytes of the requests.
        passed: for each place, the first requests that are not kept.
    """

    def __init__(self, places: set[int], passed: int = 0) -> None:
        self._asked = Counter(dict.fromkeys(places, -passed))
        self._waiting = 0
        self._changed = threading.Condition()
        self.took_place = False

    def __call__(self, handler: Handler) -> None:
        first = int(handler.headers["Range"].removeprefix("bytes=").partition("-")[0])
        with self._changed:
            if first in self._asked:
                self._asked[first] += 1
                if self._asked[first] > 0:
                    self._wait()
        handler.serve()

    def _wait(self) -> None:
        self._waiting += 1
        self.took_place |= self._waiting >= MEETING
        self._changed.notify_all()
        self._changed.wait_for(lambda: self.took_place, timeout=60)
        self._waiting -= 1


@pytest.mark.parametrize("layout", WRITERS)
def test_it_is_the_same_dataset_as_from_a_volume(layout: str, tmp_path: Path) -> None:
    file = WRITERS[layout](tmp_path / "images.tar", IMAGES)
    with FileServer({"/images.tar": file.read_bytes()}).running() as server:
        options = files_on_server(server.url, "images.tar")
        remote = prepare_remote(tmp_path / "remote", options, *DATASET)
    local = prepare(file, tmp_path / "local", *DATASET)
    files = contents(remote)
    assert remote.name == local.name
    plans = [found.pop("plan/plan.json") for found in (files, contents(local))]
    assert files == {name: one for name, one in contents(local).items() if "plan.json" not in name}
    assert [b'"etag"' in plan for plan in plans] == [True, False]


def planned(data: Path, key: str) -> list[tuple[str, int]]:
    """Name and offset of each planned image."""
    plan = plans.read(data, key)
    images = (plans.read_images(plans.folder_of(data, key), shard) for shard in plan.shards)
    return [(image.name, image.offset) for shard in images for image in shard]


def test_it_is_read_by_many_requests_at_a_time(
    archive: Path, server: FileServer, tmp_path: Path
) -> None:
    data, options = tmp_path / "data", reading(server)
    with tarfile.open(archive) as outer:
        inner_tars = {member.offset_data for member in outer.getmembers()}
    # The look at the layout and the estimate read one archive after the other.
    of_index = Meeting(inner_tars, passed=2)
    server.faults.extend([of_index] * 1000)
    key = run_index(None, data, *options, *DATASET)["key"]
    of_pack = Meeting({offset - 512 for _, offset in planned(data, key)})
    server.faults = deque([of_pack] * 1000)
    arguments = ["--data", str(data), "--key", key, *options, "--threads", "1"]
    assert pack.main(arguments) == 0
    assert (of_index.took_place, of_pack.took_place) == (True, True)


def test_validation_images_and_their_labels_are_files_of_their_own(
    archive: Path, server: FileServer, tmp_path: Path
) -> None:
    images = {f"val_{number:03}.JPEG": jpeg(number) for number in range(10)}
    (tmp_path / "val.tar").write_bytes(tar(images))
    (tmp_path / "labels.txt").write_text("".join(f"n{number:02}\n" for number in range(10)))
    local = prepare(
        archive, tmp_path / "local", "--validation-source", str(tmp_path / "val.tar"),
        "--validation-labels", str(tmp_path / "labels.txt"),
    )  # fmt: skip
    for name in ("val.tar", "labels.txt"):
        server.content[f"/{name}"] = (tmp_path / name).read_bytes()
    validating = ("--http-archive", "train.tar", "--http-validation", "val.tar")
    options = reading(server, *validating, others=["labels.txt", "val.tar"])
    remote = prepare_remote(tmp_path / "remote", options, "--http-labels", "labels.txt")
    assert (remote / "dataset.json").read_bytes() == (local / "dataset.json").read_bytes()


@pytest.mark.parametrize("prepare_it", ["in place", "fetched"])
def test_the_development_kit_s_numbers_are_translated(prepare_it: str, tmp_path: Path) -> None:
    ids = {number: f"n{number % 10:02}" for number in (*range(1, 10), 1000)}
    content = {
        "train.tar": write_tar_of_tars(tmp_path / "train.tar", IMAGES).read_bytes(),
        "val.tar": tar({f"val_{number:03}.JPEG": jpeg(number) for number in range(10)}),
        **kit([1000, *range(9, 0, -1)], ids),
    }
    with FileServer({f"/{name}": one for name, one in content.items()}).running() as server:
        files = files_on_server(server.url, *content)
        options = [*files, "--http-archive", "train.tar", "--http-validation", "val.tar"]
        more = ("--http-labels", GROUND_TRUTH, "--http-class-words", META)
        if prepare_it == "fetched":
            dataset = prepare_fetched(tmp_path / "cache", tmp_path / "data", options, *more)
        else:
            dataset = prepare_remote(tmp_path / "data", options, *more)
    found = classes_of(dataset, tmp_path / "data", "validation")
    assert found == {f"val_{number:03}.JPEG": f"n{-number % 10:02}" for number in range(10)}
    assert read_dataset(dataset).class_words == {**{n: f"words of {n}" for n in IMAGES}, **WORDS}


@pytest.mark.parametrize("prepare_it", ["in place", "fetched"])
def test_an_archive_of_a_tree_has_the_development_kit(prepare_it: str, tmp_path: Path) -> None:
    content = tar({**UNLABELLED, **unpacked([490, 1000, 1])})
    with FileServer({"/tree.tar": content}).running() as server:
        options = files_on_server(server.url, "tree.tar")
        if prepare_it == "fetched":
            dataset = prepare_fetched(tmp_path / "cache", tmp_path / "data", options)
        else:
            dataset = prepare_remote(tmp_path / "data", options)
    found = classes_of(dataset, tmp_path / "data", "validation")
    assert found == {"v_0.JPEG": "n03", "v_1.JPEG": "n01", "v_2.JPEG": "n02"}
    assert read_dataset(dataset).class_words == WORDS


def test_the_words_of_the_classes_are_a_file_behind_the_same_login(
    server: FileServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    server.login = basic("reader", "password")
    secret = write_secret(tmp_path / "secret", username="reader", password="password")
    monkeypatch.setenv("IMAGENET_CREDENTIALS", str(secret))
    server.content["/words.json"] = b'{"n01": "tench", "n77": "cat"}'
    options = reading(server, others=["words.json"])
    words = ("--http-class-words", "words.json")
    dataset = prepare_remote(tmp_path / "data", options, *words)
    assert read_dataset(dataset).class_words == {"n01": "tench"}
    # The cache has the file too, and then no login is needed.
    fetched = prepare_fetched(tmp_path / "cache", tmp_path / "fetched", options, *words)
    assert fetched.name == dataset.name
    del server.content["/words.json"]
    said = refused(capfd, *options, *words, "--data", str(tmp_path / "data"))
    assert f"error: source.classWords: {server.url}/words.json: 404 Not Found" in said


def test_both_splits_may_be_in_one_archive_or_in_two(tmp_path: Path) -> None:
    train = {f"{name}/{base}": one for name in IMAGES for base, one in IMAGES[name].items()}
    val = {f"{name}/v.jpg": jpeg(number) for number, name in enumerate(IMAGES)}
    tree = {f"train/{name}": one for name, one in train.items()}
    both = tar(tree | {f"val/{name}": one for name, one in val.items()})
    (tmp_path / "both.tar").write_bytes(both)
    local = prepare(tmp_path / "both.tar", tmp_path / "local")
    content = {"/both.tar": both, "/train.tar": tar(train), "/val.tar": tar(val)}
    with FileServer(content).running() as server:
        one = files_on_server(server.url, "both.tar")
        remote = prepare_remote(tmp_path / "one", one)
        assert (remote / "dataset.json").read_bytes() == (local / "dataset.json").read_bytes()
        two = reading(server, "--http-validation", "val.tar", others=["val.tar"])
        remote = prepare_remote(tmp_path / "two", two)
    sealed = read_dataset(remote)
    assert (sealed.train.images, sealed.validation.images) == (60, 10)


def test_a_change_between_index_and_pack_is_said(
    server: FileServer, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data"
    options = reading(server)
    key = run_index(None, data, *options, *DATASET)["key"]
    packing = ["--data", str(data), "--key", key, *options]
    server.tags["/train.tar"] = '"uploaded again"'
    assert pack.main(packing) == 3
    said = capfd.readouterr().err
    assert_says(said, "the source has changed", "run imagenet-index again")
    # The images are the same, so index only notes the new version.
    assert run_index(None, data, *options, *DATASET)["key"] == key
    assert pack.main(packing) == 0


def test_login_and_query_are_in_no_file_and_no_output(
    archive: Path,
    server: FileServer,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    secret = write_secret(
        tmp_path / "secret", username="rea-der", password="pass-word", link="?sig=na-ture"
    )
    monkeypatch.setenv("IMAGENET_CREDENTIALS", str(secret))
    server.content = {"/train.tar?sig=na-ture": archive.read_bytes()}
    server.login = basic("rea-der", "pass-word")
    options = reading(server, queryKey="link")
    dataset = prepare_remote(tmp_path / "data", options, *DATASET)
    server.login = "another"
    assert index.main([*options, "--data", str(tmp_path / "data"), *DATASET]) == 3
    files = [*contents(dataset).values(), (tmp_path / "data-termination-log").read_bytes()]
    said = "".join(capfd.readouterr())
    assert "401 Unauthorized" in said
    for text in (said, *(content.decode("latin-1") for content in files)):
        for forbidden in ("rea-der", "pass-word", "na-ture"):
            assert forbidden not in text


def test_a_secret_without_a_key_is_named(
    server: FileServer,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    arguments = [*reading(server), "--data", str(tmp_path / "data")]
    monkeypatch.setenv("IMAGENET_CREDENTIALS", str(write_secret(tmp_path / "secret", username="x")))
    said = refused(capfd, *arguments)
    assert_says(said, "lacks the key password", "add it to the Secret")
    said = refused(capfd, *reading(server, queryKey="link"), *arguments[2:])
    assert "the Secret lacks the key link" in said
    assert server.requests == []


@pytest.mark.parametrize(
    ("more", "mistake"),
    [
        (["--http-archive", "x"], "x is no name in --http-files"),
        (files_on_server("http://x", "x", sizeBytes="x"), "sizeBytes: 'x' is not a whole number"),
        (files_on_server("http://x", "x", checksum="sha1:00"), "neither sha256:DIG"),
        (["--http-files", "x"], "is not JSON"),
        (["--http-files", '["x"]'], "is not a list of objects"),
        (["--http-files", '[{"name": "x"}]'], "must have name, url"),
        (["--http-labels", "train.tar"], "--http-labels goes with --http-validation"),
        (files_on_server("http://x", "y", "y"), "each of --http-files needs another name"),
        (
            ["--http-validation", "train.tar", "--http-labels", "train.tar",
             "--validation-per-class", "1"],
            "either --validation-per-class or --http-validation",
        ),
    ],
)  # fmt: skip
def test_a_mistake_in_the_options(
    more: list[str], mistake: str, capfd: pytest.CaptureFixture[str]
) -> None:
    options = reading(FileServer({}, url="http://127.0.0.1:1"), *more, "--data", "/nowhere")
    with pytest.raises(SystemExit):
        index.main(options)
    assert mistake in capfd.readouterr().err


def test_requests_and_bytes_are_reported(server: FileServer, tmp_path: Path) -> None:
    reported: list[tuple[int, int]] = []
    sources.report_traffic(lambda requests, bytes: reported.append((requests, bytes)))
    try:
        parsed = index.build_parser().parse_args([*reading(server), "--data", str(tmp_path)])
        source = sources.open_source(parsed)
        images = list(source.scan(Notes()))
        source.read(images[0].name, images[0].offset, images[0].size)
        source.close()
    finally:
        sources.report_traffic(lambda requests, bytes: None)
    assert sum(requests for requests, _ in reported) == len(server.requests)
    assert reported[-1] == (1, images[0].size + 512)


@pytest.mark.costly
def test_more_requests_than_allowed_are_refused_before_they_are_sent(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    # Headers so far apart that each takes a request.
    images = {f"n01/{number:04}.jpg": bytes(70 << 10) for number in range(600)}
    arguments = ["--data", str(tmp_path), "--http-max-requests"]
    with FileServer({"/train.tar": tar(images)}).running() as server:
        said = refused(capfd, *reading(server), *arguments, "1000")
        found = re.search(r"takes about (\d+) requests\D+packing (\d+)\D+1000 are allowed", said)
        assert found is not None
        assert all(590 <= int(one) <= 610 for one in found.groups())
        assert_says(said, "raise maxRequests", "write source.http.cache", "stores the archive")
        assert len(server.requests) < 300
