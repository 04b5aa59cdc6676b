"""`imagenetctl submit`: what is said before, a dry run, and the bars of a job that is followed."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from imagenet_operator.cli import submit
from imagenet_operator.cli.display import bars
from imagenet_operator.cli.main import kubectl_main, main
from imagenet_operator.clusters.kubernetes import objects
from imagenet_operator.sdk.background import run
from imagenet_operator.sdk.blocking import Client
from imagenet_spec.resource import ImageNetJob
from support.api_requests import Refusal
from support.client_jobs import AT, UserCluster, condition, manifest
from support.sentences import assert_says

DATASET = {
    "key": "k",
    "classes": 10,
    "images": {"train": 1000, "validation": 100},
    "shards": 2,
}

FETCH = {"bytes": 5, "totalBytes": 10}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(manifest()))
    return path


def command(file: Path, *options: str) -> list[str]:
    return ["submit", str(file), "-n", "vision", *options]


def test_missing_claims_are_said_and_the_job_is_created(
    file: Path, cluster: UserCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command(file, "--dry-run")) == 0
    assert cluster.server.get(objects.JOB.name, "digits") is None
    assert "digits would be created" in capsys.readouterr().err
    assert main(command(file, "--set", "spec.training.epochs=2")) == 0
    found = capsys.readouterr()
    assert found.out == "digits\n"
    assert_says(found.err, "warning: spec.dataset.source.volume.claimName", "has no Persistent")
    job = cluster.server.get(objects.JOB.name, "digits")
    assert job is not None
    assert job["spec"]["training"]["epochs"] == 2


def test_another_spec_is_refused_with_the_difference(
    file: Path, cluster: UserCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.add_job(phase="Running")
    assert main(command(file)) == 0
    said = capsys.readouterr().err
    assert_says(said, "digits exists", "it is Running")
    assert "warning" not in said
    assert main(command(file, "--set", "spec.runPolicy.backoffLimit=9")) == 0
    assert_says(
        capsys.readouterr().err,
        "warning: spec.runPolicy.backoffLimit: is 9 here, and 6 there",
        "kubectl edit imagenetjob digits -n vision",
    )
    assert main(command(file, "--set", "spec.training.epochs=2")) == 2
    assert_says(capsys.readouterr().err, "spec.training.epochs: is 2 here, and 90 there")


def test_the_lines_for_scripts(
    file: Path, cluster: UserCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.add_job(phase="Succeeded", conditions=[condition("Succeeded")])
    assert main(command(file, "--follow", "-o", "json")) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    expected = {"type": "job", "job": "digits", "namespace": "vision", "reason": None}
    assert lines == [{**expected, "phase": "Succeeded"}] * 2


def test_a_local_submit_is_refused_with_the_run_line(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["submit", str(file), "--workdir", "work"]) == 2
    assert f"imagenetctl run {file} --workdir work" in capsys.readouterr().err
    assert main(["submit", "my job.yaml", "--workdir", "my work"]) == 2
    assert "imagenetctl run 'my job.yaml' --workdir 'my work'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("end", "code", "facts"),
    [
        ("Succeeded", 0, ("digits succeeded", "jobs/d/attempts/r0", "claim out")),
        ("Failed", 1, ("digits failed: ", "R: why")),
    ],
)
def test_a_followed_job_shows_its_events_and_ends_with_its_result(
    end: str,
    code: int,
    facts: tuple[str, ...],
    file: Path,
    cluster: UserCluster,
    capsys: pytest.CaptureFixture[str],
) -> None:
    cluster.add_job(phase="Running", training={"attempt": 0, "epoch": 0, "imagesPerSecond": 99.0})
    job = cluster.server.get(objects.JOB.name, "digits")
    assert job is not None
    event = {
        "kind": "Event",
        "metadata": {"name": "e", "namespace": "vision"},
        "involvedObject": {"uid": job["metadata"]["uid"]},
        "type": "Normal",
        "reason": "Started",
        "message": "attempt 0 starts",
        "lastTimestamp": AT,
    }
    run(cluster.server.add(event))
    model = {"claimName": "out", "path": "jobs/d/attempts/r0"}

    async def end_after_a_look(asked: Any) -> None:
        if asked.kind == "Event" and asked.verb == "list":
            cluster.server.faults.clear()
            ended = condition(end, "R", "why")
            more = {"model": model} if end == "Succeeded" else {}
            await cluster.server.change(
                objects.JOB.name,
                "digits",
                lambda job: job["status"].update(phase=end, conditions=[ended], **more),
            )

    cluster.server.faults.append(end_after_a_look)
    assert main(command(file, "--follow")) == code
    found = capsys.readouterr()
    assert_says(found.out + found.err, *facts)
    assert found.err.count("Started: attempt 0 starts") == 1
    assert "train: epoch 1/90" in found.err


@pytest.mark.parametrize(
    "refusal", [Refusal(503, "ServiceUnavailable"), Refusal(403, "Forbidden", "not for ann")]
)
def test_a_job_is_followed_without_its_events_if_they_cannot_be_read(
    refusal: Refusal, file: Path, cluster: UserCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.add_job(phase="Succeeded", conditions=[condition("Succeeded")])
    refused = cluster.server.refuse(refusal, lambda asked: asked.kind == "Event")
    assert main(command(file, "--follow")) == 0
    assert refused
    assert "digits succeeded" in "".join(capsys.readouterr())


@pytest.mark.parametrize("main_program", [main, kubectl_main])
@pytest.mark.parametrize(
    ("options", "again"),
    [
        ([], "imagenetctl submit {file} --follow -n vision"),
        (["--set", "spec.training.epochs=90"], "imagenetctl wait digits -n vision"),
    ],
)
def test_ctrl_c_leaves_the_job_and_says_how_to_come_back(
    options: list[str],
    again: str,
    main_program: Callable[[list[str]], int],
    file: Path,
    cluster: UserCluster,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster.add_job(phase="Running")
    watched = Client.watch

    def interrupted(client: Client, name: str) -> Any:
        yield next(iter(watched(client, name)))
        raise KeyboardInterrupt

    monkeypatch.setattr(Client, "watch", interrupted)
    place = ["-n", "vision"] if main_program is main else []
    assert main_program(["submit", str(file), "--follow", *place, *options]) == 130
    assert_says(
        capsys.readouterr().err,
        "digits goes on; ",
        again.format(file=file),
        "imagenetctl logs digits -f -n vision",
    )
    assert cluster.server.get(objects.JOB.name, "digits") is not None


@pytest.mark.parametrize(
    ("status", "shown"),
    [
        ({}, []),
        (
            {"reason": "Fetching", "dataset": {"fetch": {"bytes": 5, "totalBytes": 10}}},
            ["fetch 5/10"],
        ),
        ({"reason": "Indexing"}, ["index 0/None"]),
        ({"reason": "Packing", "dataset": DATASET}, ["index 1100/1100"]),
        (
            {"reason": "Sealed", "dataset": DATASET},
            ["index 1100/1100", "pack 1100/1100", "seal 1/1"],
        ),
        ({"reason": "Reused", "dataset": DATASET, "training": {"epoch": 3}}, ["train 3/90"]),
    ],
)
def test_the_bars_of_a_status(status: dict[str, Any], shown: list[str]) -> None:
    status = dict(status)
    reason = status.pop("reason", None)
    if reason is not None:
        is_ready = reason in ("Sealed", "Reused")
        status["conditions"] = [
            condition("DatasetReady", reason, status="True" if is_ready else "False")
        ]
    job = ImageNetJob.model_validate({**manifest(), "status": status})
    found = bars(submit.view_of(job))
    assert [f"{bar.name} {bar.done}/{bar.total}" for bar in found] == shown
    assert not any("batch" in bar.note for bar in found)
