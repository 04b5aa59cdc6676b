"""Checkpoints carry receipts, result.json their chain, and training again gives the same ones."""

import json
import shutil
import subprocess
from pathlib import Path

import mxnet as mx
import pytest

from imagenet_workloads.commands.verify import main
from support.forged_results import chain_of, changed_later_receipt, resealed, without_later_receipts
from support.tiny_dataset import write_dataset
from support.training_cluster import PROGRAM, train

FIRST = "epoch-0001-batch-00000000"
SECOND, LAST = "epoch-0002-batch-00000000", "epoch-0003-batch-00000000"


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job of three epochs, the last of which was trained by a second attempt."""
    folder = tmp_path_factory.mktemp("job")
    write_dataset(folder / "data", train=40, validation=0)
    arguments = ["--dataset", str(folder / "data"), "--output", str(folder / "out")]
    arguments += ["--network", "mlp", "--image-shape", "3,28,28", "--batch-size", "8"]
    arguments += ["--data-nthreads", "1"]
    identity = {"IMAGENET_JOB_UID": "uid", "IMAGENET_SPEC_HASH": "hash"}
    ended = train([*arguments, "--num-epochs", "2"], **identity, IMAGENET_ATTEMPT="0")
    assert ended.returncode == 0, ended.stderr
    ended = train([*arguments, "--num-epochs", "3"], **identity, IMAGENET_ATTEMPT="1")
    assert ended.returncode == 0, ended.stderr
    return folder / "out"


def test_the_result_has_the_chain_over_all_attempts(job: Path) -> None:
    chain = chain_of(job / "attempts/r1/result.json")
    assert [(one["attempt"], one["epoch"]) for one in chain] == [(0, 1), (0, 2), (1, 3)]
    assert {tuple(one["files"]) for one in chain} == {("params", "states")}
    assert len({one["random"] for one in chain}) == 3


def test_the_state_ten_steps_after_a_checkpoint_has_a_receipt(job: Path) -> None:
    # Five of the steps are of the second attempt.
    chain = chain_of(job / "attempts/r1/result.json")
    assert ["later" in one for one in chain] == [True, False, False]
    later = chain[0]["later"]
    assert [later[name] for name in ("steps", "epoch", "batch", "attempt")] == [10, 3, 0, 1]
    assert later["state"].keys() == {"weights", "optimizer", "random"}
    written = json.loads((job / "attempts/r1/receipts.json").read_text())["receipts"]
    assert written[0] == chain[0]


@pytest.mark.parametrize(
    ("options", "begin", "steps"),
    [([], FIRST, 10), (["--steps", "5"], SECOND, 5), (["--next-checkpoint"], SECOND, 5)],
    ids=["ten steps", "five steps", "next checkpoint"],
)
def test_training_again_gives_the_same_receipt(
    job: Path, capsys: pytest.CaptureFixture[str], options: list[str], begin: str, steps: int
) -> None:
    assert main([str(job), *options]) == 0
    said = f"from {begin}, training has the bytes of {LAST} (steps: {steps})"
    assert said in capsys.readouterr().out


def test_the_card_has_both_attempts_and_the_command(job: Path) -> None:
    attempt = job / "attempts/r1"
    card = json.loads((attempt / "model-card.json").read_text())
    training = card["training"]
    assert training["restarts"] == 1
    assert [(one["attempt"], one["epoch"]) for one in training["attempts"]] == [(0, 0), (1, 2)]
    assert 0 < training["lastAttempt"]["goodput"] < 1
    program, *arguments = card["verify"].split()
    command = [str(PROGRAM.with_name(program)), *arguments]
    verified = subprocess.run(command, cwd=attempt, capture_output=True, text=True, check=False)
    assert verified.returncode == 0, verified.stderr
    assert f"training has the bytes of {LAST}" in verified.stdout
    assert not (attempt / "evaluation.json").exists()


def test_a_state_that_does_not_follow_is_found(
    job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    forged = tmp_path / "out"
    shutil.copytree(job, forged)
    params = forged / f"attempts/r0/checkpoints/{FIRST}/params"
    arrays = mx.nd.load(str(params))
    arrays["arg:fc3_bias"][:] += 1e-3
    mx.nd.save(str(params), arrays)
    resealed(params.parent)

    assert main([str(forged)]) == 1
    said = capsys.readouterr().out
    assert "weights: differs" in said
    assert f"training has another state than that of {LAST}" in said


def test_an_altered_receipt_is_found(
    job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    forged = tmp_path / "out"
    shutil.copytree(job, forged)
    changed_later_receipt(forged / "attempts/r1/result.json", "optimizer")
    assert main([str(forged)]) == 1
    said = capsys.readouterr().out
    assert "optimizer: differs" in said
    assert "weights: is the same" in said


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ["--checkpoint", "epoch-0009-batch-00000000"],
            "no receipt of 10 steps later after epoch-",
        ),
        (["--checkpoint", SECOND], f"no receipt of 10 steps later after {SECOND}"),
        (["--checkpoint", LAST, "--next-checkpoint"], f"no next checkpoint after {LAST}"),
        (["--steps", "7"], "no receipt of 7 steps later"),
    ],
)
def test_a_receipt_that_is_not_there_is_refused_with_those_that_are(
    job: Path, capsys: pytest.CaptureFixture[str], options: list[str], said: str
) -> None:
    assert main([str(job), *options]) == 3
    error = capsys.readouterr().err
    assert said in error
    there = f"{FIRST} with steps 5 (--next-checkpoint), 10; {SECOND} with steps 5 (--next-check"
    assert f"there are: {there}" in error


def test_a_result_without_receipts_of_later_steps_is_refused(
    job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    older = tmp_path / "out"
    shutil.copytree(job, older)
    without_later_receipts(older / "attempts/r1/result.json")
    assert main([str(older)]) == 3
    error = capsys.readouterr().err
    assert f"no receipt of 10 steps later; there are: {FIRST} with steps 5 (--next-ch" in error
    shutil.rmtree(older / "attempts/r0/checkpoints")
    assert main([str(older)]) == 3
    assert "there are: none; raise checkpoint.keep" in capsys.readouterr().err
