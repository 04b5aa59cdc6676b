"""Trees with a training and a validation split, as folders and as archives, found by looking."""

import io
from pathlib import Path

import pytest

from imagenet_workloads.dataset import read_dataset
from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare.source import Notes
from imagenet_workloads.prepare.sources import volume
from support import development_kit
from support.development_kit import IDS, META, WORDS, unpacked
from support.image_trees import (
    CLASSES,
    KAGGLE,
    TORCHVISION,
    TRAINING,
    TREES,
    UNLABELLED,
    WRITERS,
    classes_of,
    write_folder,
    write_tar,
)
from support.pictures import jpeg, tar
from support.preparation import dataset_of, prepare, refused, run_index
from support.sentences import assert_says


@pytest.mark.parametrize("tree", TREES)
@pytest.mark.parametrize("writer", WRITERS)
def test_a_tree_gives_both_splits(writer: str, tree: str, tmp_path: Path) -> None:
    source = WRITERS[writer](tmp_path / "source", TREES[tree])
    options = ("--shards", "1", "--default-validation-per-class", "2")
    dataset = prepare(source, tmp_path / "data", *options)
    sealed = read_dataset(dataset)
    assert sealed.classes == CLASSES
    assert (sealed.train.images, sealed.validation.images) == (12, 3)
    assert sealed.options["validationPerClass"] == 0
    found = classes_of(dataset, tmp_path / "data", "validation")
    expected = {f"v_{n}.JPEG": name for n, name in enumerate(CLASSES)}
    if tree == "torchvision":
        expected = {f"v_{name}.JPEG": name for name in CLASSES}
    assert found == expected


@pytest.mark.parametrize("writer", WRITERS)
def test_words_of_the_classes_are_found_beside_them(writer: str, tmp_path: Path) -> None:
    files = {**KAGGLE, "LOC_synset_mapping.txt": b"n01 tench, Tinca tinca\nn02 goldfish\nn9 x\n"}
    source = WRITERS[writer](tmp_path / "source", files)
    sealed = read_dataset(prepare(source, tmp_path / "data", "--shards", "1"))
    assert sealed.class_words == {"n01": "tench, Tinca tinca", "n02": "goldfish"}
    # A file of words for other classes is no mistake of the user.
    files["LOC_synset_mapping.txt"] = b"n77 cat\n"
    source = WRITERS[writer](tmp_path / "other", files)
    assert not read_dataset(prepare(source, tmp_path / "data", "--shards", "1")).class_words


@pytest.mark.parametrize("below", ["ILSVRC", "ILSVRC/Data", "ILSVRC/Data/CLS-LOC"])
@pytest.mark.parametrize("writer", WRITERS)
def test_any_folder_of_kaggle_s_tree_is_its_root(writer: str, below: str, tmp_path: Path) -> None:
    # The label file is beside ILSVRC.
    source, options = WRITERS[writer](tmp_path / "source", KAGGLE), ["--shards", "1"]
    if writer == "folder":
        source = source / below
    else:
        options += ["--path-in-archive", below]
    sealed = read_dataset(prepare(source, tmp_path / "data", *options))
    assert (sealed.train.images, sealed.validation.images) == (12, 3)


@pytest.mark.parametrize("writer", WRITERS)
def test_a_split_that_is_asked_for_is_drawn_from_the_training_images(
    writer: str, tmp_path: Path
) -> None:
    source = WRITERS[writer](tmp_path / "source", TORCHVISION)
    options = ("--shards", "1", "--validation-per-class", "1")
    sealed = read_dataset(prepare(source, tmp_path / "data", *options))
    assert (sealed.train.images, sealed.validation.images) == (9, 3)
    assert sealed.options["validationPerClass"] == 1


def test_a_source_without_validation_images_keeps_its_default_and_its_key(tmp_path: Path) -> None:
    files = {name.removeprefix("train/"): image for name, image in TRAINING.items()}
    source = write_folder(tmp_path / "source", files)
    keys = {
        run_index(source, tmp_path / "data", "--shards", "1", option, "1")["key"]
        for option in ("--validation-per-class", "--default-validation-per-class")
    }
    assert len(keys) == 1


@pytest.mark.parametrize("writer", WRITERS)
def test_validation_images_of_their_own_may_be_class_folders(writer: str, tmp_path: Path) -> None:
    def split(name: str) -> Path:
        files = {
            path.removeprefix(f"{name}/"): image
            for path, image in TORCHVISION.items()
            if path.startswith(f"{name}/")
        }
        return WRITERS[writer](tmp_path / name, files)

    options = ("--validation-source", str(split("val")), "--shards", "1")
    dataset = prepare(split("train"), tmp_path / "data", *options)
    assert read_dataset(dataset).validation.per_class == (1, 1, 1)
    found = classes_of(dataset, tmp_path / "data", "validation")
    assert found == {f"v_{name}.JPEG": name for name in CLASSES}


@pytest.mark.parametrize("writer", WRITERS)
def test_a_validation_class_that_the_training_lacks_is_named(
    writer: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    files = {**TORCHVISION, "val/N01/x.JPEG": jpeg(1), "val/n77/x.JPEG": jpeg(2)}
    source = WRITERS[writer](tmp_path / "source", files)
    options = ("--source", source, "--data", tmp_path / "data", "--shards", "1")
    message = refused(capfd, *options)
    assert_says(message, "2 of 5 validation images", "the training images lack", "0 are allowed")
    assert_says(message, "N01 (1 image; ", "the training images have n01", "n77 (1 image)")
    assert_says(message, "rename or remove these folders", "raise --max-skipped-fraction")
    result = run_index(source, tmp_path / "data", "--shards", "1", "--max-skipped-fraction", "0.4")
    assert (result["images"]["validation"], result["unknownLabels"]) == (3, 2)


@pytest.mark.parametrize("writer", WRITERS)
def test_validation_images_without_classes_and_labels_are_refused(
    writer: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source = WRITERS[writer](tmp_path / "source", UNLABELLED)
    options = ("--source", source, "--data", tmp_path / "data", "--shards", "1")
    message = refused(capfd, *options)
    assert_says(message, "CLS-LOC/val: ", "no class folders", "label file is missing")
    assert_says(message, "above them", "label file by --validation-labels (validation.labels)")
    # A split needs none of them.
    assert run_index(source, tmp_path / "data", "--shards", "1", "--validation-per-class", "1")


def test_labels_of_the_development_kit_may_be_above_the_images(tmp_path: Path) -> None:
    files = {
        **UNLABELLED,
        "ILSVRC2012_devkit_t12/data/ILSVRC2012_validation_ground_truth.txt": b"n03\nn01\nn02\n",
    }
    for writer, write in WRITERS.items():
        source = write(tmp_path / writer, files)
        dataset = prepare(source, tmp_path / "data", "--shards", "1")
        found = classes_of(dataset, tmp_path / "data", "validation")
        assert found == {"v_0.JPEG": "n03", "v_1.JPEG": "n01", "v_2.JPEG": "n02"}


@pytest.mark.parametrize("writer", WRITERS)
def test_the_development_kit_has_numbers_and_words(writer: str, tmp_path: Path) -> None:
    files = {**UNLABELLED, **unpacked([490, 1000, 1])}
    source = WRITERS[writer](tmp_path / "source", files)
    dataset = prepare(source, tmp_path / "data", "--shards", "1")
    found = classes_of(dataset, tmp_path / "data", "validation")
    assert found == {"v_0.JPEG": "n03", "v_1.JPEG": "n01", "v_2.JPEG": "n02"}
    assert read_dataset(dataset).class_words == WORDS


@pytest.mark.parametrize("tree", ["torchvision", "kaggle"])
def test_the_kit_has_words_for_a_tree_with_other_labels(tree: str, tmp_path: Path) -> None:
    for writer, write in WRITERS.items():
        source = write(tmp_path / writer, {**TREES[tree], **unpacked([1, 1, 1])})
        dataset = prepare(source, tmp_path / "data", "--shards", "1")
        assert read_dataset(dataset).class_words == WORDS
        found = classes_of(dataset, tmp_path / "data", "validation")
        assert sorted(found.values()) == sorted(CLASSES)


@pytest.mark.parametrize("name", ["LOC_synset_mapping.txt", "words.txt"])
def test_other_words_precede_those_of_the_kit(name: str, tmp_path: Path) -> None:
    kit = {f"ILSVRC/{path}": content for path, content in unpacked([490, 1000, 1]).items()}
    # The kit is nearer to the images.
    files = {**UNLABELLED, **kit, name: b"n01 fish\n"}
    (tmp_path / "words.json").write_text('{"n02": "carp"}')
    for writer, write in WRITERS.items():
        source = write(tmp_path / writer, files)
        sealed = read_dataset(prepare(source, tmp_path / "data", "--shards", "1"))
        assert sealed.class_words == {"n01": "fish"}
        given = ("--shards", "1", "--class-words", str(tmp_path / "words.json"))
        sealed = read_dataset(prepare(source, tmp_path / "data", *given))
        assert sealed.class_words == {"n02": "carp"}


def test_only_the_kit_s_meta_mat_is_read(tmp_path: Path) -> None:
    # Without the kit's labels beside it, it may be anything.
    for writer, write in WRITERS.items():
        for content in (b"other", development_kit.meta()):
            source = write(tmp_path / f"{writer}-{len(content)}", {**TORCHVISION, META: content})
            sealed = read_dataset(prepare(source, tmp_path / "data", "--shards", "1"))
            assert not sealed.class_words


def test_a_meta_mat_behind_a_link_out_of_the_source_is_not_read(tmp_path: Path) -> None:
    source = write_folder(tmp_path / "source", {**TORCHVISION, **unpacked([1, 1, 1])})
    file = source / development_kit.FOLDER / META
    file.rename(tmp_path / META)
    file.symlink_to(tmp_path / META)
    assert volume.open_source(source).own_words is None


def test_a_number_that_the_kit_lacks_is_named(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for writer, write in WRITERS.items():
        source = write(tmp_path / writer, {**UNLABELLED, **unpacked([490, 1000, 2])})
        options = ("--source", source, "--data", tmp_path / "data", "--shards", "1")
        assert f"line 3: {META} knows no class 2" in refused(capfd, *options)


def test_numbers_without_meta_mat_say_which_file_to_add(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    kit = unpacked(list(IDS)[:3])
    del kit[f"{development_kit.FOLDER}/{META}"]
    for writer, write in WRITERS.items():
        source = write(tmp_path / writer, {**UNLABELLED, **kit})
        options = ("--source", source, "--data", tmp_path / "data", "--shards", "1")
        assert_says(refused(capfd, *options), "development kit's meta.mat", "beside the file")


def test_splits_behind_a_link_out_of_the_source_are_refused(tmp_path: Path) -> None:
    elsewhere = write_folder(tmp_path / "elsewhere", TORCHVISION)
    for name in ("train", "val"):
        root = write_folder(tmp_path / name, TORCHVISION)
        (root / name).rename(root / f"{name}-before")
        (root / name).symlink_to(elsewhere / name)
        with pytest.raises(InputError, match=rf"{root}/{name}: is a link to .*, out of the source"):
            list(volume.open_source(root).scan(Notes()))


@pytest.mark.parametrize("names", [("bus", "train"), ("val", "bus", "dev"), ("prod", "test")])
@pytest.mark.parametrize("writer", WRITERS)
def test_folders_with_the_names_of_splits_are_classes_without_training_and_another(
    writer: str, names: tuple[str, ...], tmp_path: Path
) -> None:
    files = {f"{name}/{n}.jpg": jpeg(n) for name in names for n in range(2)}
    source = volume.open_source(WRITERS[writer](tmp_path / "source", files))
    assert source.own_validation is None
    assert {image.class_name for image in source.scan(Notes())} == set(names)


@pytest.mark.parametrize("names", [("val", "train", "bus"), ("train", "test")])
@pytest.mark.parametrize("writer", WRITERS)
def test_splits_whose_images_are_in_no_class_folders_are_refused(
    writer: str, names: tuple[str, ...], tmp_path: Path
) -> None:
    files = {f"{name}/{n}.jpg": jpeg(n) for name in names for n in range(2)}
    source = volume.open_source(WRITERS[writer](tmp_path / "source", files))
    with pytest.raises(InputError, match="are splits, not classes; train: its images"):
        list(source.scan(Notes()))


def test_the_label_file_of_a_tree_in_a_tar_in_a_tar_is_read(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "x.tar", {"README": b"", "deep/all.tar": tar(KAGGLE)})
    options = ("--shards", "1", "--path-in-archive", "deep/all.tar")
    sealed = read_dataset(prepare(path, tmp_path / "data", *options))
    assert (sealed.train.images, sealed.validation.images) == (12, 3)
    assert dataset_of(tmp_path / "data", sealed.key).exists()
    source = volume.open_source(path, "deep/all.tar")
    assert source.own_validation
    validation = source.own_validation()
    assert validation is not None
    labels = validation.labels
    assert not isinstance(labels, Path)
    assert labels is not None
    assert str(labels) == f"{path}: deep/all.tar: LOC_val_solution.csv"
    assert isinstance(labels.open(), io.BufferedReader)
