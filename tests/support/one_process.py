"""What imagenet-train in one process does, whatever its framework is."""

import json
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from support.processes import wait_until
from support.training_cluster import PROGRAM, plain_environment, result, train


def assert_sigterm_saves(options: Sequence[str], output: Path) -> Path:
    """Assert that a training without an end saves at SIGTERM, in its first epoch.

    Args:
        options: of imagenet-train: dataset, network and output.
        output: the folder of `--output`.

    Returns:
        The checkpoint.
    """
    endless = ("--num-epochs", "100000", "--checkpoint-every-epochs", "0", "--disp-batches", "1")
    command = [str(PROGRAM), *options, *endless]
    with (output / "output.txt").open("wb") as written:
        process = subprocess.Popen(command, env=plain_environment(), stderr=written)
    try:
        log = output / "attempts/r0/train.log"
        wait_until(lambda: log.exists() and "epoch 1 batch 3" in log.read_text(), "it trains")
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 128 + signal.SIGTERM
    finally:
        process.kill()
        process.wait()
    assert not (output / "attempts/r0/result.json").exists()
    (checkpoint,) = (output / "attempts/r0/checkpoints").iterdir()
    return checkpoint


def assert_only_reads(options: Sequence[str], output: Path, images: int) -> None:
    """Assert that `--test-io` reads these images, says how fast, and trains nothing."""
    log = output / "termination-log"
    more = ("--test-io", "1", "--disp-batches", "10")
    ended = train([*options, *more], IMAGENET_TERMINATION_LOG=str(log))
    assert ended.returncode == 0, ended.stderr
    assert "batch 10: " in ended.stderr
    assert f"read {images} images: " in ended.stderr
    assert not (output / "attempts/r0/checkpoints").exists()
    found = result(output)
    reading = found["reading"]
    assert (reading["images"], reading["workers"], found["model"]) == (images, 1, {})
    assert not any((output / "attempts/r0").glob("*evaluation*"))
    message = json.loads(log.read_text())
    assert message["event"] == "read"
    assert message["imagesPerSecond"] == reading["imagesPerSecond"] > 0
