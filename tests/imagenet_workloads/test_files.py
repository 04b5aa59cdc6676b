"""Writing: complete or absent, and why it is absent."""

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagenet_workloads import files
from imagenet_workloads.errors import StorageError, WorkloadError
from support.sentences import says


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_a_file_appears_whole_and_replaces_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"old")
    with files.NewFile(path) as new:
        new.file.write(b"new")
        assert path.read_bytes() == b"old"
        new.finish()
        new.publish()
    assert path.read_bytes() == b"new"
    assert names(tmp_path) == ["x"]


def test_a_file_that_is_not_published_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyError), files.NewFile(tmp_path / "x") as new:
        new.file.write(b"half")
        raise KeyError
    assert names(tmp_path) == []


def test_a_folder_appears_whole(tmp_path: Path) -> None:
    with files.new_folder(tmp_path / "plan") as folder:
        (folder / "a").write_bytes(b"1")
        assert "plan" not in names(tmp_path)
    assert names(tmp_path) == ["plan"]
    assert (tmp_path / "plan" / "a").read_bytes() == b"1"


def test_the_first_of_two_folders_stays(tmp_path: Path) -> None:
    with files.new_folder(tmp_path / "plan") as late:
        (late / "a").write_bytes(b"late")
        with files.new_folder(tmp_path / "plan") as early:
            (early / "a").write_bytes(b"early")
    assert names(tmp_path) == ["plan"]
    assert (tmp_path / "plan" / "a").read_bytes() == b"early"


def test_a_folder_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyError), files.new_folder(tmp_path / "plan") as folder:
        (folder / "a").write_bytes(b"half")
        raise KeyError
    assert names(tmp_path) == []


@pytest.mark.parametrize("replaces", [False, True])
def test_what_a_writer_makes_appears_whole(replaces: bool, tmp_path: Path) -> None:
    file, folder = tmp_path / "x", tmp_path / "model"
    if replaces:
        file.write_bytes(b"old")
        (folder / "old").mkdir(parents=True)

    def write_folder(temporary: Path) -> None:
        (temporary / "variables").mkdir(parents=True)
        (temporary / "variables" / "a").write_bytes(b"1")

    files.write_output(file, lambda temporary: temporary.write_bytes(b"new"))
    files.write_output(folder, write_folder)
    assert file.read_bytes() == b"new"
    assert names(folder) == ["variables"]
    assert names(tmp_path) == ["model", "x"]


@pytest.mark.parametrize("is_linked", [False, True])
def test_a_file_never_replaces_a_folder(is_linked: bool, tmp_path: Path) -> None:
    folder, kept = tmp_path / "kept", tmp_path / "kept" / "precious"
    folder.mkdir()
    kept.write_text("kept")
    target = folder
    if is_linked:
        target = tmp_path / "link"
        target.symlink_to(folder)
        files.write_output(target, lambda path: path.write_text("new"))
        assert not target.is_symlink() and target.read_text() == "new"
    else:
        with pytest.raises(StorageError, match="Is a directory"):
            files.write_output(target, lambda path: path.write_text("new"))
    assert kept.read_text() == "kept"
    assert {path.name for path in tmp_path.iterdir()} <= {"kept", "link"}


def test_a_writer_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    with pytest.raises(KeyError), files.replacing(tmp_path / "model") as temporary:
        (temporary / "variables").mkdir(parents=True)
        raise KeyError
    assert names(tmp_path) == ["model"]


def test_sweeps_up_what_is_old_and_only_that(tmp_path: Path) -> None:
    for name in (
        "train.rec",
        ".hidden",
        ".a.rec.tmp-0000000000000000",
        ".b.rec.tmp-1111111111111111",
    ):
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / ".plan.tmp-2222222222222222").mkdir()
    (tmp_path / ".plan.tmp-2222222222222222" / "x").touch()
    for name in (".a.rec.tmp-0000000000000000", ".plan.tmp-2222222222222222", "train.rec"):
        os.utime(tmp_path / name, (10**9, 10**9))
    files.sweep(tmp_path, files.ABANDONED_SECONDS)
    assert names(tmp_path) == [".b.rec.tmp-1111111111111111", ".hidden", "train.rec"]
    files.sweep(tmp_path, older_than=0)
    assert names(tmp_path) == [".hidden", "train.rec"]


@pytest.mark.parametrize(
    ("number", "kind", "message"),
    [
        (errno.ENOSPC, StorageError, "No space left.*is full; enlarge it"),
        (errno.EDQUOT, StorageError, "is full"),
        (errno.EFBIG, StorageError, "is full"),
        (errno.EROFS, StorageError, "Read-only file system"),
        (errno.EIO, WorkloadError, "cannot be written: Input/output error"),
    ],
)
def test_says_why_it_cannot_be_written(
    number: int, kind: type[WorkloadError], message: str, tmp_path: Path
) -> None:
    with pytest.raises(kind, match=message) as raised, files.storage_errors(tmp_path / "x"):
        raise OSError(number, os.strerror(number))
    assert type(raised.value) is kind
    assert str(tmp_path / "x") in str(raised.value)


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "data").touch()
    with pytest.raises(WorkloadError, match="data/datasets: cannot be written: Not a directory"):
        files.make_folder(tmp_path / "data" / "datasets")


def test_asks_for_the_space_that_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "free_bytes", lambda _: 3 * 2**20)
    files.require_space(tmp_path, 3 * 2**20, "the dataset")
    with pytest.raises(
        StorageError, match=says("the dataset needs about 2.0 GiB", "and 3.0 MiB are free")
    ):
        files.require_space(tmp_path, 2 * 2**30, "the dataset")


@pytest.mark.parametrize(
    ("amount", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (3 * 2**40, "3.0 TiB")],
)
def test_writes_amounts_as_people_read_them(
    amount: int, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "free_bytes", lambda _: 0)
    if amount:
        with pytest.raises(StorageError, match=f"about {text}, and 0 B are free"):
            files.require_space(tmp_path, amount, "it")


def test_an_unnamed_file_is_nowhere(tmp_path: Path) -> None:
    with files.unnamed_file(tmp_path) as file:
        file.write(b"x")
        file.flush()
        assert names(tmp_path) == []
        assert os.pread(file.fileno(), 1, 0) == b"x"


@given(sizes=st.lists(st.integers(0, 40), max_size=12))
def test_the_volume_begins_with_each_part_of_a_growing_file_once(
    sizes: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("growing") / "x"
    begun: list[tuple[int, int]] = []

    def begin(descriptor: int, start: int, length: int) -> None:
        # All of it has left the program's own buffers.
        assert os.fstat(descriptor).st_size == start + length
        begun.append((start, length))

    with pytest.MonkeyPatch.context() as patch, files.NewFile(path) as new:
        patch.setattr(files, "STRIDE", 16)
        patch.setattr(files, "begin_writing", begin)
        for size in sizes:
            new.file.write(bytes(size))
            new.write_behind()
        new.finish()
        new.publish()
    assert path.stat().st_size == sum(sizes)
    ends = [start + length for start, length in begun]
    assert [start for start, _ in begun] == [0, *ends][:-1]
    assert all(length >= 16 for _, length in begun)
    assert sum(sizes) - max(ends, default=0) < 16


def test_beginning_early_changes_nothing_but_the_time(tmp_path: Path) -> None:
    content = os.urandom(3 * files.STRIDE + 5)
    with files.NewFile(tmp_path / "x") as new:
        for start in range(0, len(content), files.STRIDE // 2):
            new.file.write(content[start : start + files.STRIDE // 2])
            new.write_behind()
        new.finish()
        new.publish()
    assert (tmp_path / "x").read_bytes() == content


def test_a_volume_that_is_full_while_a_file_grows_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "STRIDE", 4)
    with files.NewFile(tmp_path / "x") as new:
        os.dup2(os.open("/dev/full", os.O_WRONLY), new.file.fileno())
        new.file.write(b"abcd")
        with pytest.raises(StorageError, match=r"/x: No space left on device: the volume"):
            new.write_behind()
    assert names(tmp_path) == []


def test_runs_that_sweep_at_the_same_time_do_not_fail(tmp_path: Path) -> None:
    def sweep_often(_: int) -> None:
        for _ in range(200):
            files.make_folder(tmp_path)
            files.sweep(tmp_path, older_than=-1)

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(sweep_often, range(4))) == [None] * 4
    assert names(tmp_path) == []


def test_publishing_what_was_swept_away_says_so(tmp_path: Path) -> None:
    with files.NewFile(tmp_path / "x") as new:
        new.finish()
        files.sweep(tmp_path, older_than=-1)
        with pytest.raises(FileNotFoundError):
            new.publish()
