"""A sealed dataset that is damaged later: found by its lengths or checksums, and mended."""

import json
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from imagenet_workloads.commands import seal
from imagenet_workloads.dataset import FILE_NAME, read_dataset, require_whole
from imagenet_workloads.errors import InputError
from support.pictures import collection, write_tar_of_tars
from support.preparation import cut, flip, prepare, verify
from support.sentences import assert_says

MAGIC = struct.pack("<I", 0xCED7230A)
IMAGES = collection({"n01": 10, "n02": 10})
OPTIONS = ("--shards", "3", "--validation-per-class", "2")


def contents(dataset: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in dataset.glob("*.rec")}


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    return prepare(write_tar_of_tars(tmp_path / "source.tar", IMAGES), tmp_path / "data", *OPTIONS)


def test_a_good_dataset_stays_sealed(dataset: Path) -> None:
    before = (dataset / FILE_NAME).read_bytes()
    assert verify(dataset) == 0
    assert (dataset / FILE_NAME).read_bytes() == before


@pytest.mark.parametrize("damage", [flip, cut])
def test_damaged_shards_alone_are_made_again(
    damage: Callable[[Path], None],
    dataset: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    good, sealed = contents(dataset), (dataset / FILE_NAME).read_bytes()
    kept = (dataset / "train-00000-of-00003.rec").stat().st_ino
    damage(dataset / "train-00001-of-00003.rec")

    assert verify(dataset) == 3
    said = capsys.readouterr().err
    assert "1 of 4 shards are damaged: train-00001-of-00003.rec: " in said
    assert "prepare the dataset again" in said
    assert not (dataset / FILE_NAME).exists()

    prepare(tmp_path / "source.tar", tmp_path / "data", *OPTIONS)
    assert contents(dataset) == good
    assert (dataset / FILE_NAME).read_bytes() == sealed
    assert (dataset / "train-00000-of-00003.rec").stat().st_ino == kept


def test_a_sidecar_that_is_cut_is_made_again(dataset: Path, tmp_path: Path) -> None:
    good = contents(dataset)
    cut(dataset / "train-00001-of-00003.json")
    assert verify(dataset) == 3
    prepare(tmp_path / "source.tar", tmp_path / "data", *OPTIONS)
    assert contents(dataset) == good
    assert verify(dataset) == 0


@pytest.mark.parametrize("name", ["plan.json", "train-00001-of-00003.jsonl"])
@pytest.mark.parametrize("is_sealed", [True, False])
def test_a_plan_that_is_cut_is_made_again(
    name: str, is_sealed: bool, dataset: Path, tmp_path: Path
) -> None:
    good, plan = contents(dataset), (dataset / "plan" / name).read_bytes()
    cut(dataset / "plan" / name)
    if not is_sealed:
        (dataset / FILE_NAME).unlink()
        (dataset / "train-00001-of-00003.json").unlink()
    prepare(tmp_path / "source.tar", tmp_path / "data", *OPTIONS)
    assert (dataset / "plan" / name).read_bytes() == plan
    assert contents(dataset) == good
    assert verify(dataset) == 0


def verify_folder(dataset: Path) -> int:
    return seal.main(["--dataset", str(dataset), "--verify"])


def test_a_folder_is_verified_by_its_dataset_json_alone_and_only_read(
    dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a job with a prepared source does: it may lie anywhere, without its plan."""
    moved = dataset.rename(tmp_path / "elsewhere")
    shutil.rmtree(moved / "plan")
    assert verify_folder(moved) == 0
    assert json.loads(capsys.readouterr().out)["images"] == {"train": 16, "validation": 4}
    flip(moved / "train-00001-of-00003.rec")
    before = {path: path.stat().st_mtime_ns for path in [moved, *moved.iterdir()]}
    assert verify_folder(moved) == 3
    said = capsys.readouterr().err
    assert_says(said, "1 of 4 shards are damaged: train-00001-of-00003.rec", "checksum is wrong")
    assert_says(said, "imagenet-seal --verify", "--data and --key")
    assert {path: path.stat().st_mtime_ns for path in [moved, *moved.iterdir()]} == before


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("val-00000-of-00001.rec", "it has "),
        ("train-00002-of-00003.idx", "its index is damaged"),
    ],
)
def test_a_folder_whose_files_are_cut_is_damaged(
    name: str, what: str, dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cut(dataset / name)
    assert verify_folder(dataset) == 3
    assert f"{Path(name).stem}.rec: {what}" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["--dataset", "x"],
        ["--dataset", "x", "--verify", "--key", "ab", "--data", "y"],
        ["--data", "y", "--verify"],
        ["--verify"],
    ],
)
def test_what_is_verified_is_named_once(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        seal.main(arguments)
    assert ended.value.code == 2
    assert "--dataset" in capsys.readouterr().err


def refusal(dataset: Path, output: Path, *further: str) -> str:
    """Train, which must end with 3; return what it says."""
    program = Path(sys.executable).parent / "imagenet-train"
    options = ["--network", "lenet", "--image-shape", "3,28,28", "--batch-size", "4", *further]
    ended = subprocess.run(
        [program, "--dataset", dataset, *options, "--output", output],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 3, ended.stderr
    return ended.stderr


def test_training_refuses_a_shard_of_another_length(dataset: Path, tmp_path: Path) -> None:
    require_whole(read_dataset(dataset), dataset)
    shard = dataset / "val-00000-of-00001.rec"
    cut(shard)
    with pytest.raises(InputError, match=f"{shard.name}: has .* bytes, not .* imagenet-seal"):
        require_whole(read_dataset(dataset), dataset)
    shard.unlink()
    said = refusal(dataset, tmp_path / "out")
    assert f"{shard.name}: cannot be read: No such file" in said


@pytest.mark.parametrize(
    ("reader", "message"),
    [
        ("Ordered", "{shard}: record 1 (from 0): a record does not begin"),
        # MXNet aborts.
        ("ImageRecordIter", "{shard}: no record at byte"),
    ],
)
def test_a_damaged_record_is_named(
    dataset: Path, tmp_path: Path, reader: str, message: str
) -> None:
    shard = dataset / "train-00001-of-00003.rec"
    content = bytearray(shard.read_bytes())
    content[content.index(MAGIC, 1)] ^= 1
    shard.write_bytes(content)
    said = refusal(dataset, tmp_path / "out", "--reader", reader)
    assert f"imagenet-train: error: {message.format(shard=shard)}" in said
    assert "imagenet-seal --verify" in said
