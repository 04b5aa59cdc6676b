"""Real processes that may not read or write what they are given: a clear error, and no root."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from imagenet_workloads.dataset import read_dataset
from support.pictures import collection, tar, write_folder
from support.preparation import WITHOUT_PRIVILEGES, contents, dataset_of, finish, start

USER = f"{os.geteuid()}:{os.getegid()}"
IMAGES = collection({"a": 12, "b": 12})


@contextmanager
def mode(path: Path, bits: int) -> Iterator[None]:
    """Gives a path other permissions for a while."""
    before = path.stat().st_mode
    path.chmod(bits)
    try:
        yield
    finally:
        path.chmod(before)


def run(program: str, *arguments: str | Path) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a program that obeys permissions."""
    return finish(start(program, *arguments, hook=WITHOUT_PRIVILEGES))


@pytest.mark.parametrize(
    ("bits", "is_beside_archives", "facts"),
    [
        (0o300, False, ("/b: cannot be listed", f"owner is {USER}, mode d-wx", "let this user")),
        (0o300, True, ("/b: cannot be listed: Permission denied",)),
        (0o600, False, ("/b/b_0.JPEG: cannot be accessed: Permission denied",)),
    ],
)
def test_a_folder_that_may_not_be_read_is_named(
    bits: int, is_beside_archives: bool, facts: tuple[str, ...], tmp_path: Path
) -> None:
    source = tmp_path / "source"
    if is_beside_archives:
        (source / "b").mkdir(parents=True)
        for name, images in IMAGES.items():
            (source / f"{name}.tar").write_bytes(tar(images))
    else:
        write_folder(source, IMAGES)
    with mode(source / "b", bits):
        code, _, errors = run("index", "--source", source, "--data", tmp_path / "data")
    assert code == 3, errors
    assert [fact for fact in facts if fact not in errors] == []


def test_an_unreadable_archive_is_named(tmp_path: Path) -> None:
    source = tmp_path / "x.tar"
    source.touch(mode=0o200)
    code, _, errors = run("index", "--source", source, "--data", tmp_path / "data")
    assert code == 3, errors
    assert f"{source}: cannot be read: Permission denied" in errors


def test_a_volume_that_may_not_be_written_is_told_before_the_source_is_listed(
    tmp_path: Path,
) -> None:
    source = write_folder(tmp_path / "source", IMAGES)
    data = tmp_path / "data"
    data.mkdir()
    with mode(data, 0o555), mode(source / "b", 0):
        code, _, errors = run("index", "--source", source, "--data", data)
    assert code == 3, errors
    assert (
        f"{data}/datasets: cannot be written: Permission denied ({data} belongs to {USER}, "
        f"mode dr-xr-xr-x; this process is {USER}); make it writable for this user"
    ) in errors
    assert "cannot be listed" not in errors


def test_pack_and_seal_tell_that_they_may_not_write(tmp_path: Path) -> None:
    source, data = write_folder(tmp_path / "source", IMAGES), tmp_path / "data"
    code, output, errors = run("index", "--source", source, "--data", data, "--shards", "1")
    assert code == 0, errors
    common = ("--data", data, "--key", json.loads(output)["key"])
    dataset = dataset_of(data, common[3])
    for program, arguments in (("pack", (*common, "--source", source)), ("seal", common)):
        before = contents(dataset)
        with mode(dataset, 0o555):
            code, _, errors = run(program, *arguments)
        assert code == 3, errors
        assert f"{dataset}: cannot be written: Permission denied ({dataset} belongs" in errors
        assert contents(dataset) == before
        assert run(program, *arguments)[0] == 0


def test_an_image_that_may_not_be_read_is_skipped_and_named(tmp_path: Path) -> None:
    source, data = write_folder(tmp_path / "source", IMAGES), tmp_path / "data"
    options = ("--shards", "1", "--max-skipped-fraction", "0.1")
    with mode(source / "a" / "a_3.JPEG", 0):
        code, output, errors = run("index", "--source", source, "--data", data, *options)
        assert code == 0, errors
        common = ("--data", data, "--key", json.loads(output)["key"])
        code, _, errors = run("pack", *common, "--source", source)
        assert code == 0, errors
    assert run("seal", *common)[0] == 0
    dataset = dataset_of(data, common[3])
    assert json.loads((dataset / "skipped.jsonl").read_text()) == {
        "name": "a/a_3.JPEG", "class": "a", "reason": "may not be read: Permission denied",
    }  # fmt: skip
    assert read_dataset(dataset).train.per_class == (11, 12)
