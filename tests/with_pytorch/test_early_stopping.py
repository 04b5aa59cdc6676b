"""One process stops early, is killed and goes on: the same epoch, the same model."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from imagenet_spec.events import Started, read_events
from support.digit_datasets import prepare_digits
from support.processes import wait_until
from support.stopped_early import arguments, assert_stopped, cut, model
from support.training_cluster import PROGRAM, plain_environment, train

IDENTITY = {"IMAGENET_JOB_UID": "uid", "IMAGENET_SPEC_HASH": "hash"}


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepare_digits(tmp_path_factory.mktemp("digits"), "RecordIO")


def given(digits: Path, output: Path, *more: str) -> list[str]:
    own = ["--framework", "PyTorch", "--batch-size", "64"]
    return [*own, *arguments(digits, output), *more]


@pytest.mark.parametrize("more", [(), ("--ema-decay", "0.5")], ids=["weights", "average"])
def test_killed_between_checkpoint_and_validation(
    digits: Path, tmp_path: Path, more: tuple[str, ...]
) -> None:
    whole = tmp_path / "whole"
    ended = train(given(digits, whole, *more), **IDENTITY, IMAGENET_ATTEMPT="0")
    assert ended.returncode == 0, ended.stderr
    assert_stopped(whole)
    for epoch, validated in ((2, (2, 3)), (3, (3,))):
        output = tmp_path / f"after-{epoch}"
        cut(whole, output, epoch)
        ended = train(given(digits, output, *more), **IDENTITY, IMAGENET_ATTEMPT="1")
        assert ended.returncode == 0, ended.stderr
        assert_stopped(output, 1, validated)
        assert model(output, 1) == model(whole)


def test_killed_within_an_epoch(digits: Path, tmp_path: Path) -> None:
    command = [str(PROGRAM), *given(digits, tmp_path, "--batch-size", "4", "--disp-batches", "1")]
    log = tmp_path / "attempts/r0/train.log"
    environment = plain_environment(**IDENTITY, IMAGENET_ATTEMPT="0")
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as killed:
        children = Path(f"/proc/{killed.pid}/task/{killed.pid}/children")
        first, reached = "checkpoint epoch-0001-batch-00000000 written", "epoch 2 batch 9:"
        wait_until(
            lambda: log.exists() and first in (text := log.read_text()) and reached in text, reached
        )
        os.kill(int(children.read_text().split()[0]), signal.SIGKILL)
    assert killed.returncode != 0
    ended = train(given(digits, tmp_path, "--batch-size", "4"), **IDENTITY, IMAGENET_ATTEMPT="1")
    assert ended.returncode == 0, ended.stderr
    events = [event for _, event in read_events(tmp_path / "attempts/r1/metrics.jsonl")]
    (started,) = (event for event in events if isinstance(event, Started))
    assert started.epoch >= 1
    # The epoch at whose end it goes on is validated again.
    assert_stopped(tmp_path, 1, validated=range(started.epoch, 4))
