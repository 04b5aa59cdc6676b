"""`imagenetctl dashboard` as a process, and working directories with jobs to look at."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from imagenet_spec import events
from imagenet_spec.names import EVENTS_FILE, attempt_folder
from support import job_table, report_pages
from support.report_pages import FinishedJob

PROGRAM = "from imagenet_operator.cli.main import main; raise SystemExit(main())"


@contextlib.contextmanager
def served(
    *options: str, environment: dict[str, str] | None = None, folder: Path | None = None
) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Yield the address of a dashboard, with its token, and its process; end it.

    Args:
        options: Of the command.
        environment: Variables beside those of the test.
        folder: Where it starts.
    """
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "dashboard", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(environment or {})},
        cwd=folder,
    )
    assert process.stdout is not None
    try:
        address = process.stdout.readline().strip()
        if not address:
            raise AssertionError(f"no address: {process.communicate()[1]}")
        yield address, process
    finally:
        process.terminate()
        process.communicate(timeout=30)


def edit(workdir: Path, name: str, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the stored manifest of a job, as its run does: nobody sees a part of it."""
    file = workdir / "jobs" / name / "job.json"
    document = json.loads(file.read_text())
    change(document["job"])
    temporary = file.with_name("job.json.tmp")
    temporary.write_text(json.dumps(document))
    temporary.replace(file)


def rename(workdir: Path, folder: str, name: str) -> None:
    """Give the job of a folder another name, which may be one that no API server takes."""
    edit(workdir, folder, lambda job: job["metadata"].update(name=name))


def write_running(workdir: Path, name: str, epochs: int = 5, planned: int = 12) -> None:
    """Write a job that has finished so many of its epochs, and runs."""
    report_pages.write(workdir, FinishedJob(name=name, epochs=planned, restarts=0))
    folder = results(workdir, name) / attempt_folder(0)
    for file in (*folder.glob("*.json"), *folder.glob("thumbnails/*")):
        file.unlink()
    log = folder / EVENTS_FILE
    lines = log.read_text().splitlines()
    kept = [line for line in lines if json.loads(line).get("epoch", 0) < epochs]
    log.write_text("\n".join([*kept, ""]))
    set_running(workdir, name, epochs, planned)
    logs = workdir / "jobs" / name / "logs"
    logs.mkdir(exist_ok=True)
    said = [events.from_line(line) for line in kept]
    texts = [one[1].sentence() for one in said if one is not None]
    (logs / f"{name}-r0-worker-0.log").write_text("".join(f"{text}\n" for text in texts))


def set_running(workdir: Path, name: str, epochs: int, planned: int = 12) -> None:
    """Write the status of a running job after so many epochs."""

    def change(job: dict[str, Any]) -> None:
        status = job["status"]
        job["metadata"]["creationTimestamp"] = "2026-01-02T08:00:00Z"
        for key in ("reason", "completionTime"):
            status.pop(key, None)
        status["phase"], status["conditions"] = "Running", []
        training = status["training"]
        training.update(
            attempt=0,
            finishedEpochs=f"{epochs}/{planned}",
            imagesPerSecond=4812.0,
            loss=2.31,
            accuracy={"validation": report_pages.top1(epochs - 1)},
            eta="41m",
        )

    edit(workdir, name, change)


def finish_epoch(workdir: Path, name: str, epoch: int) -> None:
    """Append an epoch to the log of a running job, as rank 0 does; `epoch` is from 0."""
    log = results(workdir, name) / attempt_folder(0) / EVENTS_FILE
    end = json.loads(log.read_text().splitlines()[-1])["time"] + report_pages.SECONDS
    top1 = report_pages.top1(epoch)
    found: Sequence[tuple[float, events.Event]] = (
        (end, events.EpochFinished(epoch, report_pages.SECONDS, 4812.0, 2.0, top1 + 0.02, 0.97)),
        (end + 20, events.Validated(epoch, 120, top1, top1 + 0.04, 2.1)),
    )
    with log.open("a") as file:
        file.writelines(events.to_line(event, at) + "\n" for at, event in found)
    set_running(workdir, name, epoch + 1)


def write_event(workdir: Path, name: str, reason: str, message: str) -> None:
    """Append an event to those of a job."""
    document = {
        "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "type": "Warning",
        "reason": reason,
        "message": message,
    }
    with (workdir / "jobs" / name / "events.jsonl").open("a") as file:
        file.write(json.dumps(document) + "\n")


def results(workdir: Path, name: str) -> Path:
    """Return the folder of what a job has written."""
    return workdir / "volumes" / f"{name}-dataset" / "jobs" / f"{name}-{job_table.UID[:8]}"


@contextlib.contextmanager
def owned(workdir: Path, *names: str) -> Iterator[None]:
    """Hold the locks of jobs, as `imagenetctl run` does while it runs them."""
    with contextlib.ExitStack() as stack:
        for name in names:
            file = stack.enter_context((workdir / "jobs" / name / "lock").open("w"))
            file.write(f"{os.getpid()}")
            file.flush()
        yield


@dataclass(frozen=True)
class Stage:
    """A job somewhere on its way: its network, and how far it has come."""

    name: str
    network: str
    layers: int | None
    framework: str
    phase: str
    reason: str = ""
    epochs: int = 0

    def write(self, workdir: Path, day: int) -> None:
        """Write it as if it were created on this day."""
        if self.phase == "Succeeded":
            report_pages.write(workdir, FinishedJob(name=self.name, restarts=day % 3))
        else:
            write_running(workdir, self.name, self.epochs or 1)
        edit(workdir, self.name, lambda job: self._change(job, day))

    def _change(self, job: dict[str, Any], day: int) -> None:
        model, status = job["spec"]["training"]["model"], job["status"]
        model["network"] = self.network
        del model["numLayers"]
        if self.layers is not None:
            model["numLayers"] = self.layers
        job["spec"]["training"]["framework"] = self.framework
        job["metadata"]["creationTimestamp"] = f"2026-01-{day:02}T08:1{day % 10}:00Z"
        status["phase"], status["reason"] = self.phase, self.reason
        if self.phase == "Succeeded":
            status["training"]["accuracy"] = {"validation": report_pages.top1(11, day % 3)}
            status["training"]["imagesPerSecond"] = 4400.0 + 37 * day
        if self.phase == "Failed":
            status["conditions"] = [
                {
                    "type": "Failed",
                    "status": "True",
                    "reason": self.reason,
                    "message": "worker 1 exited with 137: out of memory",
                    "lastTransitionTime": "2026-01-02T09:00:00Z",
                }
            ]
        if not self.epochs:
            status.pop("training")


STAGES = (
    Stage("shapes", "resnet", 50, "MXNet", "Succeeded", "Completed", 12),
    Stage("shapes-large-batch", "resnet", 50, "MXNet", "Succeeded", "Completed", 12),
    Stage("resnet50-warmup", "resnet", 50, "PyTorch", "Failed", "BackoffLimitExceeded", 3),
    Stage("lenet-digits", "lenet", None, "MXNet", "Suspended", "Suspended", 6),
    Stage("resnet50-bfloat16", "resnet", 50, "PyTorch", "Running", "", 7),
    Stage("resnet152-imagenet", "resnet", 152, "MXNet", "Queued", "QuotaExceeded"),
    Stage("vit-small-photos", "vit-small", None, "PyTorch", "Preparing", "Packing"),
)
"""Jobs in different phases, as after a week of work."""

ACTIVE = tuple(one.name for one in STAGES if one.phase in ("Running", "Queued", "Preparing"))


def write_stages(workdir: Path) -> None:
    """Write the jobs of `STAGES`; the last one was created last."""
    for number, stage in enumerate(STAGES):
        stage.write(workdir, number + 2)
    write_event(workdir, "resnet50-bfloat16", "Restarting", "worker 3 was preempted")
