"""What seal says of a dataset's images: copies, near-duplicates, rare classes, small images."""

import json
import logging
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from imagenet_workloads.commands import pack, seal
from imagenet_workloads.dataset import read_dataset
from imagenet_workloads.findings import Findings
from imagenet_workloads.prepare import checks
from imagenet_workloads.prepare.codecs.perceptual_hash import NO_HASH, perceptual_hashes, thumbnail
from imagenet_workloads.records.image_list import read_image_list
from support.older_datasets import without_image_lists
from support.planted_copies import (
    CLASSES,
    VALIDATION,
    jpeg,
    picture,
    plain_tree,
    planted_tree,
    write,
)
from support.preparation import dataset_of, prepare, run_index, visible
from support.sentences import assert_says


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return planted_tree(tmp_path / "tree")


def findings_of(dataset: Path) -> Findings:
    findings = read_dataset(dataset).findings
    assert findings is not None
    return findings


def test_seal_names_what_is_planted_and_drops_nothing(tree: Path, tmp_path: Path) -> None:
    dataset = prepare(tree, tmp_path / "data", "--shards", "3", "--resize", "64")
    sealed, found = read_dataset(dataset), findings_of(dataset)
    assert sealed.train.images == sum(CLASSES.values()) + 5
    assert sealed.validation.images == sum(VALIDATION.values()) + 2
    assert found.compared == sealed.train.images + sealed.validation.images - 2
    assert found.is_whole
    assert found.in_training is not None
    # An image of another class is named first: one of both labels is wrong.
    assert (found.in_training.images, found.in_training.other_class) == (2, 1)
    assert found.in_training.examples == (
        ("dog/encoded.jpg", "cat/2.jpg"),
        ("cat/copied.jpg", "cat/1.jpg"),
    )
    assert found.near_duplicates is not None
    assert (found.near_duplicates.images, found.near_duplicates.other_class) == (2, 1)
    assert {frozenset(pair) for pair in found.near_duplicates.examples} == {
        frozenset(("cat/resized.jpg", "cat/5.jpg")),
        frozenset(("dog/other.jpg", "cat/6.jpg")),
    }
    assert found.imbalance is not None
    assert (found.imbalance.smallest, found.imbalance.smallest_images) == ("owl", 2)
    assert found.small is not None
    assert found.small.examples == ("dog/small.jpg",)
    assert found.least_edge == 32
    assert found.blank is not None
    assert found.blank.images == 2
    assert found.report == checks.REPORT
    lines = [json.loads(line) for line in (dataset / checks.REPORT).read_text().splitlines()]
    assert {line["image"]["name"] for line in lines[:2]} == {
        "dog/encoded.jpg",
        "cat/copied.jpg",
    }
    assert len(lines) == 4
    copied = next(one for one in lines if one["image"]["name"] == "cat/copied.jpg")
    assert copied == {
        "image": {"name": "cat/copied.jpg", "split": "validation", "class": "cat"},
        "like": {"name": "cat/1.jpg", "split": "train", "class": "cat"},
        "distance": 0,
    }
    assert checks.REPORT in sealed.other_files
    assert len(found.warnings) == 5


def test_without_findings_there_is_no_report(tmp_path: Path) -> None:
    plain_tree(tmp_path / "tree")
    dataset = prepare(tmp_path / "tree", tmp_path / "data", "--min-images-per-class", "3")
    assert findings_of(dataset) == Findings(compared=52, least_edge=60)
    assert checks.REPORT not in visible(dataset)


def test_the_result_is_the_same_for_any_shards_threads_and_sealing_again(
    tree: Path, tmp_path: Path
) -> None:
    one = prepare(tree, tmp_path / "one", "--shards", "1", threads=1)
    many = prepare(tree, tmp_path / "many", "--shards", "7")
    assert findings_of(one).in_training == findings_of(many).in_training
    description = (many / "dataset.json").read_bytes()
    (many / "dataset.json").unlink()
    assert seal.main(["--data", str(tmp_path / "many"), "--key", many.name]) == 0
    assert (many / "dataset.json").read_bytes() == description


def test_the_findings_are_in_the_termination_message_and_in_that_of_a_reused_dataset(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, log = tmp_path / "data", tmp_path / "log"
    key = run_index(tree, data)["key"]
    common = ["--data", str(data), "--key", key]
    assert pack.main([*common, "--source", str(tree)]) == 0
    monkeypatch.setenv("IMAGENET_TERMINATION_LOG", str(log))
    assert seal.main(common) == 0
    said = json.loads(log.read_text())["findings"]
    assert_says(said[0], "2 validation images", "like a training image", "accuracy is too high")
    assert_says(said[0], "dog/encoded.jpg like cat/2.jpg, …", "1 of another class", "labels")
    assert said == list(findings_of(dataset_of(data, key)).warnings)
    assert run_index(tree, data)["findings"] == said


def test_names_of_any_length_and_script_fit_into_a_termination_message() -> None:
    from imagenet_workloads.findings import Copies, FewImages, Imbalance

    name = "猫" * 300
    copies = Copies(10**9, 10**9, ((name, name),) * 5)
    few = FewImages(10**9, (name,) * 5)
    found = Findings(
        10**9,
        is_whole=False,
        in_training=copies,
        near_duplicates=copies,
        imbalance=Imbalance(name, 10**9, name, 1),
        least_edge=10**4,
        small=few,
        blank=few,
        report="duplicates.jsonl",
    )
    assert len(json.dumps(found.warnings)) < 3600
    assert all(len(warning) <= 300 for warning in found.warnings)


def test_shards_of_an_older_version_are_sealed_without_a_check(
    tree: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    dataset = prepare(tree, tmp_path / "data", "--shards", "2")
    without_image_lists(dataset)
    (dataset / "dataset.json").unlink()
    with caplog.at_level(logging.INFO):
        assert seal.main(["--data", str(tmp_path / "data"), "--key", dataset.name]) == 0
    assert_says(caplog.text, "not compared", "older version", "some of the shards")
    assert "checks" not in json.loads((dataset / "dataset.json").read_text())
    assert read_dataset(dataset).findings is None


def test_synthetic_images_are_not_compared(tmp_path: Path) -> None:
    options = ("--synthetic-classes", "2", "--synthetic-images-per-class", "8")
    dataset = prepare(None, tmp_path, *options, "--synthetic-image-shape", "3,64,64")
    found = findings_of(dataset)
    assert (found.compared, found.warnings) == (0, ())


@pytest.mark.parametrize("resize", ["64", "200"])
@pytest.mark.parametrize("codec", ["opencv"])
def test_hashes_differ_between_pictures_and_not_between_copies(
    resize: str, codec: str, tmp_path: Path
) -> None:
    for seed in range(12):
        pixels = picture(seed, 240, 320)
        copies = {
            "whole": jpeg(pixels),
            "encoded": jpeg(pixels, 40),
            "small": jpeg(cv2.resize(pixels, (128, 96), interpolation=cv2.INTER_AREA)),
            "png": cv2.imencode(".png", pixels)[1].tobytes(),
        }
        for kind, content in copies.items():
            write(tmp_path / "raw", f"{seed:02}/{kind}.jpg", content)
    options = ("--shards", "1", "--resize", resize, "--codec", codec)
    dataset = prepare(tmp_path / "raw", tmp_path / "data", *options)
    listed = read_image_list(dataset / "train-00000-of-00001.rec") or []
    for one in listed:
        for other in listed:
            bits = (int(one.hash, 16) ^ int(other.hash, 16)).bit_count()
            assert (bits <= 4) == (one.label == other.label), (one.name, other.name, bits)


@pytest.mark.parametrize(
    "pixels",
    [
        np.full((50, 60, 3), 130, np.uint8),
        np.tile(np.linspace(0, 255, 64).astype(np.uint8)[:, None, None], (1, 64, 3)),
        np.zeros((1, 1, 3), np.uint8),
    ],
    ids=["one colour", "a gradient", "a pixel"],
)
def test_what_shows_nothing_has_no_hash(pixels: np.ndarray) -> None:
    assert perceptual_hashes([thumbnail(pixels)]) == [NO_HASH]


def rows(*images: tuple[int, int, int, bool]) -> Any:
    return checks.as_rows(images)


def test_one_of_a_thousand_equal_images_is_the_original_of_all() -> None:
    equal = [(7, 100, n % 2, False) for n in range(1000)] + [(7, 100, 0, True)] * 10
    checked = checks.check(rows(*equal), lambda ns: [str(n) for n in ns], ("a", "b"), {})
    found = checked.findings
    assert found.near_duplicates is not None
    assert found.near_duplicates.images == 999 + 9
    assert found.in_training is not None
    assert found.in_training.images == 10
    assert len(checked.pairs) == 1018


def test_names_in_a_finding_are_printable() -> None:
    equal = rows((7, 100, 0, False), (7, 100, 0, False))
    found = checks.check(equal, lambda ns: [f"a\x1b[2J\n{n}" for n in ns], ("a",), {}).findings
    assert found.near_duplicates is not None
    assert all(text.isprintable() for text in found.warnings)
    assert "a\\x1b[2J\\n1" in "".join(found.warnings)


@pytest.mark.parametrize(("edge", "images"), [(31, 0), (32, 1)])
def test_of_tiny_images_only_equal_hashes_count(edge: int, images: int) -> None:
    near = rows((0xF0F0, edge, 0, False), (0xF0F1, edge, 0, False))
    found = checks.check(near, lambda ns: [str(n) for n in ns], ("a",), {}).findings
    assert (found.near_duplicates.images if found.near_duplicates else 0) == images


@pytest.mark.parametrize(("smallest", "is_found"), [(100, True), (101, False)])
def test_ten_times_as_many_images_are_an_imbalance(smallest: int, is_found: bool) -> None:
    found = checks.check(rows(), lambda ns: [], (), {"a": 1000, "b": smallest}).findings
    assert (found.imbalance is not None) == is_found
