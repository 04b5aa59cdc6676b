"""Checkpoints carry receipts, result.json their chain, and training again gives the same ones."""

import json
import shutil
from pathlib import Path

import mxnet as mx
import pytest

from imagenet_workloads.checkpoint.manifest import FILE_NAME, CheckpointManifest, FileSum
from imagenet_workloads.commands.verify import main
from support.tiny_dataset import write_dataset
from support.training_cluster import train

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
    chain = json.loads((job / "attempts/r1/result.json").read_text())["checkpoints"]
    assert [(one["attempt"], one["epoch"]) for one in chain] == [(0, 1), (0, 2), (1, 3)]
    assert {tuple(one["files"]) for one in chain} == {("params", "states")}
    assert len({one["random"] for one in chain}) == 3


def test_training_again_gives_the_same_receipt(
    job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(job)]) == 0
    assert f"from {SECOND}, training has the bytes of {LAST}" in capsys.readouterr().out


def test_a_state_that_does_not_follow_is_found(
    job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    forged = tmp_path / "out"
    shutil.copytree(job, forged)
    folder = forged / f"attempts/r0/checkpoints/{SECOND}"
    arrays = mx.nd.load(str(folder / "params"))
    arrays["arg:fc3_bias"][:] += 1e-3
    mx.nd.save(str(folder / "params"), arrays)
    old = CheckpointManifest.read(folder)
    files = {**old.files, "params": FileSum.of(folder / "params")}
    made = CheckpointManifest(old.identity, old.attempt, old.position, files)
    (folder / FILE_NAME).write_text(made.to_json())

    assert main([str(forged), "--checkpoint", SECOND]) == 1
    assert "params: differs" in capsys.readouterr().out


def test_a_checkpoint_that_is_not_there_is_refused(
    job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(job), "--checkpoint", "epoch-0009-batch-00000000"]) == 3
    assert f"there are: epoch-0001-batch-00000000, {SECOND}" in capsys.readouterr().err


def test_a_training_of_several_workers_is_refused_with_what_to_do(
    job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    several = tmp_path / "out"
    shutil.copytree(job, several)
    receipts = several / f"attempts/r1/checkpoints/{LAST}/receipts.json"
    receipts.write_text(json.dumps({**json.loads(receipts.read_text()), "workers": 2}))

    assert main([str(several), "--checkpoint", SECOND]) == 3
    said = capsys.readouterr().err
    assert "2 workers trained" in said
    assert "verify a result of one worker, or compare the receipts of two runs" in said
