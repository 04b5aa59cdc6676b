"""Names within a folder: what no name, no link and no moment lets out, and files that are whole."""

import hashlib
import itertools
import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from imagenet_spec.tree import FileError, Tree, fault, parts_of, printable, read_hash, write_all
from support.sentences import assert_says

HOSTILE = (
    "..",
    "../x",
    "a/../../x",
    "/etc/passwd",
    "a//b",
    "a/",
    "/",
    ".",
    "./x",
    "a/./b",
    "a\\..\\x",
    "C:\\x",
    "x\0y",
    "x\ny",
    "x\x1b[2Jy",
    "x\u2028y",
    "x\udcffy",
    "n" * 256,
    "ü" * 128,
    "/".join(["a" * 200] * 21),
    ".imagenet-part-" + "0" * 32,
    "a/.x.tmp-0123456789abcdef",
)
PORTABLE = (
    "a",
    "a/b c/ü.JPEG",
    "…",
    ".hidden",
    "..a",
    "a..",
    "-x",
    "~",
    "con",
    "ü" * 127,
    "😀\u200d",
)

# Names that are likely to be wrong, beside any others.
NAMES = st.lists(
    st.one_of(st.sampled_from([".", "..", "", "a", "\0", "\\", "/", "é"]), st.text(max_size=9)),
    max_size=5,
).map("/".join)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder beside which something lies that nobody may reach."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_bytes(b"secret")
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


@pytest.fixture
def tree(folder: Path) -> Iterator[Tree]:
    with Tree(folder) as opened:
        yield opened


def put(tree: Tree, path: str, content: bytes) -> None:
    assert tree.write([(path, content)]) == 1


def files_below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}


@pytest.mark.parametrize("path", HOSTILE, ids=ascii)
def test_a_hostile_name_is_refused_in_one_line(tree: Tree, folder: Path, path: str) -> None:
    before = files_below(folder.parent)
    for use in (tree.open, tree.size, lambda name: list(tree.files(name))):
        with pytest.raises(FileError) as refused:
            use(path)
        assert refused.value.reason == "Invalid"
        assert len(str(refused.value).splitlines()) == 1
    with pytest.raises(FileError), tree.partial(path):
        pass
    assert files_below(folder.parent) == before


@pytest.mark.parametrize("path", PORTABLE)
def test_an_unusual_name_arrives_and_is_listed(tree: Tree, folder: Path, path: str) -> None:
    put(tree, path, b"x")
    assert (folder / path).read_bytes() == b"x"
    assert [(one.path, one.size, one.left_out) for one in tree.files()] == [(path, 1, "")]


@given(path=NAMES)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_an_accepted_name_is_within_the_folder_and_comes_back(tree: Tree, path: str) -> None:
    try:
        parts = parts_of(path)
    except FileError as error:
        assert str(error).isprintable()
        return
    resolved = Path(os.path.normpath(Path("/folder", *parts)))
    assert resolved.parts == ("/", "folder", *parts)
    assert "/".join(parts) == path
    assert printable(path).isprintable()


@given(name=st.text(min_size=1, max_size=20))
@settings(max_examples=40)
def test_a_name_that_has_no_fault_can_be_that_of_a_file(
    tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    if fault(name) is not None:
        return
    folder = tmp_path_factory.mktemp("names")
    with Tree(folder) as tree:
        put(tree, name, b"")
        assert [one.path for one in tree.files()] == [name]
        assert [path.name for path in folder.iterdir()] == [name]


def test_links_and_what_is_no_file_are_neither_read_nor_replaced(tree: Tree, folder: Path) -> None:
    (folder / "link").symlink_to("../outside/secret")
    (folder / "up").symlink_to("..")
    (folder / "loop").symlink_to("loop")
    os.mkfifo(folder / "pipe")
    (folder / "folder").mkdir()
    for path in ("link", "up/outside/secret", "loop", "pipe", "folder"):
        with pytest.raises(FileError) as refused:
            tree.open(path)
        assert_says(str(refused.value), path)
        with pytest.raises(FileError), tree.partial(path):
            pass
    left_out = {one.path: one.left_out for one in tree.files()}
    assert left_out == {
        **dict.fromkeys(("link", "up", "loop"), "is a link"),
        "pipe": "is a pipe",
    }


def test_a_listing_says_what_it_leaves_out(tree: Tree, folder: Path) -> None:
    (folder / os.fsdecode(b"x\xff")).touch()
    (folder / "a\\b").touch()
    (folder / "a\nb").touch()
    put(tree, "whole/file", b"123")
    (folder / "whole" / ".file.tmp-0123456789abcdef").touch()
    with tree.partial("whole/later") as partial:
        write_all(partial.file, b"1")
        found = {one.path: one for one in tree.files()}
    assert {path for path, one in found.items() if not one.left_out} == {"whole/file"}
    assert {path for path, one in found.items() if one.left_out} == {"x\\xff", "a\\b", "a\\nb"}
    assert found["whole/file"].size == 3
    assert [one.path for one in tree.files("whole/file")] == ["whole/file"]


def test_a_folder_that_becomes_a_link_meanwhile_leads_nowhere(tree: Tree, folder: Path) -> None:
    """A folder and a link to the outside take turns under one name, while it is used."""
    (folder / "mine").mkdir()
    (folder / "mine" / "secret").write_bytes(b"mine")
    (folder / "link").symlink_to("../outside")
    ended = threading.Event()

    def take_turns() -> None:
        for turn in itertools.count():
            if ended.is_set():
                return
            # Where neither is, the tree may make a folder.
            for other in ("mine", "link"):
                try:
                    (folder / other).rename(folder / "place")
                    (folder / "place").rename(folder / other)
                except OSError:
                    (folder / "place").rename(folder / f"made-{turn}")

    turning = threading.Thread(target=take_turns)
    turning.start()
    read = refused = 0
    try:
        while read < 20 or refused < 20:
            try:
                with tree.open("place/secret") as file:
                    assert file.read() == b"mine"
                read += 1
            except FileError:
                refused += 1
        for _ in range(50):
            with suppress(FileError):
                put(tree, "place/secret", b"mine")
    finally:
        ended.set()
        turning.join()
    assert files_below(folder.parent / "outside") == {"secret"}
    assert (folder.parent / "outside" / "secret").read_bytes() == b"secret"


def test_a_partial_file_goes_on_and_gets_its_name_at_the_end(tree: Tree, folder: Path) -> None:
    put(tree, "a/file", b"old")
    with tree.partial("a/file") as partial:
        write_all(partial.file, b"123")
    assert (folder / "a/file").read_bytes() == b"old"
    assert tree.size("a/file", is_partial=True) == 3
    with tree.partial("a/file") as partial:
        partial.file.seek(partial.size)
        write_all(partial.file, b"45")
        partial.file.seek(0)
        size, hashed = read_hash(partial.file)
        tree.publish([partial])
    assert (size, hashed.hexdigest()) == (5, hashlib.sha256(b"12345").hexdigest())
    assert (folder / "a/file").read_bytes() == b"12345"
    assert files_below(folder) == {"a/file"}


def test_a_partial_file_is_one_transfers_alone(tree: Tree, folder: Path) -> None:
    with tree.partial("file") as partial:
        write_all(partial.file, b"1")
        with pytest.raises(FileError) as refused, tree.partial("file"):
            pass
        assert refused.value.reason == "Busy"
        tree.discard(partial)
    with tree.partial("file") as partial:
        assert partial.size == 0
    assert files_below(folder) == set()


def test_a_planted_partial_file_is_not_written(tree: Tree, folder: Path) -> None:
    with tree.partial("file") as partial:
        write_all(partial.file, b"1")
        (hidden,) = folder.iterdir()
    hidden.unlink()
    hidden.hardlink_to(folder.parent / "outside" / "secret")
    with pytest.raises(FileError), tree.partial("file"):
        pass
    hidden.unlink()
    hidden.symlink_to(folder.parent / "outside" / "secret")
    with pytest.raises(FileError), tree.partial("file"):
        pass
    assert (folder.parent / "outside" / "secret").read_bytes() == b"secret"


def test_what_takes_the_place_meanwhile_is_not_replaced(tree: Tree, folder: Path) -> None:
    with tree.partial("file") as partial:
        write_all(partial.file, b"1")
        os.mkfifo(folder / "file")
        with pytest.raises(FileError):
            tree.publish([partial])
    assert (folder / "file").is_fifo()
