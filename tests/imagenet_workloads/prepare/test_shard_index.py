"""The index of a shard: its damage is found and repaired, and older TFRecord shards have none."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from imagenet_spec.names import FORMATS
from imagenet_workloads.commands import pack, seal
from imagenet_workloads.dataset import FILE_NAME, read_dataset
from imagenet_workloads.records.split import Records, open_split
from support.older_datasets import make_older, without_index
from support.pictures import collection, write_tar_of_tars
from support.preparation import contents, cut, dataset_of, flip, prepare, run_index, stamps, verify

IMAGES = collection({"n01": 10, "n02": 10})
TF_RECORD = ("--shards", "3", "--validation-per-class", "2", "--format", "TFRecord")
SHARD = "train-00001-of-00003"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_tar_of_tars(tmp_path / "source.tar", IMAGES)


@pytest.fixture
def older(source: Path, tmp_path: Path) -> Path:
    dataset = prepare(source, tmp_path / "data", *TF_RECORD)
    make_older(dataset)
    return dataset


def packing(source: Path, dataset: Path) -> list[str]:
    return ["--data", str(dataset.parents[1]), "--key", dataset.name, "--source", str(source)]


def verify_folder(dataset: Path) -> int:
    return seal.main(["--dataset", str(dataset), "--verify"])


def opened(dataset: Path) -> Records:
    sealed = read_dataset(dataset)
    return open_split(sealed.train, sealed.format, dataset)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(
    ("damage", "what"),
    [(flip, "its index is damaged"), (cut, "its index is damaged"), (Path.unlink, "not whole")],
)
def test_a_damaged_index_is_found_and_its_shard_alone_is_made_again(
    damage: Callable[[Path], None],
    what: str,
    format: str,
    source: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    dataset = prepare(source, tmp_path / "data", *TF_RECORD[:-1], format)
    whole, before = contents(dataset), stamps(dataset)
    damage(dataset / f"{SHARD}.idx")

    assert verify_folder(dataset) == 3
    assert f"1 of 4 shards are damaged: {SHARD}." in capsys.readouterr().err
    assert (dataset / FILE_NAME).exists()
    assert verify(dataset) == 3
    assert what in capsys.readouterr().err
    assert not (dataset / FILE_NAME).exists()

    prepare(source, tmp_path / "data", *TF_RECORD[:-1], format)
    assert contents(dataset) == whole
    assert verify(dataset) == verify_folder(dataset) == 0
    again = {path.name for path, stamp in stamps(dataset).items() if before[path] != stamp}
    assert {name for name in again if name.startswith(("train-", "val-"))} == {
        path.name for path in dataset.glob(f"{SHARD}.*")
    }


def test_seal_finds_a_damaged_index(
    source: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    dataset = dataset_of(tmp_path / "data", run_index(source, tmp_path / "data", *TF_RECORD)["key"])
    arguments = packing(source, dataset)
    assert pack.main(arguments) == 0
    flip(dataset / f"{SHARD}.idx")
    assert seal.main(arguments[:4]) == 3
    assert f"{SHARD}.tfrecord: its index is damaged" in capfd.readouterr().err
    assert pack.main(arguments) == 0
    assert seal.main(arguments[:4]) == 0


def test_an_older_sealed_dataset_stays_as_it_is(older: Path, source: Path, tmp_path: Path) -> None:
    before = stamps(older)
    result = run_index(source, tmp_path / "data", *TF_RECORD)
    assert (result["key"], result["sealed"]) == (older.name, True)
    assert pack.main(packing(source, older)) == 0
    assert verify(older) == verify_folder(older) == 0
    assert stamps(older) == before


def test_an_older_dataset_has_the_same_records_and_becomes_the_same_smaller_one(
    older: Path, source: Path, tmp_path: Path
) -> None:
    newer = prepare(source, tmp_path / "newer", *TF_RECORD)
    assert newer.name == older.name
    assert opened(newer).read(range(3)) == opened(older).read(range(3))
    one, other = (
        prepare(None, tmp_path / f"small-{dataset.parents[1].name}", "--prepared", str(dataset),
                "--shards", "1", "--resize", "16")
        for dataset in (older, newer)
    )  # fmt: skip
    assert contents(one) == contents(other)


def test_shards_that_an_older_version_has_packed_are_not_packed_again(
    source: Path, tmp_path: Path
) -> None:
    dataset = dataset_of(tmp_path / "data", run_index(source, tmp_path / "data", *TF_RECORD)["key"])
    arguments = packing(source, dataset)
    assert pack.main([*arguments, "--shard", "0"]) == 0
    without_index(dataset, "train-00000-of-00003")
    before = stamps(dataset)
    assert pack.main(arguments) == seal.main(arguments[:4]) == 0
    after = stamps(dataset)
    kept = [path for path in before if path.name.startswith("train-")]
    assert [after[path] for path in kept] == [before[path] for path in kept]

    sealed = read_dataset(dataset)
    assert [shard.index for shard in sealed.train.shards] == [
        None,
        f"{SHARD}.idx",
        "train-00002-of-00003.idx",
    ]
    assert verify(dataset) == verify_folder(dataset) == 0
    expected = prepare(source, tmp_path / "expected", *TF_RECORD)
    assert opened(dataset).identities().tolist() == opened(expected).identities().tolist()


def test_the_repair_of_an_older_dataset_gives_its_damaged_shard_alone_an_index(
    older: Path, source: Path, tmp_path: Path
) -> None:
    records = {path.name: path.read_bytes() for path in older.glob("*.tfrecord")}
    flip(older / f"{SHARD}.tfrecord")
    assert verify(older) == 3
    prepare(source, tmp_path / "data", *TF_RECORD)
    assert [path.name for path in older.glob("*.idx")] == [f"{SHARD}.idx"]
    assert {path.name: path.read_bytes() for path in older.glob("*.tfrecord")} == records
    shutil.rmtree(older / "plan")
    assert verify_folder(older) == 0
