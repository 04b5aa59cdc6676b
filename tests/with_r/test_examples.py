"""R trains with several workers, goes on after one was killed, and leaves a model."""

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from support.digit_datasets import prepare_digits
from support.processes import wait_until
from support.sentences import assert_says
from with_r.conftest import EXAMPLES, MXNET, TENSORFLOW, Job

Example = Callable[[str, Path], Job]

SHAPES = """
import os, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tf
model = tf.keras.models.load_model(sys.argv[1])
print(model.input_shape, model.output_shape, int(model.optimizer.iterations))
"""
ARRAYS = """
import sys
import mxnet as mx
symbol, weights, _ = mx.model.load_checkpoint(sys.argv[1], 5)
print(symbol.list_outputs(), weights["fullyconnected1_weight"].shape)
"""


def said(python: Path, code: str, argument: Path) -> str:
    command = [str(python), "-c", code, str(argument)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_alexnet_goes_on_after_the_loss_of_a_worker(example: Example) -> None:
    job = example("alexnet-digits", TENSORFLOW)

    with job.running() as process:
        job.wait_for("attempts/r0/epoch-0002.keras")
        os.kill(job.program("r0-worker-1"), signal.SIGKILL)
        result = job.succeeded(process)

    assert (result["restarts"], result["attempt"]) == (1, 1)
    # All members are replaced together, and both workers have the same epochs.
    for index in range(2):
        text = job.log(f"r1-worker-{index}")
        assert "goes on from" in text and "/attempts/r0/epoch-" in text
        assert "Epoch 8/8" in text and "Epoch 1/8" not in text
    folder = job.results / "attempts" / "r1"
    assert len((folder / "classes.txt").read_text().splitlines()) == 9
    assert sorted(path.name for path in folder.glob("epoch-*")) == [
        "epoch-0007.keras",
        "epoch-0008.keras",
    ]
    # 22 steps of 64 of the 1,437 images, 8 times: the optimizer went on, too.
    loaded = said(TENSORFLOW, SHAPES, folder / "model.keras")
    assert loaded == f"(None, 64, 64, 3) (None, 9) {22 * 8}"
    assert job.accuracy() > 0.8


def test_lenet_trains_with_mxnets_servers(example: Example) -> None:
    job = example("lenet-digits", MXNET)

    with job.running() as process:
        result = job.succeeded(process)

    assert result["restarts"] == 0
    for index in range(2):
        assert f"worker {index} of 2: validation accuracy 0.9" in job.log(f"r0-worker-{index}")
    folder = job.results / "attempts" / "r0"
    assert said(MXNET, ARRAYS, folder / "lenet") == "['softmax_output'] (9, 500)"


@pytest.mark.parametrize("script", ["alexnet.R", "lenet.R"])
def test_an_option_that_is_unknown_is_named(script: str, tmp_path: Path) -> None:
    ended = subprocess.run(
        [EXAMPLES / script, "--epoch=1"],
        env={**os.environ, "RETICULATE_PYTHON": str(MXNET), "IMAGENET_DATASET": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1
    assert_says(ended.stderr, "--epoch=1 is not", "write --batch-size=NUMBER --epochs=NUMBER")


@pytest.mark.parametrize(
    ("script", "python", "record_format", "first"),
    [
        ("alexnet.R", TENSORFLOW, "TFRecord", "epoch-0001.keras"),
        ("lenet.R", MXNET, "RecordIO", "lenet-0001.params"),
    ],
)
def test_a_script_ends_on_sigterm_while_it_trains(
    script: str, python: Path, record_format: str, first: str, tmp_path: Path
) -> None:
    """As process 1 of a container does: only a handler ends it."""
    small = ["--image-size=28", "--filters=6", "--units=16"] if script == "alexnet.R" else []
    variables = {
        "RETICULATE_PYTHON": str(python),
        "IMAGENET_DATASET": str(prepare_digits(tmp_path, record_format)),
        "IMAGENET_RESULTS": str(tmp_path),
        "IMAGENET_ATTEMPT": "0",
    }
    # Ignored as for process 1, and inherited.
    ignored = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        command = [str(EXAMPLES / script), "--epochs=1000", *small]
        process = subprocess.Popen(command, env={**os.environ, **variables})
    finally:
        signal.signal(signal.SIGTERM, ignored)
    try:
        wait_until((tmp_path / "attempts" / "r0" / first).exists, f"{script} has ended an epoch")
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 128 + signal.SIGTERM
    finally:
        process.kill()
        process.wait()
