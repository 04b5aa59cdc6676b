"""imagenet-index: what it plans, what it says, and what it refuses."""

import json
import os
from pathlib import Path

import pytest

from imagenet_spec.resource.dataset_status import DatasetStatus
from imagenet_workloads import files
from imagenet_workloads.commands import index
from imagenet_workloads.prepare import plan as plans
from support.codecs import needs_libturbojpeg
from support.pictures import collection, jpeg, write_folder, write_tar_of_tars
from support.preparation import contents, dataset_of, prepare, refused, run_index, stamps
from support.sentences import assert_says

IMAGES = collection({"n03": 12, "n01": 20, "n02": 10, "rare": 4})
OPTIONS = ("--shards", "3", "--validation-per-class", "4", "--min-images-per-class", "10")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_tar_of_tars(tmp_path / "train.tar", IMAGES)


def test_says_what_it_planned(
    source: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    result = run_index(source, tmp_path / "data", *OPTIONS)
    assert json.loads(capfd.readouterr().out) == result
    assert result == {
        "key": result["key"],
        "classes": 3,
        "images": {"train": 30, "validation": 12},
        "shards": 5,
        "droppedClasses": 1,
        "sealed": False,
        "decision": {"said": "classFolders: classes are the archives"},
    }
    assert "dropped for fewer than 10 images: rare (4)" in caplog.text


def test_a_sealed_dataset_says_how_many_images_were_damaged(tmp_path: Path) -> None:
    source = write_folder(tmp_path / "source", {"a": {**IMAGES["n01"], "x.jpg": b"damaged"}})
    options = ("--shards", "1", "--max-skipped-fraction", "0.1", "--layout", "classFolders")
    assert "skippedImages" not in run_index(source, tmp_path / "data", *options)
    prepare(source, tmp_path / "data", *options)
    result = run_index(source, tmp_path / "data", *options)
    assert (result["sealed"], result["skippedImages"]) == (True, 1)
    assert result["images"] == {"train": 20, "validation": 0}
    DatasetStatus.model_validate(result)


def test_plans_every_image_once_with_its_label_and_place(source: Path, tmp_path: Path) -> None:
    key = run_index(source, tmp_path / "data", *OPTIONS)["key"]
    plan = plans.read(tmp_path / "data", key)
    assert plan.classes == ("n01", "n02", "n03")
    assert plan.dropped_classes == {"rare": 4}
    assert [(shard.name, shard.images) for shard in plan.shards] == [
        ("train-00000-of-00003", 10),
        ("train-00001-of-00003", 10),
        ("train-00002-of-00003", 10),
        ("val-00000-of-00002", 6),
        ("val-00001-of-00002", 6),
    ]
    archive = source.read_bytes()
    planned = {"train": [], "validation": []}  # type: dict[str, list[str]]
    keys = {"train": [], "validation": []}  # type: dict[str, list[int]]
    for shard in plan.shards:
        for image in plans.read_images(dataset_of(tmp_path / "data", key), shard):
            class_name, name = image.name.split(".tar/")
            assert plan.classes[image.label] == class_name
            content = archive[image.offset : image.offset + image.size]
            assert content == IMAGES[class_name][name]
            planned[shard.split].append(name)
            keys[shard.split].append(image.key)
    assert keys == {"train": list(range(30)), "validation": list(range(12))}
    everything = [name for kept in plan.classes for name in IMAGES[kept]]
    assert sorted(planned["train"] + planned["validation"]) == sorted(everything)
    # Shuffled: a shard that held one class after another would be useless to read in order.
    assert planned["train"] != sorted(planned["train"])


def test_the_same_input_and_options_give_the_same_plan(source: Path, tmp_path: Path) -> None:
    one = run_index(source, tmp_path / "one", *OPTIONS)
    other = run_index(source, tmp_path / "other", *OPTIONS)
    assert one == other
    assert contents(tmp_path / "one") == contents(tmp_path / "other")


@pytest.mark.parametrize(
    "options",
    [
        ("--seed", "1"), ("--resize", "20"), ("--quality", "80"), ("--shards", "2"),
        ("--min-images-per-class", "11"), ("--validation-per-class", "5"),
        pytest.param(("--codec", "planes"), marks=needs_libturbojpeg),
    ],
)  # fmt: skip
def test_each_option_that_changes_bytes_changes_the_key(
    options: tuple[str, str], source: Path, tmp_path: Path
) -> None:
    before = run_index(source, tmp_path / "data", *OPTIONS)["key"]
    assert run_index(source, tmp_path / "data", *OPTIONS, *options)["key"] != before
    same = ("--max-skipped-fraction", "0.5", "--codec", "auto")
    assert run_index(source, tmp_path / "data", *OPTIONS, *same)["key"] == before


def test_each_change_of_the_source_changes_the_key(tmp_path: Path) -> None:
    root = write_folder(tmp_path / "source", {"a": {"1.jpg": jpeg(1), "2.jpg": jpeg(2)}})
    keys = []

    def look() -> None:
        options = ("--shards", "1", "--layout", "classFolders")
        keys.append(run_index(root, tmp_path / "data", *options)["key"])

    look()
    os.utime(root / "a/1.jpg", (1, 1))
    look()
    (root / "a/1.jpg").rename(root / "a/3.jpg")
    look()
    (root / "a/3.jpg").write_bytes(jpeg(3, 50, 50))
    look()
    (root / "a").rename(root / "b")
    look()
    assert len(set(keys)) == 5


def test_a_sealed_dataset_needs_nothing_more(source: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    dataset = prepare(source, data, *OPTIONS)
    before = stamps(dataset)
    result = run_index(source, data, *OPTIONS, "--max-skipped-fraction", "0")
    assert result["sealed"] is True
    assert stamps(dataset) == before


@pytest.mark.parametrize(
    ("format", "suffix"),
    [("RecordIO", "rec"), ("RecordIO", "idx"), ("TFRecord", "tfrecord"), ("TFRecord", "idx")],
)
def test_a_sealed_dataset_that_lost_a_file_is_an_error_with_a_way_out(
    format: str, suffix: str, source: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    options, name = (*OPTIONS, "--format", format), f"train-00001-of-00003.{suffix}"
    dataset = prepare(source, tmp_path / "data", *options)
    whole = contents(dataset)
    (dataset / name).unlink()
    message = refused(capfd, "--source", source, "--data", tmp_path / "data", *options)
    assert_says(message, f"{name}: ", "is not as dataset.json says", "remove dataset.json")
    (dataset / "dataset.json").unlink()
    assert contents(prepare(source, tmp_path / "data", *options)) == whole


def test_a_sealed_dataset_with_a_file_cut_short_is_an_error(
    source: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    dataset = prepare(source, tmp_path / "data", *OPTIONS)
    path = dataset / "val-00000-of-00002.rec"
    path.write_bytes(path.read_bytes()[:-4])
    message = refused(capfd, "--source", source, "--data", tmp_path / "data", *OPTIONS)
    assert f"{path.name}: is not as dataset.json says" in message


def test_a_sealed_dataset_with_more_damage_than_allowed_is_an_error(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    images = {"a": {**collection({"a": 9})["a"], "bad.jpg": b"rubbish"}}
    source = write_tar_of_tars(tmp_path / "x.tar", images)
    options = ("--shards", "1", "--layout", "classFolders", "--max-skipped-fraction")
    prepare(source, tmp_path / "data", *options, "0.1")
    message = refused(capfd, "--source", source, "--data", tmp_path / "data", *options, "0.05")
    assert_says(message, "1 of 10 images were damaged", "skipped.jsonl", "0 are allowed")
    assert_says(message, "raise --max-skipped-fraction (maxSkippedFraction)")


def test_an_expected_number_of_classes_is_checked(
    source: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    common = ("--source", source, "--data", tmp_path / "data", *OPTIONS)
    message = refused(capfd, *common, "--expected-classes", "4")
    assert_says(message, "4 classes are expected", "the dataset has 3")
    assert_says(message, "n01 (20 images), n02 (10), n03 (12)", "left out: rare (4)")
    assert not list((tmp_path / "data").rglob("plan*"))
    key = run_index(source, tmp_path / "data", *OPTIONS)["key"]
    checked = run_index(source, tmp_path / "data", *OPTIONS, "--expected-classes", "3")
    assert checked["key"] == key


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("n01\nn02\nn03\n", None),
        ("\ufeffn03 tench, Tinca tinca\r\nn01\r\n\r\nn02 goldfish\r\n", None),
        ("n01\nn02\n", "1 class that is not expected: n03"),
        ("n01\nn02\nn03\nrare\nN04\n", "lacks 2 expected classes: rare (4 images: too few), N04"),
        ("n01\nn02\nN03\n", "lacks 1 expected class: N03; it has 1 class that is not expected"),
        ("", "names no class"),
    ],
)  # fmt: skip
def test_expected_names_of_classes_are_checked(
    text: str,
    message: str | None,
    source: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "classes.txt").write_text(text)
    expected = ("--expected-class-names", str(tmp_path / "classes.txt"))
    if message is None:
        run_index(source, tmp_path / "data", *OPTIONS, *expected)
        return
    common = ("--source", source, "--data", tmp_path / "data", *OPTIONS)
    told = refused(capfd, *common, *expected)
    assert f"{tmp_path}/classes.txt" in told
    assert message in told


def test_a_volume_that_is_too_small_is_refused_before_any_work(
    source: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(files, "free_bytes", lambda _: 10 << 10)
    message = refused(capfd, "--source", source, "--data", tmp_path / "data", *OPTIONS)
    assert "the dataset needs about" in message
    assert "and 10.0 KiB are free; enlarge the volume" in message
    assert not list((tmp_path / "data").rglob("plan*"))


def test_the_estimate_is_near_what_the_dataset_takes(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(
        "imagenet_workloads.files.require_space",
        lambda _, needed, __: asked.append(needed),
    )
    dataset = prepare(source, tmp_path / "data", *OPTIONS, "--resize", "30")
    taken = sum(path.stat().st_size for path in dataset.glob("*.rec"))
    assert taken <= asked[0] <= 1.3 * taken
    # What is there already is not asked for again.
    (dataset / "dataset.json").unlink()
    run_index(source, tmp_path / "data", *OPTIONS, "--resize", "30")
    assert asked[1] == asked[0] - taken


@pytest.mark.parametrize(
    ("members", "options", "message"),
    [
        ({}, (), "/source: holds no images\n"),
        (
            {"a": 0, "b": 0},
            (),
            "/source: holds no images, only 2 empty classes; give a folder",
        ),
        ({"a": 3}, ("--min-images-per-class", "4"), "no class has 4 images or more"),
        ({"a": 3, "b": 5}, ("--validation-per-class", "3"), "the class a has 3 images"),
        ({"a": 3}, ("--shards", "4"), "3 training images do not fill 4 shards"),
    ],
)
def test_refuses_what_makes_no_dataset(
    members: dict[str, int],
    options: tuple[str, ...],
    message: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "source").mkdir()
    write_folder(tmp_path / "source", collection(members))
    arguments = ("--source", tmp_path / "source", "--data", tmp_path / "data", "--shards", "1")
    assert message in refused(capfd, *arguments, *options)


def test_a_source_whose_files_are_no_images_says_what_images_are_called(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source = write_folder(tmp_path / "source", {"a": {"one.txt": b"", "two.gif": b""}})
    message = refused(capfd, "--source", source, "--data", tmp_path / "data")
    assert_says(message, "no images", "1 empty class", "2 files", "not named like images")
    assert_says(message, "(.bmp, .heic, .heif, .jpe, .jpeg,")


@pytest.mark.parametrize(
    "arguments",
    [
        ("--data", "d"),
        ("--source", "s"),
        ("--source", "s", "--data", "d", "--synthetic-classes", "3"),
        ("--data", "d", "--synthetic-classes", "3"),
        ("--source", "s", "--data", "d", "--validation-labels", "l"),
        ("--source", "s", "--data", "d", "--validation-source", "v", "--validation-labels", "l",
         "--validation-per-class", "3"),
        ("--source", "s", "--data", "d", "--quality", "101"),
        ("--source", "s", "--data", "d", "--resize", "0"),
        ("--source", "s", "--data", "d", "--shards", "-1"),
        ("--source", "s", "--data", "d", "--shards", "1_0"),
        ("--source", "s", "--data", "d", "--max-skipped-fraction", "2"),
        ("--source", "s", "--data", "d", "--max-skipped-fraction", "x"),
        ("--source", "s", "--data", "d", "--codec", "pillow"),
        ("--source", "s", "--data", "d", "--expected-classes", "0"),
        ("--source", "s", "--data", "d", "--expected-class-names", ""),
        ("--source", "s", "--data", "d", "--path-in-archive", ""),
        ("--data", "d", "--synthetic-classes", "3", "--synthetic-images-per-class", "2",
         "--synthetic-image-shape", "1,8,8"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_told_as_such(arguments: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit, check=lambda error: error.code == 2):
        index.main(arguments)
