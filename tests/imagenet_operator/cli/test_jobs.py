"""The verbs for jobs of a cluster and of a working directory: what they print, and exit codes."""

import json
import os
import pty
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from imagenet_operator.cli.main import main
from imagenet_operator.clusters.kubernetes import objects
from support.client_jobs import UserCluster, condition, manifest
from support.sentences import assert_says

TRAINING = {
    "attempt": 1,
    "finishedEpochs": "3/90",
    "epoch": 3,
    "imagesPerSecond": 1234.5,
    "accuracy": {"validation": 0.6543},
    "eta": "2h10m",
    "gpuUtilization": 0.93,
}
RUNNING = {"phase": "Running", "restarts": 2, "training": TRAINING}
HERE = "the namespace 'vision' of the cluster"


@pytest.fixture
def workdir(tmp_path: Path) -> Path:
    """A working directory with the job `digits`, which no process runs."""
    file = tmp_path / "work" / "jobs" / "digits" / "job.json"
    file.parent.mkdir(parents=True)
    status = {**RUNNING, "conditions": [condition("Running", "Training")]}
    file.write_text(json.dumps({"job": {**manifest(), "status": status}}))
    return tmp_path / "work"


def said(capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """What was printed on the standard output and error."""
    found = capsys.readouterr()
    return found.out, found.err


def test_a_list_has_the_figures_of_the_jobs_and_says_where_they_are(
    cluster: UserCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.add_job(**RUNNING)
    assert main(["list", "-n", "vision"]) == 0
    out, err = said(capsys)
    head, row = out.splitlines()
    assert re.split(" {2,}", head) == [
        "NAME",
        "PHASE",
        "EPOCH",
        "IMAGES/S",
        "TOP-1",
        "REMAINING",
        "RESTARTS",
        "GPUS",
        "GPU USE",
    ]
    assert re.split(" {2,}", row) == [
        *("digits", "Running", "3/90", "1,234", "0.6543", "2h10m", "2", "0", "0.9300")
    ]
    assert HERE in err
    assert main(["list", "--context", "here", "-o", "json"]) == 0
    out, err = said(capsys)
    assert json.loads(out)["items"][0]["status"]["restarts"] == 2
    assert "the namespace 'vision' of the context 'here'" in err
    assert main(["list", "-n", "vision", "-o", "csv"]) == 0
    assert (
        said(capsys)[0].splitlines()[1] == "digits,Running,3/90,1234.5,0.6543,2h10m,2,0,0.93,0,1,"
    )


def test_the_same_verbs_speak_of_a_working_directory(
    workdir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = ["--workdir", str(workdir)]
    assert main(["list", *place]) == 0
    out, err = said(capsys)
    assert "digits   Running" in out
    assert err == f"in the working directory {workdir}:\n"
    assert main(["status", "digits", *place, "-o", "yaml"]) == 0
    assert yaml.safe_load(said(capsys)[0])["status"]["phase"] == "Running"
    assert main(["status", "digits", *place, "-o", "wide"]) == 0
    out, _ = said(capsys)
    assert_says(
        out,
        "remaining    2h10m",
        "GPU use      0.9300",
        "state        Running",
        "no process of this user on this machine runs digits",
        "imagenetctl run FILE",
    )
    assert "Running      True Training" in out
    assert main(["wait", "digits", *place]) == 3
    assert main(["suspend", "digits", *place]) == 3
    assert main(["resume", "digits", *place]) == 2
    assert_says(said(capsys)[1], f"imagenetctl run FILE --workdir {workdir}")


def test_a_working_directory_without_jobs_names_the_cluster(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["list", "--workdir", str(tmp_path)]) == 0
    assert_says(
        said(capsys)[1],
        *("no jobs", "--workdir DIR", "imagenetctl list -n NAMESPACE", "--context NAME"),
    )


@pytest.mark.parametrize(
    ("status", "state", "code", "words"),
    [
        (
            {"phase": "Succeeded", "conditions": [condition("Succeeded")]},
            "Succeeded",
            0,
            "it is Succe",
        ),
        ({"phase": "Running"}, "Running", 0, "digits: it is Running"),
        ({"conditions": [condition("Failed", "R", "why")]}, "Succeeded", 1, "R: why"),
        ({"phase": "Preparing"}, "Running", 4, "is not Running after 0.1 seconds"),
    ],
)
def test_the_exit_code_of_a_wait(
    status: dict[str, Any],
    state: str,
    code: int,
    words: str,
    cluster: UserCluster,
    capsys: pytest.CaptureFixture[str],
) -> None:
    cluster.add_job(**status)
    seconds = "0.1" if code == 4 else "60"
    command = ["wait", "digits", "-n", "vision", "--for", state, "--timeout", seconds]
    assert main(command) == code
    assert words in "".join(said(capsys))
    assert main(["wait", "other", "-n", "vision"]) == 5
    assert "has no job 'other'" in said(capsys)[1]


def test_suspend_and_resume(cluster: UserCluster, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.add_job()
    for verb, value in (("suspend", True), ("resume", False)):
        assert main([verb, "digits", "-n", "vision"]) == 0
        job = cluster.server.get(objects.JOB.name, "digits")
        assert job is not None
        assert job["spec"]["runPolicy"]["suspend"] is value
    assert "imagenetctl resume digits -n vision" in said(capsys)[0]


@pytest.mark.parametrize("verb", ["suspend", "resume"])
def test_a_job_that_has_ended_is_not_said_to_go_on(
    verb: str, cluster: UserCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.add_job(phase="Succeeded", conditions=[condition("Succeeded", "AllWorkersSucceeded")])
    assert main([verb, "digits", "-n", "vision"]) == 0
    out = said(capsys)[0]
    assert_says(out, "trains no more", "AllWorkersSucceeded", "upload")
    assert "resume digits" not in out


def test_delete_says_what_goes_and_wants_an_answer(
    cluster: UserCluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.add_job()
    monkeypatch.setattr(sys, "stdin", os.fdopen(os.open(os.devnull, os.O_RDONLY)))
    assert main(["delete", "digits", "-n", "vision"]) == 2
    out, err = said(capsys)
    assert_says(out, "goes:  the job digits, its pods", "stays: the claim digits-dataset")
    assert_says(err, "add --yes")
    assert cluster.server.get(objects.JOB.name, "digits") is not None
    ours, theirs = pty.openpty()
    os.write(ours, b"\x04")
    monkeypatch.setattr(sys, "stdin", os.fdopen(theirs))
    assert main(["delete", "digits", "-n", "vision"]) == 0
    assert "nothing is deleted" in said(capsys)[0]
    os.close(ours)
    assert main(["delete", "digits", "-n", "vision", "--yes"]) == 0
    assert cluster.server.get(objects.JOB.name, "digits") is None


def test_delete_of_a_working_directory_leaves_the_claims(
    workdir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = workdir / "volumes" / "digits-dataset" / "jobs"
    model.mkdir(parents=True)
    assert main(["delete", "digits", "--workdir", str(workdir), "--yes"]) == 0
    assert "stays: the claim digits-dataset" in said(capsys)[0]
    assert not (workdir / "jobs" / "digits").exists()
    assert model.exists()


def test_a_list_leaves_out_a_damaged_job_and_says_so(
    workdir: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    damaged = workdir / "jobs" / "broken" / "job.json"
    damaged.parent.mkdir()
    damaged.write_text("{")
    assert main(["list", "--workdir", str(workdir), "-o", "csv"]) == 0
    assert [line.split(",")[0] for line in said(capsys)[0].splitlines()] == ["name", "digits"]
    assert f"left out: cannot read {damaged}" in caplog.text


def test_a_missing_right_is_an_error_that_names_it(
    cluster: UserCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.server.verbs = {}
    assert main(["list", "-n", "vision"]) == 3
    assert_says(said(capsys)[1], "right to list imagenetjobs", "missing", "namespace 'vision'")


@pytest.mark.parametrize("option", ["--context", "--namespace"])
def test_a_working_directory_and_a_cluster_are_two_places(
    option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["list", "--workdir", "work", option, "x"]) == 2
    assert f"--workdir and {option}: write one of the two" in said(capsys)[1]
