"""`imagenetctl check`: planted copies, near-duplicates and rare classes, before and after a job."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from support.image_trees import write_tar
from support.older_datasets import without_image_lists
from support.pictures import jpeg
from support.planted_copies import plain_tree, planted_tree
from support.preparation import prepare
from support.programs import SCRIPTS, VARIABLES
from support.published import BUCKET, publish_to
from support.remote_preparation import write_secret
from support.s3_server import ACCESS_KEY, SECRET_KEY, serve_s3
from support.sentences import assert_says

KINDS = {"inTraining", "nearDuplicates", "imbalance", "small", "blank"}


def check(*arguments: str | Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    command = [SCRIPTS / "imagenetctl", "check", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=VARIABLES)
    assert done.returncode == code, done.stderr
    return done


def found_in(*arguments: str | Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(check(*arguments, "--output", "json").stdout)
    return document


def pairs_of(document: dict[str, Any]) -> set[tuple[str, str]]:
    return {(one["image"]["name"], one["like"]["name"]) for one in document["duplicates"]}


def test_raw_images_and_their_dataset_have_the_same_findings(tmp_path: Path) -> None:
    tree = planted_tree(tmp_path / "tree")
    raw = found_in(tree)
    assert raw["images"] == {"train": 53, "validation": 8}
    assert raw["findings"].keys() >= KINDS
    leak = raw["findings"]["inTraining"]
    assert (leak["images"], leak["otherClass"]) == (2, 1)
    assert {"image": "cat/copied.jpg", "like": "cat/1.jpg"} in leak["examples"]
    dataset = prepare(tree, tmp_path / "data")
    sealed = found_in(dataset)
    # A dataset is shuffled, so its examples have another order.
    for kind in KINDS - {"imbalance"}:
        assert sealed["findings"][kind]["images"] == raw["findings"][kind]["images"], kind
    assert sealed["findings"]["imbalance"] == raw["findings"]["imbalance"]
    assert {frozenset(pair) for pair in pairs_of(sealed)} == {
        frozenset(pair) for pair in pairs_of(raw)
    }


def test_the_text_names_what_was_found_and_the_exit_code_is_0(tmp_path: Path) -> None:
    said = check(planted_tree(tmp_path / "tree")).stdout.splitlines()
    assert_says(said[0], "53 training", "8 validation images", "3 classes", "59 compared")
    facts = ("2 validation images", "like a training image", "accuracy is too high: ")
    assert_says(said[1], "warning: ", *facts, "dog/encoded.jpg like cat/2.jpg, …; 1 of another")
    (unbalanced,) = (line for line in said if "unbalanced" in line)
    assert_says(unbalanced, "warning: ", "owl has 2 training images", "dog has 26")
    (copied,) = (line for line in said if "cat/copied.jpg" in line)
    assert_says(copied, "training and validation: ", "cat/1.jpg")
    assert_says(said[-1], "--output json", "4 pairs")


def test_damaged_images_of_an_archive_are_named(tmp_path: Path) -> None:
    files = {f"{name}/{n}.jpg": jpeg(n) for name, n in (("a", 1), ("a", 2), ("b", 3), ("b", 4))}
    archive = write_tar(tmp_path / "images.tar", {**files, "a/cut.jpg": jpeg(9)[:300]})
    assert "1 image is damaged: a/cut.jpg: " in check(archive).stdout


def test_nothing_doubtful_is_said(tmp_path: Path) -> None:
    plain_tree(tmp_path / "tree")
    for name in ("0", "1"):
        (tmp_path / f"tree/train/owl/{name}.jpg").unlink()
    (tmp_path / "tree/train/owl").rmdir()
    assert check(tmp_path / "tree").stdout.endswith("\nnothing doubtful was found\n")


def test_an_older_dataset_is_decoded_and_names_its_records(tmp_path: Path) -> None:
    dataset = prepare(planted_tree(tmp_path / "tree"), tmp_path / "data")
    without_image_lists(dataset)
    found = found_in(dataset)
    assert found["findings"]["inTraining"]["images"] == 2
    names = {one["image"]["name"] for one in found["duplicates"]}
    assert all(name.split("/")[0] in ("train", "validation") for name in names)
    assert all(name.endswith(".jpeg") for name in names)


def test_of_a_working_directory_the_newest_dataset_is_checked(tmp_path: Path) -> None:
    plain_tree(tmp_path / "plain")
    volume = tmp_path / "work/volumes/images"
    newer = prepare(planted_tree(tmp_path / "tree"), volume)
    older = prepare(tmp_path / "plain", volume)
    os.utime(older / "dataset.json", (1, 1))
    assert found_in(tmp_path / "work")["data"] == str(newer)
    assert found_in(volume)["data"] == str(newer)


def test_a_published_dataset_is_checked_where_it_is(tmp_path: Path) -> None:
    dataset = prepare(planted_tree(tmp_path / "tree"), tmp_path / "data")
    keys = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}
    secret = write_secret(tmp_path / "keys", **keys)
    (tmp_path / "s3").mkdir()
    with serve_s3(tmp_path / "s3") as server:
        address = publish_to(server, dataset, "checked")
        options = ["--endpoint", server.endpoint, "--secret", str(secret)]
        command = [str(SCRIPTS / "imagenetctl"), "dataset", "check", address, *options]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert address == f"s3://{BUCKET}/checked"
    assert done.returncode == 0, done.stderr
    published = json.loads(done.stdout)
    assert published["duplicates"] == found_in(dataset)["duplicates"]
    assert published["findings"]["inTraining"]["images"] == 2


@pytest.mark.parametrize(
    ("source", "said"), [("missing", "no such folder"), ("ftp://a/b", "is no address")]
)
def test_what_cannot_be_read_is_an_error(source: str, said: str, tmp_path: Path) -> None:
    where = source if "://" in source else tmp_path / source
    assert said in check(where, code=2).stderr
