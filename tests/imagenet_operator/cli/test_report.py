"""`imagenetctl report`: the time of a job in text, JSON and a plot."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from imagenet_operator.cli import report
from imagenet_operator.cli.main import build_parser, main
from imagenet_operator.clusters.kubernetes import objects
from imagenet_spec.errors import ImageNetJobError
from imagenet_spec.resource import ImageNetJob
from support import job_table
from support.asynchronous import asynchronous
from support.fake_api_server import FakeApiServer

AT = "2026-01-02T03:04:05Z"
STATUS: dict[str, Any] = {
    "phase": "Succeeded",
    "dataset": {
        "key": "k",
        "classes": 10,
        "images": {"train": 1000, "validation": 100},
        "shards": 2,
    },
    "training": {
        "attempt": 1,
        "finishedEpochs": "5/5",
        "loopCpuSeconds": 0.000212,
        "checkpointStallSeconds": 0.0125,
    },
    "time": {
        "phases": {"redone": 100.0, "stepping": 1500.0, "queueing": 400.0},
        "goodput": 0.75,
        "gpuHours": 4.0,
        "countedUntil": AT,
    },
}
TEXT = """\
queueing    400.0 s   20.0%
stepping  1,500.0 s   75.0%
redone      100.0 s    5.0%
sum       2,000.0 s

goodput    75.0%
images     5,000
attempts   2
loop CPU   0.21 ms a step
stall      12 ms a checkpoint
GPU-hours  4.00
cost       10.00
energy     2.80 kWh
"""


def manifest() -> dict[str, Any]:
    return {**job_table.manifest(), "status": STATUS}


@pytest.fixture
def workdir(tmp_path: Path) -> Path:
    file = tmp_path / "jobs" / "digits" / "job.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"job": manifest()}))
    return tmp_path


def test_the_report_of_a_local_job(workdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rates = ["--price-per-gpu-hour", "2.5", "--watts-per-gpu", "700"]
    assert main(["report", "digits", "--workdir", str(workdir), *rates]) == 0
    assert capsys.readouterr().out == TEXT


def test_the_report_for_scripts(workdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "digits", "--workdir", str(workdir), "--output", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "name": "digits",
        "phase": "Succeeded",
        "seconds": 2000.0,
        "phases": {"queueing": 400.0, "stepping": 1500.0, "redone": 100.0},
        "goodput": 0.75,
        "images": 5000,
        "attempts": 2,
        "loopCpuSeconds": 0.000212,
        "checkpointStallSeconds": 0.0125,
        "gpuHours": 4.0,
    }


@pytest.mark.parametrize(
    ("status", "goodput", "is_lost"),
    [
        ({"phase": "Failed", "training": {"attempt": 1}}, 0.0, True),
        ({"phase": "Running", "training": {"attempt": 1}}, 0.0, True),
        ({"phase": "Failed", "training": {"attempt": 1, "checkpointEpoch": 0}}, 0.75, False),
        ({"phase": "Succeeded", "training": {"attempt": 1}}, 0.75, False),
    ],
)
def test_steps_that_no_checkpoint_keeps_are_no_goodput(
    status: dict[str, Any], goodput: float, is_lost: bool
) -> None:
    job = ImageNetJob.model_validate({**job_table.manifest(), "status": {**STATUS, **status}})
    assert job.status.time is not None
    found = report.document(job, job.status.time)
    assert found["goodput"] == goodput
    assert ("checkpoint  none: no step is kept" in report.text(found)) is is_lost


def test_the_lost_steps_of_a_failed_job() -> None:
    failed = {"type": "Failed", "status": "True", "reason": "R", "lastTransitionTime": AT}
    training = {"attempt": 1, "checkpointEpoch": 4, "unsavedSeconds": 1234.5}
    status = {**STATUS, "phase": "Failed", "training": training, "conditions": [failed]}
    job = ImageNetJob.model_validate({**job_table.manifest(), "status": status})
    assert job.status.time is not None
    found = report.document(job, job.status.time)
    assert found["lostStepSeconds"] == 1234.5
    assert "lost steps  1,234.5 s since the newest checkpoint\n" in report.text(found)


def test_a_plot(workdir: Path) -> None:
    picture = workdir / "time.png"
    assert main(["report", "digits", "--workdir", str(workdir), "--plot", str(picture)]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")


@asynchronous
async def test_the_report_of_a_job_on_a_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async with FakeApiServer() as server:
        server.verbs[objects.JOB.group, objects.JOB.plural] |= {"create"}
        config = {
            "current-context": "here",
            "contexts": [{"name": "here", "context": {"cluster": "here", "namespace": "vision"}}],
            "clusters": [{"name": "here", "cluster": {"server": server.url}}],
        }
        (tmp_path / "config").write_text(yaml.safe_dump(config))
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
        await server.add(job_table.manifest())
        await server.change("ImageNetJob", "digits", lambda job: job.update(status=STATUS))
        parse = build_parser().parse_args
        command = ["report", "digits", "--context", "here", "--output", "json"]
        assert await asyncio.to_thread(report.run, parse(command)) == 0
        assert json.loads(capsys.readouterr().out)["goodput"] == 0.75
        command = ["report", "other", "--context", "here"]
        with pytest.raises(ImageNetJobError, match="'vision' of the context 'here' has no job"):
            await asyncio.to_thread(report.run, parse(command))
        command = ["report", "digits", "-n", "vision", "--output", "json"]
        assert await asyncio.to_thread(report.run, parse(command)) == 0
        assert json.loads(capsys.readouterr().out)["goodput"] == 0.75


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--workdir", "nowhere"], "nowhere has no job 'digits'; name another"),
        (["-n", "vision", "--workdir", "b"], "--workdir and --namespace: write one"),
        (["--context", "a", "--workdir", "b"], "--workdir and --context: write one"),
        (["--context", "a", "--volume", "b=/"], "--volume and --context: write one"),
    ],
)
def test_a_mistake_is_explained(
    options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", "digits", *options]) != 0
    assert said in capsys.readouterr().err


def test_a_job_without_an_account(workdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = workdir / "jobs" / "digits" / "job.json"
    file.write_text(json.dumps({"job": job_table.manifest()}))
    assert main(["report", "digits", "--workdir", str(workdir)]) == 2
    assert "status.time is empty" in capsys.readouterr().err


@pytest.mark.parametrize("rate", ["x", "-1", "inf"])
def test_a_rate_is_a_number(rate: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["report", "digits", f"--watts-per-gpu={rate}"])
    assert "is not a number of at least 0" in capsys.readouterr().err
