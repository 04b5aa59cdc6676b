"""`imagenetctl dataset` hands its arguments and the Secret to imagenet-dataset."""

import json
import subprocess
from pathlib import Path

from support.programs import SCRIPTS
from support.remote_preparation import write_secret
from support.sentences import assert_says
from support.tiny_dataset import write_dataset


def call(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [SCRIPTS / "imagenetctl", "dataset", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)


def test_a_volume_is_listed(tmp_path: Path) -> None:
    folder = write_dataset(tmp_path / "datasets" / "k", train=20, validation=0).folder
    assert call("list", tmp_path).stdout.splitlines()[1].endswith(f" {folder}")


def test_a_folder_of_a_volume_is_shown_and_verified(tmp_path: Path) -> None:
    folder = write_dataset(tmp_path / "datasets" / "k", train=20, validation=4).folder
    shown = json.loads(call("show", folder).stdout)
    assert (shown["images"], shown["shards"]) == ({"train": 20, "validation": 4}, 4)
    assert call("verify", folder).returncode == 0

    shard = next(folder.glob("train-*.rec"))
    content = bytearray(shard.read_bytes())
    content[-9] ^= 1
    shard.write_bytes(content)
    found = call("verify", folder)
    assert found.returncode != 0
    assert shard.name in found.stderr


def test_the_secret_reaches_the_program(tmp_path: Path) -> None:
    secret = write_secret(tmp_path / "keys", AWS_ACCESS_KEY_ID="x")
    found = call("show", "s3://datasets/imagenet", "--secret", secret)
    assert found.returncode != 0
    assert_says(found.stderr, "Secret lacks", "AWS_SECRET_ACCESS_KEY")


def test_a_value_that_begins_with_a_dash_is_judged_by_the_program(tmp_path: Path) -> None:
    secret = write_secret(tmp_path / "keys", AWS_ACCESS_KEY_ID="x", AWS_SECRET_ACCESS_KEY="y")
    found = call("show", "s3://datasets/imagenet", "--endpoint=-x", "--secret", secret)
    assert_says(found.stderr, "imagenet-dataset: error: endpoint: ", "https://HOST", "'-x'")
