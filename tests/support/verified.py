"""Trains, verifies the result, then plants a wrong weight and an altered receipt."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from imagenet_workloads.commands.verify import main
from support.forged_results import chain_of, changed_later_receipt, resealed
from support.training_cluster import train

FIRST = "epoch-0001-batch-00000000"
ALWAYS = ("--image-shape", "3,28,28", "--data-nthreads", "1", "--random-crop", "1")


def check_verify(
    arguments: Sequence[str],
    output: Path,
    batches: int,
    change: Callable[[Path], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Assert that two epochs verify from the first checkpoint, until they are changed.

    Args:
        arguments: of `imagenet-train`, for digits.
        output: a folder to make.
        batches: of an epoch, at least 10.
        change: one weight in a checkpoint's folder.
        capsys: of the test.
    """
    more = ["--output", str(output), "--num-epochs", "2", *ALWAYS, "--pad-size", "2"]
    ended = train([*arguments, *more])
    assert ended.returncode == 0, ended.stderr
    result = output / "attempts/r0/result.json"
    later = chain_of(result)[0]["later"]
    assert (later["steps"], later["epoch"] * batches + later["batch"]) == (10, batches + 10)

    assert main([str(output)]) == 0
    assert f"from {FIRST}, training has the bytes of epoch-0001-" in capsys.readouterr().out

    honest = result.read_text()
    changed_later_receipt(result, "optimizer")
    assert main([str(output)]) == 1
    said = capsys.readouterr().out
    assert "optimizer: differs" in said
    assert "weights: is the same" in said

    result.write_text(honest)
    checkpoint = output / "attempts/r0/checkpoints" / FIRST
    change(checkpoint)
    resealed(checkpoint)
    assert main([str(output)]) == 1
    assert "weights: differs" in capsys.readouterr().out
