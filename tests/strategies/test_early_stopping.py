"""Workers of every strategy stop at the end of one epoch, and export the best model.

make test-strategies
"""

import json
from functools import partial
from pathlib import Path

import pytest

from imagenet_workloads.train.ledger import check, find_runs
from support.members import Members
from support.sentences import assert_says
from support.stopped_early import EPOCHS, arguments, assert_stopped, cut, model
from support.strategy_processes import (
    STRATEGIES,
    Environment,
    Launch,
    assert_succeeds,
    of_parameter_server,
)
from support.tiny_dataset import write_dataset
from support.whole_jobs import WholeJob, digits, make_digits

pytestmark = [pytest.mark.timeout(900), pytest.mark.costly]

IMAGES, VALIDATION = 96, 20
IDENTITY = {"IMAGENET_JOB": "digits", "IMAGENET_JOB_UID": "u", "IMAGENET_SPEC_HASH": "h"}
SUCCEEDED = ("Succeeded", "True")
COMPRESSED = "compressed parameter server"


def of_compressed(folder: Path, given: list[str], environment: Environment) -> Members:
    """A strategy in step, in which rank 0 validates alone."""
    return of_parameter_server("dist_sync", folder, [*given, "--gc-type", "2bit"], environment)


def finished_epochs(output: Path) -> int:
    """Return the epochs of which all workers' ledgers have every record once, and no other."""
    reports = list(check(find_runs(output), is_finished=True))
    assert [report.mistakes for report in reports] == [()] * len(reports)
    return len(reports)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_killed_between_checkpoint_and_validation(tmp_path: Path, strategy: str) -> None:
    dataset = write_dataset(tmp_path / "data", IMAGES, VALIDATION, shards=1).folder

    def train(output: Path, attempt: int) -> None:
        here = IDENTITY | {"IMAGENET_ATTEMPT": str(attempt)}
        given = [*arguments(dataset, output), "--batch-size", "8"]
        with STRATEGIES[strategy](tmp_path / f"{output.name}-members", given, here) as members:
            assert_succeeds(members)

    whole, second = tmp_path / "whole", tmp_path / "second"
    train(whole, 0)
    assert_stopped(whole)
    assert finished_epochs(whole) == EPOCHS
    # The second epoch is validated first, then the third is trained.
    cut(whole, second, 2)
    train(second, 1)
    assert_stopped(second, 1, validated=(2, 3))
    assert model(second, 1) == model(whole)


NOT_IN_STEP: dict[str, Launch] = {
    "asynchronous parameter server": partial(of_parameter_server, "dist_async"),
    COMPRESSED: of_compressed,
}


@pytest.mark.parametrize("strategy", NOT_IN_STEP)
def test_ranks_that_are_not_in_step_stop_together(tmp_path: Path, strategy: str) -> None:
    """Rank 0 validates alone; the others wait at the end of each epoch for what it decides."""
    dataset = write_dataset(tmp_path / "data", IMAGES, VALIDATION, shards=1).folder
    output = tmp_path / "out"
    given = [*arguments(dataset, output), "--batch-size", "8"]
    with NOT_IN_STEP[strategy](tmp_path / "members", given, IDENTITY) as members:
        assert_succeeds(members)
    assert_stopped(output)
    assert finished_epochs(output) == EPOCHS


@pytest.mark.parametrize("strategy", ["parameterServer:dist_sync", "parameterServer:dist_async"])
def test_a_whole_job_succeeds_with_its_reason(tmp_path: Path, strategy: str) -> None:
    manifest = digits(strategy, "digits")
    # No accuracy rises by more than 1.
    manifest["spec"]["training"] |= {
        "epochs": 9,
        "earlyStopping": {"metric": "top1", "patience": 1, "minDelta": 1},
        "checkpoint": {"keep": 1, "best": {"metric": "loss"}},
    }
    make_digits(tmp_path)
    whole = WholeJob(tmp_path, manifest)
    result = whole.run()
    written, validated = result["written"], result["validation"]
    assert (written["epochs"], written["plannedEpochs"]) == (2, 9)
    assert (result["best"], result["earlyStop"]) == (written["best"], written["earlyStop"])
    assert result["best"]["value"] == validated["loss"]
    job = json.loads((tmp_path / "jobs/digits/job.json").read_text())["job"]
    (succeeded,) = (
        one for one in job["status"]["conditions"] if (one["type"], one["status"]) == SUCCEEDED
    )
    assert succeeded["reason"] == "EarlyStopped"
    assert_says(succeeded["message"], "early stopping after epoch 2 of 9", "validation top1")
    value = result["earlyStop"]["value"]
    assert_says(succeeded["message"], "not improved since epoch 1", f"({value:.4f})")
    training = whole.training()
    assert (training["finishedEpochs"], training["checkpointEpoch"]) == ("2/9", 2)
    assert training["accuracy"]["validation"] == pytest.approx(validated["top1"], abs=1e-3)
