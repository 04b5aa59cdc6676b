"""imagenet-pack and imagenet-seal: damage, reruns, and errors with a way out."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from imagenet_operator.reconcile.preparation import PackResult
from imagenet_workloads import files
from imagenet_workloads.commands import pack, seal
from imagenet_workloads.dataset import read_dataset
from imagenet_workloads.prepare import pack as packing
from imagenet_workloads.prepare.plan import WRITER_VERSION
from support.pictures import Collection, collection, jpeg, tar, write_folder, write_tar_of_tars
from support.preparation import contents, dataset_of, prepare, records, run_index, stamps
from support.sentences import assert_says

IMAGES = collection({"a": 12, "b": 12})
DAMAGED: Collection = {
    "a": {**IMAGES["a"], "cut.jpg": jpeg(0)[:-300], "empty.png": b""},
    "b": {**IMAGES["b"], "text.jpg": b"no image at all"},
}


def run(program: object, *arguments: str | Path | int) -> int:
    main = {"pack": pack.main, "seal": seal.main}[str(program)]
    return main([str(argument) for argument in arguments])


def planned(tmp_path: Path, images: Collection, *options: str) -> tuple[Path, Path, str]:
    source = write_tar_of_tars(tmp_path / "x.tar", images)
    data = tmp_path / "data"
    return source, data, run_index(source, data, "--shards", "2", *options)["key"]


@pytest.mark.parametrize(
    ("damaged", "message"),
    [
        (("a",), "every training image of the class a is damaged"),
        (("a", "b"), "every training image of the classes a, b is damaged"),
    ],
)
def test_no_empty_class_is_sealed_whatever_is_allowed(
    damaged: tuple[str, ...], message: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    images = {
        name: dict.fromkeys(members, b"damaged") if name in damaged else members
        for name, members in IMAGES.items()
    }
    source, data, key = planned(tmp_path, images, "--max-skipped-fraction", "1")
    common = ("--data", data, "--key", key)
    assert run("pack", *common, "--source", source) == 0
    assert run("seal", *common) == 3
    assert message in capfd.readouterr().err.splitlines()[-1]
    assert not (dataset_of(data, key) / "dataset.json").exists()


def test_no_empty_validation_is_sealed_whatever_is_allowed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source = write_tar_of_tars(tmp_path / "x.tar", IMAGES)
    (tmp_path / "val.tar").write_bytes(tar({"1.jpg": b"damaged", "2.jpg": b"damaged"}))
    (tmp_path / "labels.txt").write_text("a\nb\n")
    data = tmp_path / "data"
    validation = ("--validation-source", str(tmp_path / "val.tar"))
    key = run_index(
        source, data, "--shards", "2", "--max-skipped-fraction", "1", *validation,
        "--validation-labels", str(tmp_path / "labels.txt"),
    )["key"]  # fmt: skip
    assert run("pack", "--data", data, "--key", key, "--source", source, *validation) == 0
    assert run("seal", "--data", data, "--key", key) == 3
    assert "every validation image is damaged" in capfd.readouterr().err.splitlines()[-1]


def test_a_file_that_no_memory_holds_is_damaged(tmp_path: Path) -> None:
    source = write_folder(tmp_path / "source", IMAGES)
    with (source / "a" / "huge.jpg").open("wb") as file:
        file.truncate(1 << 40)
    dataset = prepare(source, tmp_path / "data", "--shards", "2", "--max-skipped-fraction", "0.05")
    (line,) = (dataset / "skipped.jsonl").read_text().splitlines()
    assert_says(json.loads(line)["reason"], str(1 << 40), str(1 << 30))


def test_damaged_images_are_skipped_counted_and_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source = write_tar_of_tars(tmp_path / "x.tar", DAMAGED)
    options = ("--shards", "2", "--max-skipped-fraction", "0.2")
    dataset = prepare(source, tmp_path / "data", *options)
    sealed = read_dataset(dataset)
    assert (sealed.train.images, sealed.train.per_class) == (24, (12, 12))
    assert (sealed.skipped.count, sealed.skipped.report) == (3, "skipped.jsonl")
    report = [json.loads(line) for line in (dataset / "skipped.jsonl").read_text().splitlines()]
    assert {(line["name"], line["class"]) for line in report} == {
        ("a.tar/cut.jpg", "a"), ("a.tar/empty.png", "a"), ("b.tar/text.jpg", "b"),
    }  # fmt: skip
    reasons = {line["name"]: line["reason"] for line in report}
    assert reasons["a.tar/cut.jpg"] == "Premature end of JPEG file"
    assert reasons["a.tar/empty.png"] == "is empty"
    assert "skipped a.tar/cut.jpg: Premature end" in caplog.text
    assert sorted(record.jpeg for record in records(dataset)) == sorted(
        content for members in IMAGES.values() for content in members.values()
    )
    # A gap where an image was skipped, in keys that no two records share.
    assert len({record.key for record in records(dataset)}) == 24


def test_seal_fails_beyond_the_fraction_and_names_the_report(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    # Each shard alone stays within what is allowed for all.
    source, data, key = planned(tmp_path, DAMAGED, "--max-skipped-fraction", "0.08", "--seed", "1")
    dataset = dataset_of(data, key)
    assert run("pack", "--data", data, "--key", key, "--source", source) == 0
    capfd.readouterr()
    assert run("seal", "--data", data, "--key", key) == 3
    message = capfd.readouterr().err
    assert "3 damaged images in the dataset" in message
    assert "skipped.jsonl, and 2 of 27 are allowed" in message
    assert "--max-skipped-fraction" in message
    assert len((dataset / "skipped.jsonl").read_text().splitlines()) == 3
    assert not (dataset / "dataset.json").exists()
    # Who allows more goes on with the shards that are there.
    before = contents(dataset)
    again = run_index(source, data, "--shards", "2", "--max-skipped-fraction", "0.2", "--seed", "1")
    assert again["key"] == key
    assert run("seal", "--data", data, "--key", key) == 0
    after = contents(dataset)
    assert {name for name in after if after[name] != before.get(name)} == {
        "dataset.json",
        "limits.json",
    }


def test_pack_names_all_damaged_images_if_a_shard_alone_has_too_many(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bad = {name: {f"{number}.jpg": b"rubbish" for number in range(15)} for name in "ab"}
    source, data, key = planned(tmp_path, bad, "--max-skipped-fraction", "0.1")
    pack = ("pack", "--data", data, "--key", key, "--source", source)
    for shard, names, count in (
        (("--shard", 1), "train-00001-of-00002", 15),
        ((), "train-00000-of-00002 and train-00001-of-00002", 30),
    ):
        assert run(*pack, *shard) == 3
        message = capfd.readouterr().err
        assert f"{count} damaged images in {names} alone, and 3 of 30 are allowed" in message
        assert caplog.text.count("skipped ") == count
        caplog.clear()
        assert not [name for name in contents(dataset_of(data, key)) if "train-" in name[:7]]
    # A source that is broken altogether is not read to its end.
    monkeypatch.setattr("imagenet_workloads.prepare.pack._MOST_NAMED", 1)
    assert run(*pack) == 3
    assert "15 damaged images in train-00000-of-00002 alone" in capfd.readouterr().err


def test_an_error_of_the_disk_is_worth_another_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    source = write_folder(tmp_path / "source", IMAGES)
    key = run_index(source, tmp_path / "data", "--shards", "1")["key"]
    real = os.open

    def broken(path: Any, *arguments: Any, **options: Any) -> int:
        if str(path).endswith("a_3.JPEG"):
            raise OSError(5, "Input/output error")
        return real(path, *arguments, **options)

    monkeypatch.setattr(os, "open", broken)
    assert run("pack", "--data", tmp_path / "data", "--key", key, "--source", source) == 1
    assert_says(capfd.readouterr().err, "a/a_3.JPEG: ", "cannot be read", "Input/output error")


def test_a_rerun_makes_only_what_is_missing(tmp_path: Path) -> None:
    source, data, key = planned(tmp_path, IMAGES)
    dataset = dataset_of(data, key)
    assert run("pack", "--data", data, "--key", key, "--source", source) == 0
    whole = contents(dataset)
    before = stamps(dataset)
    (dataset / "train-00001-of-00002.json").unlink()
    assert run("pack", "--data", data, "--key", key, "--source", source) == 0
    assert contents(dataset) == whole
    changed = {path.name for path, stamp in stamps(dataset).items() if before[path] != stamp}
    assert changed == {
        f"train-00001-of-00002.{suffix}" for suffix in ("rec", "idx", "images.jsonl", "json")
    }


@pytest.mark.parametrize("suffix", ["rec", "idx"])
def test_a_shard_that_lost_a_file_or_its_length_is_made_again(suffix: str, tmp_path: Path) -> None:
    source, data, key = planned(tmp_path, IMAGES)
    dataset = dataset_of(data, key)
    assert run("pack", "--data", data, "--key", key, "--source", source) == 0
    whole = contents(dataset)
    (dataset / f"train-00000-of-00002.{suffix}").unlink()
    with (dataset / "train-00001-of-00002.rec").open("ab") as file:
        file.write(b"x")
    assert run("seal", "--data", data, "--key", key) == 3
    assert run("pack", "--data", data, "--key", key, "--source", source) == 0
    assert contents(dataset) == whole


@pytest.mark.parametrize(
    ("suffix", "place", "message"),
    [
        ("rec", 200, "its checksum is wrong"),
        ("rec", 0, "does not begin with the magic number"),
        ("idx", 0, "its index is damaged"),
    ],
)
def test_seal_sets_a_damaged_shard_aside(
    suffix: str, place: int, message: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source, data, key = planned(tmp_path, IMAGES)
    assert run("pack", "--data", data, "--key", key, "--source", source) == 0
    path = dataset_of(data, key) / f"train-00001-of-00002.{suffix}"
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)
    assert run("seal", "--data", data, "--key", key) == 3
    assert message in capfd.readouterr().err
    assert run("seal", "--data", data, "--key", key) == 3
    said = capfd.readouterr().err
    assert_says(said, "1 of 2 shards", "not complete: train-00001-of-00002", "run imagenet-pack")
    assert run("pack", "--data", data, "--key", key, "--source", source) == 0
    assert run("seal", "--data", data, "--key", key) == 0


def test_a_sidecar_that_lies_is_noticed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    source, data, key = planned(tmp_path, IMAGES)
    assert run("pack", "--data", data, "--key", key, "--source", source) == 0
    path = dataset_of(data, key) / "train-00000-of-00002.json"
    true = json.loads(path.read_text())
    for name, value, message in (
        ("key", "0" * 32, "belongs to another dataset"),
        ("records", 11, "its number of records is wrong"),
        ("skipped", [{"name": "x", "class": "a", "reason": "y"}], "it lacks images"),
        ("perClass", [1, 1], "do not add up"),
        ("perClass", [12], "its number of classes is wrong"),
    ):
        path.write_text(json.dumps({**true, name: value}))
        assert run("seal", "--data", data, "--key", key) == 3
        assert message in capfd.readouterr().err


def test_one_shard_by_option_or_by_completion_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    source, data, key = planned(tmp_path, IMAGES)
    arguments = ("--data", data, "--key", key, "--source", source)

    def made() -> set[str]:
        return {path.name for path in dataset_of(data, key).glob("*.rec")}

    assert run("pack", *arguments, "--shard", 1) == 0
    assert made() == {"train-00001-of-00002.rec"}
    monkeypatch.setenv("JOB_COMPLETION_INDEX", "0")
    assert run("pack", *arguments) == 0
    assert made() == {"train-00000-of-00002.rec", "train-00001-of-00002.rec"}
    monkeypatch.setenv("JOB_COMPLETION_INDEX", "2")
    assert run("pack", *arguments) == 3
    assert "there is no shard 2" in capfd.readouterr().err


def test_the_speed_of_a_core_is_the_termination_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, data, key = planned(tmp_path, IMAGES)
    log = tmp_path / "termination-log"
    monkeypatch.setenv("IMAGENET_TERMINATION_LOG", str(log))
    arguments = ("--data", data, "--key", key, "--source", source)
    assert run("pack", *arguments) == 0
    assert PackResult.model_validate_json(log.read_text()).decoded_images_per_second > 0
    log.unlink()
    assert run("pack", *arguments) == 0
    assert not log.exists(), "no shard was written, so nothing was measured"


def test_what_is_sealed_is_left_alone_by_all(tmp_path: Path) -> None:
    source = write_tar_of_tars(tmp_path / "x.tar", IMAGES)
    dataset = prepare(source, tmp_path / "data", "--shards", "2")
    key, before = dataset.name, stamps(dataset)
    # Pack needs no source any more.
    assert run("pack", "--data", tmp_path / "data", "--key", key) == 0
    assert run("seal", "--data", tmp_path / "data", "--key", key) == 0
    assert stamps(dataset) == before


def test_says_which_argument_or_step_is_missing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source, data, key = planned(tmp_path, IMAGES)
    for program in ("pack", "seal"):
        assert run(program, "--data", data, "--key", "abc") == 3
        said = capfd.readouterr().err
        assert_says(said, "no plan", "dataset abc", "run imagenet-index first")
    assert run("pack", "--data", data, "--key", key) == 3
    assert_says(capfd.readouterr().err, "--source is missing", "a tar of tars")
    folder = write_folder(tmp_path / "folder", IMAGES)
    assert run("pack", "--data", data, "--key", key, "--source", folder) == 3
    assert_says(capfd.readouterr().err, "is a folder of folders", "a tar of tars")
    source.write_bytes(write_tar_of_tars(tmp_path / "y.tar", {"a": IMAGES["a"]}).read_bytes())
    assert run("pack", "--data", data, "--key", key, "--source", source) == 3
    assert "the source has changed since it was indexed" in capfd.readouterr().err
    assert not list(dataset_of(data, key).glob("*train*"))


def test_a_plan_of_another_writer_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    source, data, key = planned(tmp_path, IMAGES)
    monkeypatch.setattr(packing, "WRITER_VERSION", "other")
    assert run("pack", "--data", data, "--key", key, "--source", source) == 3
    assert (
        f"is for version {WRITER_VERSION} of the writer, and this is other"
        in capfd.readouterr().err
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not valid JSON"),
        ('{"version": 7}', "version is not 1"),
        ("{}", "version is missing"),
    ],
)
def test_a_damaged_plan_is_named(
    content: str, message: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    _, data, key = planned(tmp_path, IMAGES)
    (dataset_of(data, key) / "plan" / "plan.json").write_text(content)
    assert run("seal", "--data", data, "--key", key) == 3
    error = capfd.readouterr().err
    assert message in error
    assert "plan.json" in error


def test_a_damaged_list_of_images_is_named(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source, data, key = planned(tmp_path, IMAGES)
    path = dataset_of(data, key) / "plan" / "train-00000-of-00002.jsonl"
    path.write_text("[1, 2]\n")
    assert run("pack", "--data", data, "--key", key, "--source", source) == 3
    assert f"{path}: the plan is damaged" in capfd.readouterr().err


def test_a_shard_that_another_run_finished_first_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    source, data, key = planned(tmp_path, IMAGES)
    arguments = ("--data", data, "--key", key, "--source", source)
    dataset = dataset_of(data, key)
    real = files.NewFile.finish
    before = {}

    def finish(new: files.NewFile) -> None:
        # Just before publishing, another pack finishes, seals and removes these files.
        monkeypatch.setattr(files.NewFile, "finish", real)
        assert run("pack", *arguments) == 0
        assert run("seal", "--data", data, "--key", key) == 0
        before.update(stamps(dataset))
        real(new)

    monkeypatch.setattr(files.NewFile, "finish", finish)
    assert run("pack", *arguments, "--shard", 0) == 0
    assert "another run finished" in caplog.text
    assert stamps(dataset) == before


def test_a_file_that_vanishes_while_it_is_written_is_worth_another_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    source, data, key = planned(tmp_path, IMAGES)
    arguments = ("--data", data, "--key", key, "--source", source)
    real = files.NewFile.finish

    def finish(new: files.NewFile) -> None:
        real(new)
        files.sweep(dataset_of(data, key), older_than=-1)

    monkeypatch.setattr(files.NewFile, "finish", finish)
    assert run("pack", *arguments) == 1
    assert "has vanished" in capfd.readouterr().err
    monkeypatch.setattr(files.NewFile, "finish", real)
    assert run("pack", *arguments) == 0


def test_leftovers_of_a_killed_run_go(tmp_path: Path) -> None:
    source, data, key = planned(tmp_path, IMAGES)
    dataset = dataset_of(data, key)
    for name in (
        ".train-00000-of-00002.rec.tmp-0000000000000000",
        ".train-00000-of-00002.rec.tmp-1111111111111111",
    ):
        (dataset / name).write_bytes(b"half")
    os.utime(dataset / ".train-00000-of-00002.rec.tmp-0000000000000000", (10**9, 10**9))
    assert run("pack", "--data", data, "--key", key, "--source", source) == 0

    def hidden() -> list[str]:
        return [path.name for path in dataset.iterdir() if path.name[0] == "."]

    assert hidden() == [".train-00000-of-00002.rec.tmp-1111111111111111"]
    assert run("seal", "--data", data, "--key", key) == 0
    assert hidden() == []
