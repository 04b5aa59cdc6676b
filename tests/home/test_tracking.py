"""A job beside a real MLflow server, read by TensorBoard's own reader."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from tensorboard.backend.event_processing import plugin_event_accumulator
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from support.processes import wait_until
from support.whole_jobs import Manifest, WholeJob, digits, make_digits

TOKEN = "t0ken-of-the-secret"
EPOCHS = 6
SERIES = {
    *(f"{split}/{figure}" for split in ("train", "validation") for figure in ("loss", "top1")),
    *("learning_rate", "images_per_second", "goodput", "restarts"),
}


class Mlflow:
    """What an MLflow server has."""

    def __init__(self, address: str) -> None:
        self._api = f"{address}/api/2.0/mlflow"

    def _ask(self, path: str, document: dict[str, Any] | None = None) -> dict[str, Any]:
        content = None if document is None else json.dumps(document).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{self._api}/{path}", content, headers)
        with urllib.request.urlopen(request, timeout=60) as answer:
            found: dict[str, Any] = json.load(answer)
            return found

    def runs(self, experiment: str) -> list[dict[str, Any]]:
        """Return the runs of an experiment."""
        named = self._ask(f"experiments/get-by-name?experiment_name={quote(experiment)}")
        wanted = {"experiment_ids": [named["experiment"]["experiment_id"]]}
        found: list[dict[str, Any]] = self._ask("runs/search", wanted).get("runs", [])
        return found

    def history(self, run: str, series: str) -> list[tuple[int, float]]:
        """Return every point of a series of a run, as it is stored."""
        found = self._ask(f"metrics/get-history?run_id={run}&metric_key={quote(series)}")
        return [(item["step"], item["value"]) for item in found.get("metrics", [])]


def tracked(name: str, **tracking: Any) -> Manifest:
    """Return a job of six epochs that is tracked; a log has four points an epoch."""
    manifest = digits("parameterServer:dist_sync", name)
    training = manifest["spec"]["training"]
    training["epochs"], training["optimizer"]["stepEpochs"] = EPOCHS, [5]
    training["extraArgs"] = ["--disp-batches=5"]
    training["tracking"] = tracking
    return manifest


def secret(folder: Path, address: str) -> Path:
    """Return the folder of a Secret with an address and a token."""
    folder.mkdir(parents=True)
    (folder / "MLFLOW_TRACKING_URI").write_text(address)
    (folder / "MLFLOW_TRACKING_TOKEN").write_text(TOKEN)
    return folder


class TrackedJob(WholeJob):
    """A job with the Secret of a server."""

    def __init__(self, workdir: Path, manifest: Manifest, address: str) -> None:
        super().__init__(workdir, manifest)
        self.options = (f"--secret=tracking={secret(workdir.parent / 'secret', address)}",)

    @property
    def results(self) -> Path:
        """The folder of what all attempts write."""
        (found,) = self.workdir.glob(f"volumes/*/jobs/{self.name}-*")
        return found

    def wait_for_epoch(self, number: int, process: subprocess.Popen[str]) -> None:
        """Wait until the first attempt has validated an epoch, counted from 1, and saved it."""
        events = f"volumes/*/jobs/{self.name}-*/attempts/r0/metrics.jsonl"

        def is_there() -> bool:
            assert process.poll() is None, self.logs()
            for log in self.workdir.glob(events):
                # A line that is being written can be seen in part.
                whole, _, _ = log.read_text().rpartition("\n")
                lines = [json.loads(line) for line in whole.splitlines()]
                kinds = {(line["event"], line.get("epoch")) for line in lines}
                # Steps of the next epoch are lost when it is killed now.
                wanted = {("validation", number - 1), ("checkpoint", number), ("progress", number)}
                return wanted <= kinds
            return False

        wait_until(is_there, f"epoch {number} is validated and saved")


def steps(points: list[tuple[int, float]]) -> list[int]:
    return [step for step, _ in points]


def test_a_job_that_is_killed_and_resumed_is_one_run_with_each_step_once(
    mlflow_server: str, tmp_path: Path
) -> None:
    source = {"secretKeyRef": {"name": "tracking"}}
    manifest = tracked(
        "tracked", tensorBoard={}, mlflow={"uriFrom": source, "experiment": "home tests"}
    )
    job = TrackedJob(tmp_path / "work", manifest, mlflow_server)
    make_digits(job.workdir)

    with job.running() as process:
        job.wait_for_epoch(3, process)
        os.kill(job.program("r0-worker-1"), signal.SIGKILL)
        result = job.finished(process)

    assert result["restarts"] == 1
    files = EventAccumulator(str(job.results / "tensorboard"), {"scalars": 0, "tensors": 0})
    files.Reload()
    shown = {
        tag: [(event.step, event.value) for event in files.Scalars(tag)]
        for tag in files.Tags()["scalars"]
    }
    # That of TensorBoard's pages.
    pages = plugin_event_accumulator.EventAccumulator(str(job.results / "tensorboard"))
    pages.Reload()
    for series, points in shown.items():
        assert [event.step for event in pages.Tensors(series)] == steps(points), series
    assert shown.keys() >= SERIES
    epoch = steps(shown["validation/top1"])[0]
    assert steps(shown["validation/top1"]) == [epoch * number for number in range(1, EPOCHS + 1)]
    assert shown["validation/top1"][-1][1] == pytest.approx(result["written"]["validation"]["top1"])
    for series, points in shown.items():
        assert steps(points) == sorted(set(steps(points))), series
    assert {value for _, value in shown["restarts"]} == {0.0, 1.0}
    assert {"parameters/text_summary", "restarts/text_summary"} <= set(files.Tags()["tensors"])

    mlflow = Mlflow(mlflow_server)
    (run,) = mlflow.runs("home tests")
    assert run["info"]["status"] == "FINISHED"
    tags = {item["key"]: item["value"] for item in run["data"]["tags"]}
    assert tags["imagenet.job_uid"].startswith(job.results.name.rpartition("-")[2])
    assert "attempt 1 resumes from" in tags["imagenet.restart.1"]
    parameters = {item["key"]: item["value"] for item in run["data"]["params"]}
    assert parameters["network"] == "lenet" and parameters["batch_size"] == "64"
    assert parameters["dataset_key"] == result["written"]["dataset"]["key"]
    for series, points in shown.items():
        sent = mlflow.history(run["info"]["run_id"], series)
        assert steps(sorted(sent)) == steps(points), series

    # Nothing of the Secret is in any file of the job.
    for content in (TOKEN, mlflow_server):
        found = subprocess.run(
            ["grep", "-rlF", content, str(job.workdir)], capture_output=True, text=True, check=False
        )
        assert found.stdout == ""


def test_sync_sends_what_the_server_lacked(mlflow_server: str, tmp_path: Path) -> None:
    source = {"secretKeyRef": {"name": "tracking"}}
    manifest = tracked("late", mlflow={"uriFrom": source, "experiment": "late"})
    # Nobody listens there.
    job = TrackedJob(tmp_path / "work", manifest, "http://127.0.0.1:9")
    make_digits(job.workdir)
    result = job.run()
    assert result["restarts"] == 0
    (log,) = (job.workdir / "jobs" / "late" / "logs").glob("*-worker-0.log")
    assert "tracking waits: MLflow: the server cannot be reached" in log.read_text()

    (tmp_path / "secret" / "MLFLOW_TRACKING_URI").write_text(mlflow_server)
    program = Path(sys.executable).parent / "imagenetctl"
    command = [program, "tracking", "sync", "late", "--workdir", job.workdir, *job.options]
    for wanted in (True, False):
        said = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
        assert said.returncode == 0, said.stderr
        assert (said.stdout != "0 points sent to MLflow\n") is wanted
    mlflow = Mlflow(mlflow_server)
    (run,) = mlflow.runs("late")
    assert len(mlflow.history(run["info"]["run_id"], "validation/top1")) == EPOCHS
