"""Links, pipes and devices in a source: none hangs a program or leads it out of the source."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare.layouts import devkit, labels
from imagenet_workloads.prepare.source import Image, Notes
from imagenet_workloads.prepare.sources import volume
from support.pictures import write_folder
from support.sentences import says


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_folder(
        tmp_path / "source", {"n01": {"1.jpg": b"x"}, "n02": {"2.jpg": b"yy", "3.jpg": b"z"}}
    )


@pytest.fixture
def deep(tmp_path: Path) -> Iterator[Path]:
    """A folder whose content may be deeper than Python removes."""
    yield tmp_path
    subprocess.run(["rm", "-rf", tmp_path / "n01"], check=True)


def nest(root: Path, name: str, depth: int) -> int:
    """Makes folders in each other; returns the innermost one's descriptor."""
    root.mkdir()
    folder = os.open(root, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir(name, dir_fd=folder)
        below = os.open(name, os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = below
    return folder


def scanned(root: Path) -> list[Image]:
    return list(volume.open_source(root).scan(Notes()))


@pytest.mark.parametrize(
    ("at", "to"),
    [
        ("n01/up", ".."), ("n01/here", "."), ("n02/n01", "../n01"), ("n03", "n01"),
        ("n00", "n01"), ("n00", "."), ("n01/deep/up", "../.."),
    ],
)  # fmt: skip
def test_a_folder_that_is_reached_twice_is_an_error(at: str, to: str, root: Path) -> None:
    (root / at).parent.mkdir(exist_ok=True)
    (root / at).symlink_to(to)
    with pytest.raises(InputError, match=says("leads to the same folder as", "remove the link")):
        scanned(root)


def test_two_folders_that_lead_to_each_other_are_an_error(root: Path) -> None:
    (root / "n01/other").symlink_to("../n02")
    (root / "n02/other").symlink_to("../n01")
    with pytest.raises(InputError, match="leads to the same folder"):
        scanned(root)


def test_links_that_double_at_each_level_end_at_once(root: Path) -> None:
    hidden = root / ".hidden"
    for level in range(30):
        folder = hidden / str(level)
        folder.mkdir(parents=True)
        for link in ("a", "b"):
            (folder / link).symlink_to(hidden / str(level + 1))
    (hidden / "30").mkdir()
    (root / "n03").symlink_to(hidden / "0")
    with pytest.raises(InputError, match="leads to the same folder"):
        scanned(root)


def test_a_link_to_itself_is_an_error(root: Path) -> None:
    (root / "n01" / "4.jpg").symlink_to("4.jpg")
    with pytest.raises(InputError, match=r"n01/4\.jpg: cannot be accessed: Too many levels"):
        scanned(root)


def test_links_inside_the_source_are_followed(root: Path, tmp_path: Path) -> None:
    write_folder(root / ".hidden", {"n03": {"4.jpg": b"four"}})
    (root / "n03").symlink_to(".hidden/n03")
    (root / "n01" / "5.jpg").symlink_to("../n02/2.jpg")
    (tmp_path / "link").symlink_to(root)
    for path in (root, tmp_path / "link"):
        source = volume.open_source(path)
        images = list(source.scan(Notes()))
        assert [(image.name, image.size) for image in images] == [
            ("n01/1.jpg", 1), ("n01/5.jpg", 2), ("n02/2.jpg", 2), ("n02/3.jpg", 1),
            ("n03/4.jpg", 4),
        ]  # fmt: skip
        contents = [source.read(image.name, image.offset, image.size) for image in images]
        assert contents == [b"x", b"yy", b"yy", b"z", b"four"]


@pytest.mark.parametrize("at", ["n01/4.jpg", "n03", "n01/more"])
def test_a_link_out_of_the_source_is_an_error(at: str, root: Path, tmp_path: Path) -> None:
    # A name that begins as the source's does not lie in it.
    other = write_folder(tmp_path / "source-2", {"n03": {"4.jpg": b"secret"}})
    target = other / "n03"
    (root / at).symlink_to(target / "4.jpg" if at.endswith(".jpg") else target)
    with pytest.raises(
        InputError, match=says(f"{at}: is a link to", "source-2/n03", "out of the source")
    ):
        scanned(root)


def test_a_link_out_of_the_source_that_is_no_image_is_passed_over(
    root: Path, tmp_path: Path
) -> None:
    (tmp_path / "LICENSE").touch()
    for link in (root / "LICENSE", root / "n01" / "LICENSE"):
        link.symlink_to(tmp_path / "LICENSE")
    assert len(scanned(root)) == 3


def test_flat_folders_keep_to_the_same_rule(root: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    (root / "n01" / "4.jpg").symlink_to(tmp_path / "secret")
    (root / "n01" / "up").symlink_to("..")
    source = volume.open_flat(root / "n01")
    with pytest.raises(
        InputError, match=says("4.jpg", "is a link to", "secret", "out of the source")
    ):
        list(source.scan(Notes()))
    (root / "n01" / "4.jpg").unlink()
    assert [image.name for image in source.scan(Notes())] == ["1.jpg"]


@pytest.mark.parametrize("flat", [True, False])
def test_an_image_that_became_a_link_out_of_the_source_is_not_read(
    flat: bool, root: Path, tmp_path: Path
) -> None:
    source = volume.open_flat(root / "n01") if flat else volume.open_source(root)
    image = next(iter(source.scan(Notes())))
    (tmp_path / "secret").write_bytes(b"s")
    (root / "n01" / "1.jpg").unlink()
    (root / "n01" / "1.jpg").symlink_to(tmp_path / "secret")
    with pytest.raises(InputError, match=says("leads out of the source", "the source has changed")):
        source.read(image.name, image.offset, image.size)


def test_a_folder_that_became_a_link_out_of_the_source_is_not_read(
    root: Path, tmp_path: Path
) -> None:
    source = volume.open_source(root)
    image = next(iter(source.scan(Notes())))
    (root / "n01").rename(tmp_path / "n01")
    (root / "n01").symlink_to(tmp_path / "n01")
    with pytest.raises(InputError, match=says("leads out of the source", "the source has changed")):
        source.read(image.name, image.offset, image.size)


def test_an_image_that_became_a_pipe_is_not_waited_for(root: Path) -> None:
    source = volume.open_source(root)
    image = next(iter(source.scan(Notes())))
    (root / "n01" / "1.jpg").unlink()
    os.mkfifo(root / "n01" / "1.jpg")
    with pytest.raises(InputError, match=r"n01/1\.jpg: is a pipe, not a file"):
        source.read(image.name, image.offset, image.size)


def test_no_pipe_or_device_is_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path, kind in ((pipe, "pipe"), (Path("/dev/zero"), "device")):
        for reads in (volume.open_source, volume.open_flat, devkit.read_ids, labels.fingerprint,
                      lambda path: labels.read(path, lambda: iter(()), [])):  # fmt: skip
            with pytest.raises(InputError, match=f"{path}: is a {kind}, not a file"):
                reads(path)


def test_folders_may_lie_in_each_other_as_deep_as_paths_go(deep: Path) -> None:
    depth = 1500
    folder = nest(deep / "n01", "d", depth)
    os.close(os.open("1.jpg", os.O_WRONLY | os.O_CREAT, dir_fd=folder))
    os.close(folder)
    (image,) = scanned(deep)
    assert image.name == f"n01/{'d/' * depth}1.jpg"


def test_folders_that_are_deeper_than_paths_go_are_an_error(deep: Path) -> None:
    os.close(nest(deep / "n01", "d" * 250, 20))
    with pytest.raises(InputError, match="File name too long"):
        scanned(deep)
