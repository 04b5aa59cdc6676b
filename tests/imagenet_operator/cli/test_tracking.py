"""A tracked job on this machine, and the commands that look after it."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from imagenet_operator.cli import tracking
from imagenet_operator.cli.main import main
from imagenet_operator.clusters.local import environments
from imagenet_operator.manifests import names
from imagenet_operator.sdk.background import run
from support.client_jobs import UserCluster
from support.client_jobs import manifest as client_manifest
from support.door_cluster import DoorKubelet
from support.mlflow_server import MlflowServer
from support.processes import wait_until
from support.sentences import assert_says
from support.whole_jobs import WholeJob

Manifest = dict[str, Any]

TRACKING = {"mlflow": {"uriFrom": {"secretKeyRef": {"name": "tracking"}}, "experiment": "ours"}}
EPOCHS = 3
IMAGES = 60
MANIFEST: Manifest = {
    "apiVersion": "imagenet.dev/v1alpha1",
    "kind": "ImageNetJob",
    "metadata": {"name": "tracked"},
    "spec": {
        "dataset": {
            "source": {
                "synthetic": {"classes": 3, "imagesPerClass": 24, "imageShape": [3, 32, 32]}
            },
            "validation": {"split": {"imagesPerClass": 4}},
            "preprocessing": {"minImagesPerClass": 0, "shards": 1},
            "volume": {"size": "1Gi"},
        },
        "training": {
            "strategy": {"single": {"kvStore": "local"}},
            "model": {"network": "lenet", "imageShape": [3, 28, 28]},
            "batchSize": 12,
            "epochs": EPOCHS,
            "optimizer": {"stepEpochs": [], "warmupEpochs": 0},
            "workers": {"replicas": 1},
            "extraArgs": ["--disp-batches=1"],
            "tracking": {"tensorBoard": {}, **TRACKING},
        },
    },
}


def test_a_server_that_hangs_costs_no_step_and_gets_all_when_it_answers(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    job = WholeJob(tmp_path / "work", MANIFEST)
    job.options = (f"--secret=tracking={secret}",)
    log = f"volumes/*/jobs/{job.name}-*/attempts/r0/metrics.jsonl"

    def is_trained() -> bool:
        return any('"finished"' in path.read_text() for path in job.workdir.glob(log))

    with MlflowServer(mode="hangs").served() as server:
        (secret / "MLFLOW_TRACKING_URI").write_text(server.address)
        with job.running() as process:
            wait_until(lambda: is_trained() or process.poll() is not None, "all epochs are trained")
            was_sent = list(server.points)
            server.mode = "works"
            result = job.finished(process)

    assert was_sent == []
    assert result["restarts"] == 0
    assert server.steps("train/loss") == list(range(12, EPOCHS * IMAGES + 1, 12))
    assert server.steps("validation/top1") == [IMAGES, 2 * IMAGES, 3 * IMAGES]
    assert [run["info"]["status"] for run in server.runs] == ["FINISHED"]
    (events,) = job.workdir.glob(f"volumes/*/jobs/{job.name}-*/tensorboard/*")
    assert b"validation/top1" in events.read_bytes()
    # Nothing of the address is in the log, the status or the recorded job.
    for path in (job.workdir / "jobs").rglob("*"):
        assert not path.is_file() or server.address.encode() not in path.read_bytes(), path


def recorded(workdir: Path, tracking: Manifest | None) -> Path:
    """Return the output folder of a job that a working directory knows."""
    document = json.loads(json.dumps(MANIFEST))
    document["metadata"] |= {"uid": "0123456789", "namespace": "vision"}
    document["spec"]["training"].pop("tracking")
    if tracking is not None:
        document["spec"]["training"]["tracking"] = tracking
    file = workdir / "jobs" / "tracked" / "job.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"job": document}))
    results = workdir / "volumes" / "output" / "jobs" / "tracked-01234567"
    results.mkdir(parents=True)
    return results


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of programs, which is the only one that is searched."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setattr(environments, "program_folders", lambda variables: (folder,))
    return folder


def install(programs: Path, name: str) -> Path:
    """Make a program that writes its arguments and variables into a file; return the file."""
    said = programs.parent / f"{name}.said"
    program = programs / name
    program.write_text(f'#!/bin/sh\necho "$@" > {said}\nenv >> {said}\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return said


def test_sync_starts_the_side_program_with_what_the_pod_had(tmp_path: Path, programs: Path) -> None:
    results = recorded(tmp_path, TRACKING)
    said = install(programs, "imagenet-track")
    options = ["--workdir", str(tmp_path), "--secret", f"tracking={programs}"]
    assert main(["tracking", "sync", "tracked", *options]) == 0
    first, *variables = said.read_text().splitlines()
    assert first == "--mlflow-experiment ours --once"
    assert {
        f"IMAGENET_RESULTS={results}",
        f"IMAGENET_TRACKING_CREDENTIALS={programs}",
        "IMAGENET_JOB=tracked",
        "IMAGENET_NAMESPACE=vision",
        "IMAGENET_JOB_UID=0123456789",
    } <= set(variables)


@pytest.mark.parametrize(
    ("tracking", "options", "message"),
    [
        (None, (), "'tracked' has no spec.training.tracking"),
        (TRACKING, (), "--secret tracking=FOLDER"),
        (TRACKING, ("--secret", "other=."), "--secret tracking=FOLDER"),
    ],
)
def test_sync_says_what_is_missing(
    tracking: Manifest | None,
    options: tuple[str, ...],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    recorded(tmp_path, tracking)
    assert main(["tracking", "sync", "tracked", "--workdir", str(tmp_path), *options]) != 0
    assert message in capsys.readouterr().err


def test_sync_of_a_job_that_is_not_here_says_where_it_may_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tracking", "sync", "lost", "--workdir", str(tmp_path)]) != 0
    assert_says(capsys.readouterr().err, "a cluster", "imagenet-track --once", "in a pod")


def test_tensorboard_shows_the_jobs_that_are_named_or_all(tmp_path: Path, programs: Path) -> None:
    said = install(programs, "tensorboard")
    folders = {
        name: tmp_path / f"volumes/output/jobs/{name}-01234567/tensorboard"
        for name in ("a-b", "digits")
    }
    for folder in folders.values():
        folder.mkdir(parents=True)
    for wanted in (["digits"], []):
        assert main(["tensorboard", *wanted, "--workdir", str(tmp_path), "--port", "6007"]) == 0
        shown = ",".join(f"{name}:{folders[name]}" for name in wanted or folders)
        assert said.read_text().splitlines()[0] == f"--logdir_spec {shown} --port 6007"


TENSORBOARD = """#!/bin/sh
folder=${2#digits:}
exec 3< "$folder/r0"
printf two >> EVENTS
until grep -q two "$folder/r0"; do sleep 0.05; done
cat <&3 > SAID
"""
"""Opens the file once, as TensorBoard's data server does, and ends when more of it is there."""


def test_tensorboard_shows_a_job_of_a_cluster_whose_files_grow(
    cluster: UserCluster,
    programs: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(tracking, "_SYNC_SECONDS", 0.05)
    claim, said = tmp_path / "volumes" / "digits-dataset", tmp_path / "said"
    events = claim / names.output_folder("digits", "0123456789") / "tensorboard" / "r0"
    program = programs / "tensorboard"
    program.write_text(TENSORBOARD.replace("EVENTS", str(events)).replace("SAID", str(said)))
    program.chmod(0o755)
    job = client_manifest()
    job["metadata"] |= {"namespace": "vision", "uid": "0123456789"}
    run(cluster.server.add(job))
    assert main(["tensorboard", "digits", "-n", "vision"]) == 5
    assert "digits writes no files for TensorBoard" in capsys.readouterr().err
    assert main(["tensorboard", "-n", "vision"]) == 2
    job["spec"]["training"]["tracking"] = {"tensorBoard": {}}
    run(cluster.server.change("ImageNetJob", "digits", lambda old: old.update(spec=job["spec"])))
    events.parent.mkdir(parents=True)
    events.write_text("one")
    kubelet = DoorKubelet(cluster.server, tmp_path / "volumes")
    cluster.server.effects.append(kubelet.take)
    try:
        run(kubelet.claim("digits-dataset"))
        assert main(["tensorboard", "digits", "-n", "vision", "--image", "mine:2"]) == 0
    finally:
        run(kubelet.close())
    assert said.read_text() == "onetwo"
    images = {pod["spec"]["containers"][0]["image"] for pod in kubelet.created}
    assert images == {"mine:2"}
    assert cluster.server.all("Pod") == []


def test_without_tensorboard_the_command_that_installs_it_is_said(
    tmp_path: Path, programs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tensorboard", "--workdir", str(tmp_path)]) != 0
    assert "no job in" in capsys.readouterr().err
    (tmp_path / "volumes/output/jobs/digits-01234567/tensorboard").mkdir(parents=True)
    assert main(["tensorboard", "--workdir", str(tmp_path)]) != 0
    assert "pip install tensorboard" in capsys.readouterr().err
