"""imagenet-index with validation images in a source of their own: labels and unknown classes."""

from pathlib import Path

import pytest

from imagenet_spec.resource.dataset_status import DatasetStatus
from imagenet_workloads.dataset import read_dataset
from imagenet_workloads.prepare import plan as plans
from support.pictures import (
    collection,
    jpeg,
    tar,
    write_folder,
    write_tar_of_folders,
    write_tar_of_tars,
)
from support.preparation import dataset_of, prepare, refused, run_index
from support.sentences import assert_says

IMAGES = collection({"n03": 12, "n01": 20, "n02": 10, "rare": 4})


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_tar_of_tars(tmp_path / "train.tar", IMAGES)


def own_validation(tmp_path: Path, classes: list[str]) -> tuple[str | Path, ...]:
    """Options for one validation image of each of these classes."""
    images = {f"val_{number:03}.JPEG": jpeg(number) for number in range(len(classes))}
    (tmp_path / "val.tar").write_bytes(tar(images))
    (tmp_path / "labels.txt").write_text("".join(f"{name}\n" for name in classes))
    return (
        "--validation-source", tmp_path / "val.tar",
        "--validation-labels", tmp_path / "labels.txt", "--shards", "1",
    )  # fmt: skip


def test_what_is_left_out_is_counted_in_the_result_and_in_the_dataset(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    source = write_folder(tmp_path / "source", IMAGES)
    for name in ("a.txt", "b.txt", "c.gif"):
        (source / "n01" / name).touch()
    options = own_validation(tmp_path, ["n01"] * 19 + ["n77"])
    (tmp_path / "val.tar").write_bytes(
        tar({f"{number:03}.jpg": jpeg(number) for number in range(20)} | {"README": b""})
    )
    arguments = (*map(str, options), "--max-skipped-fraction", "0.1")
    result = run_index(source, tmp_path / "data", *arguments)
    assert result["passedOver"] == {".txt": 2, ".gif": 1, "none": 1}
    assert result["unknownLabels"] == 1
    assert_says(caplog.text, "ignored 3 files", "without", "an image (.txt 2, .gif 1)")
    dataset = prepare(source, tmp_path / "data", *arguments)
    sealed = read_dataset(dataset)
    assert sealed.passed_over == {".txt": 2, ".gif": 1, "none": 1}
    assert sealed.unknown_labels == {"n77": 1}
    said = DatasetStatus.model_validate(result).left_out or ""
    assert "1 validation image" in said and "4 other files (.txt 2, .gif 1, none 1)" in said


@pytest.mark.parametrize(
    ("option", "field"),
    [
        ("--source", "spec.dataset.source.volume.path"),
        ("--validation-source", "spec.dataset.validation.path"),
        ("--validation-labels", "spec.dataset.validation.labels"),
    ],
)
def test_a_missing_path_is_named_with_its_option_and_field(
    option: str, field: str, source: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    missing = tmp_path / "nope"
    options = ["--source", source, *own_validation(tmp_path, ["n01"])]
    options[options.index(option) + 1] = missing
    said = refused(capfd, "--data", tmp_path / "data", *options)
    assert f"{option} ({field}): {missing}: no such file" in said


@pytest.mark.parametrize(
    ("option", "field"),
    [
        ("--class-words", "source.classWords"),
        ("--bounding-boxes", "source.boundingBoxes"),
        ("--expected-class-names", "source.expectedClassNames"),
    ],
)
def test_a_missing_file_beside_the_images_is_named_with_its_field(
    option: str, field: str, source: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    missing = tmp_path / "nope"
    said = refused(capfd, "--data", tmp_path / "data", "--source", source, option, missing)
    assert f"imagenet-index: error: {field}: {missing}: " in said


@pytest.mark.parametrize("labels", ["{stem} {name}\n", "{name}\n"])
@pytest.mark.parametrize("flat", ["tar", "folder"])
def test_validation_images_may_have_their_own_source(
    labels: str, flat: str, tmp_path: Path
) -> None:
    source = write_tar_of_folders(tmp_path / "train.tar", IMAGES)
    names = ["n02", "n01", "rare", "n03", "n77", "n01"]
    images = {f"val_{number}.JPEG": jpeg(900 + number) for number in range(len(names))}
    if flat == "tar":
        (tmp_path / "val").write_bytes(tar(dict(reversed(images.items()))))
    else:
        write_folder(tmp_path, {"val": images})
    lines = [labels.format(stem=f"val_{n}", name=name) for n, name in enumerate(names)]
    (tmp_path / "labels.txt").write_text("".join(lines))
    options = (
        "--validation-source", str(tmp_path / "val"),
        "--validation-labels", str(tmp_path / "labels.txt"),
        "--min-images-per-class", "10", "--shards", "2", "--max-skipped-fraction", "0.2",
    )  # fmt: skip
    result = run_index(source, tmp_path / "data", *options)
    # Those of the dropped class and of the one that the training lacks are left out.
    assert result["images"] == {"train": 42, "validation": 4}
    dataset = dataset_of(tmp_path / "data", result["key"])
    plan = plans.read(tmp_path / "data", result["key"])
    (shard,) = (shard for shard in plan.shards if shard.split == "validation")
    found = {image.name: plan.classes[image.label] for image in plans.read_images(dataset, shard)}
    assert found == {
        "val_0.JPEG": "n02", "val_1.JPEG": "n01", "val_3.JPEG": "n03", "val_5.JPEG": "n01",
    }  # fmt: skip
    (tmp_path / "labels.txt").write_text("".join(reversed(lines)))
    if "stem" not in labels:
        assert run_index(source, tmp_path / "data", *options)["key"] != result["key"]


def test_labels_of_no_known_class_are_an_error(
    source: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "val.tar").write_bytes(tar({"1.jpg": jpeg(0)}))
    (tmp_path / "labels.txt").write_text("n99\n")
    message = refused(
        capfd, "--source", source, "--data", tmp_path / "data", "--shards", "1",
        "--validation-source", tmp_path / "val.tar", "--validation-labels", tmp_path / "labels.txt",
    )  # fmt: skip
    assert_says(message, "labels.txt", "none of its classes", "training images")


def test_more_labels_of_unknown_classes_than_allowed_are_an_error(
    source: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    options = own_validation(tmp_path, ["n01"] * 90 + ["N01"] * 4 + ["n77", "-1"] * 3)
    common = ("--source", source, "--data", tmp_path / "data", *options)
    message = refused(capfd, *common, "--max-skipped-fraction", "0.09")
    assert_says(message, f"{tmp_path}/labels.txt: 10 of 100 validation images")
    assert_says(message, "the training images lack", "9 are allowed", "N01 (4 images; ")
    assert_says(message, "the training images have n01", "n77 (3 images), -1 (3 images)")
    assert_says(message, "correct the labels", "--max-skipped-fraction (maxSkippedFraction)")
    assert not list((tmp_path / "data").rglob("plan*"))


def test_labels_of_unknown_classes_are_named_where_they_are_allowed(
    source: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    options = own_validation(tmp_path, ["rare"] * 8 + ["n01"] * 90 + ["n77", "n78"])
    options = (*options, "--max-skipped-fraction", "0.02", "--min-images-per-class", "5")
    result = run_index(source, tmp_path / "data", *map(str, options))
    # Those of a class with too few images are none of an unknown class.
    assert result["images"]["validation"] == 90
    (unknown,) = (text for text in caplog.messages if "2 of 100 validation images" in text)
    assert_says(unknown, "the training images lack", "left out: n77 (1 image), n78 (1 image)")
    (rare,) = (text for text in caplog.messages if text.startswith("8 validation images"))
    assert_says(rare, "too few images", "left out")
