"""The trainings of benchmarks/fidelity_gpu.py, their comparison, and CIFAR-10's own form."""

import json
import pickle
import tarfile
from argparse import Namespace
from pathlib import Path

import cv2
import numpy as np
import pytest
from benchmarks.cifar_images import Picture, read_pictures, rows, write_archive, write_some
from benchmarks.fidelity_gpu import ARCHIVE, KILLED, OURS, PLAIN, Comparison, Trained

from benchmarks import fidelity_gpu
from imagenet_spec.validate import parse, validate
from imagenet_workloads.dataset import read_dataset
from support.pictures import pixels
from support.preparation import prepare, records

# Of each class, the training and the test images.
TRAIN, TEST = 3, 2
CLASSES = ("bird", "frog")


def picture(seed: int, suffix: str) -> bytes:
    bgr = pixels(seed, 32, 32)[..., ::-1]
    return bytes(cv2.imencode(suffix, bgr, [cv2.IMWRITE_JPEG_QUALITY, 90])[1])


def write_folder(folder: Path, suffix: str = ".jpg") -> Path:
    seed = 0
    for split, count in (("train", TRAIN), ("test", TEST)):
        for label in CLASSES:
            place = folder / split / label
            place.mkdir(parents=True)
            for number in range(count):
                (place / f"{number:04}{suffix}").write_bytes(picture(seed, suffix))
                seed += 1
    return folder


def trained(*top1: float, sha256: str | None = None) -> Trained:
    seconds = tuple(10.0 * (epoch + 1) for epoch in range(len(top1)))
    return Trained(top1, seconds, sha256, "a device", 60.0)


@pytest.mark.parametrize("gpus", [0, 1])
def test_the_recipe_is_the_example_and_would_run(gpus: int) -> None:
    chosen = Namespace(epochs=None, batch=None)
    training = parse(fidelity_gpu.recipe(chosen, gpus)).spec.training
    assert validate(fidelity_gpu.recipe(chosen, gpus)) == []
    assert (training.model.network, training.epochs, training.batch_size) == ("resnet-9", 24, 512)
    assert training.deterministic is True
    assert training.workers.gpus == gpus
    assert training.precision == ("bfloat16" if gpus else None)


def test_the_killed_training_is_compared_first_and_the_archive_last() -> None:
    order = fidelity_gpu.wanted(5)
    assert order[:3] == [(OURS, 0), (KILLED, 0), (PLAIN, 0)]
    assert order[-2:] == [(ARCHIVE, 0), (ARCHIVE, 1)]
    assert sorted(seed for series, seed in order if series == PLAIN) == [0, 1, 2, 3, 4]
    assert len(set(order)) == len(order) == 13


def test_the_report_has_both_figures_and_the_time_to_the_accuracy() -> None:
    found = {
        (PLAIN, 0): trained(0.92, 0.940),
        (PLAIN, 1): trained(0.93, 0.944),
        (OURS, 0): trained(0.94, 0.936, sha256="a" * 64),
        (OURS, 1): trained(0.92, 0.938, sha256="b" * 64),
        (KILLED, 0): trained(0.94, 0.936, sha256="a" * 64),
    }
    text = fidelity_gpu.report(found, "A GPU")
    assert "| plain loop | 2 | 0.9420 | 0.9420 | 0.0020 |  |  | 15.0 (2 of 2) |" in text
    assert "| imagenetctl run | 2 | 0.9370 | 0.9370 | 0.0010 | -0.0050 | 0.0045 | 15.0 (2" in text
    assert f"| {ARCHIVE} | not run |" in text
    assert list(fidelity_gpu.aims(found).values()) == [
        "reached: 0.9370",
        "**missed**: 0.9370 and 0.9420, 2 standard errors 0.0045",
        "reached: aaaaaaaaaaaa and aaaaaaaaaaaa",
        "not run",
    ]


def test_other_bytes_after_a_kill_are_a_failure() -> None:
    found = {
        (OURS, 0): trained(0.94, sha256="a" * 64),
        (KILLED, 0): trained(0.94, sha256="b" * 64),
    }
    assert fidelity_gpu.aims(found)["killed and resumed: the same bytes"].startswith("**missed**")


@pytest.mark.parametrize("images", [True, False])
def test_nothing_runs_without_a_gpu_unless_it_is_small(
    images: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    named = [str(write_folder(tmp_path / "images"))] if images else []
    work = tmp_path / "work"
    assert fidelity_gpu.main([*named, "--gpus", "0", "--workdir", str(work)]) == 0
    said = capsys.readouterr().out
    assert said.count("| not run |") == 8
    assert ("no GPU is there" in said) is images
    assert not work.exists()


def test_a_training_that_is_done_is_not_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[tuple[str, int]] = []

    def train(comparison: Comparison, series: str, seed: int) -> None:
        ran.append((series, seed))
        line = {"series": series, "seed": seed, "top1": [0.5], "seconds": [1.0]}
        with comparison.results.open("a") as file:
            file.write(json.dumps({**line, "sha256": None, "device": "CPU", "wall": 1.0}) + "\n")

    monkeypatch.setattr(Comparison, "train", train)
    images = str(write_folder(tmp_path / "images"))
    line = [images, "--gpus", "0", "--images-per-class", "1", "--workdir", str(tmp_path / "work")]
    fidelity_gpu.main([*line, "--seeds", "1"])
    fidelity_gpu.main([*line, "--seeds", "2"])
    assert ran == [*fidelity_gpu.wanted(1), (OURS, 1), (PLAIN, 1), (ARCHIVE, 1)]
    assert "CPU, 1 images of each class and split, 7 trainings:" in capsys.readouterr().out


def test_no_training_begins_when_the_time_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Comparison, "train", lambda *_: pytest.fail("it began"))
    line = [str(write_folder(tmp_path / "images")), "--gpus", "0", "--images-per-class", "1"]
    assert fidelity_gpu.main([*line, "--seconds", "-1", "--workdir", str(tmp_path / "work")]) == 0


def test_some_images_are_the_first_ones_of_each_class_from_a_folder_or_a_tar(
    tmp_path: Path,
) -> None:
    folder = write_folder(tmp_path / "images")
    archive = tmp_path / "images.tar.xz"
    with tarfile.open(archive, "w:xz") as file:
        for split in ("train", "test"):
            file.add(folder / split, split)
    write_some(folder, tmp_path / "some", 2)
    write_some(archive, tmp_path / "of tar", 5)
    assert [one[:3] for one in read_pictures(tmp_path / "some")] == [
        (split, label, f"{number:04}.jpg")
        for split in ("test", "train")
        for label in CLASSES
        for number in range(2)
    ]
    assert list(read_pictures(tmp_path / "of tar")) == list(read_pictures(folder))


def test_an_archive_in_cifar_10_s_form_has_the_pixels_and_labels(tmp_path: Path) -> None:
    pictures = list(read_pictures(write_folder(tmp_path / "images")))
    write_archive(pictures, tmp_path / "cifar.tar.gz")
    found: list[tuple[str, str, bytes]] = []
    with tarfile.open(tmp_path / "cifar.tar.gz") as archive:
        (meta,) = (one for one in archive.getmembers() if one.name.endswith("batches.meta"))
        names = pickle.loads(archive.extractfile(meta).read())["label_names"]  # type: ignore[union-attr]
        for member in archive.getmembers():
            if "_batch" in member.name and member.name != meta.name:
                batch = pickle.loads(archive.extractfile(member).read())  # type: ignore[union-attr]
                assert batch["data"].shape == (len(batch["labels"]), 3072)
                split = "test" if member.name.endswith("test_batch") else "train"
                found += [
                    (split, names[label], row.tobytes())
                    for label, row in zip(batch["labels"], batch["data"], strict=True)
                ]
    expected = [(one.split, one.label, rows(one.encoded).tobytes()) for one in pictures]
    assert sorted(found) == sorted(expected)


def test_preparation_makes_the_same_records_of_the_archive_and_of_its_pixels(
    tmp_path: Path,
) -> None:
    """The pixels as a folder of PNGs, which lose nothing."""
    jpegs = list(read_pictures(write_folder(tmp_path / "images")))
    write_archive(jpegs, tmp_path / "cifar.tar.gz")
    for one in jpegs:
        path = tmp_path / "pngs" / one.split / one.label / f"{one.name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        bgr = rows(one.encoded).reshape(3, 32, 32).transpose(1, 2, 0)[..., ::-1]
        path.write_bytes(bytes(cv2.imencode(".png", np.ascontiguousarray(bgr))[1]))
    options = ("--shards", "1", "--quality", "100", "--default-validation-per-class", "1")
    folders = [
        prepare(tmp_path / source, tmp_path / f"data of {source}", *options)
        for source in ("cifar.tar.gz", "pngs")
    ]
    of_archive, of_pixels = (
        sorted((one.split, one.label, one.jpeg) for one in records(folder)) for folder in folders
    )
    assert of_archive == of_pixels
    assert len(of_archive) == len(CLASSES) * (TRAIN + TEST)
    first, second = map(read_dataset, folders)
    assert (first.classes, first.mean, first.std) == (second.classes, second.mean, second.std)


def test_a_picture_of_a_folder_is_what_it_was(tmp_path: Path) -> None:
    (first, *_) = read_pictures(write_folder(tmp_path / "images", ".png"))
    assert first[:3] == Picture("test", "bird", "0000.png", b"")[:3]
    expected = pixels(len(CLASSES) * TRAIN, 32, 32).transpose(2, 0, 1).reshape(-1)
    assert np.array_equal(rows(first.encoded), expected)
