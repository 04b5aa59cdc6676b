"""The result of a run: read from the volumes, formatted as text or JSON."""

from __future__ import annotations

import json
import os
import re
import secrets
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from imagenet_operator.cli import exit_codes
from imagenet_operator.cli.epoch_log import EpochLog
from imagenet_operator.clusters.interface import LocalError
from imagenet_operator.clusters.local import environments
from imagenet_operator.clusters.local.kubelet import tail
from imagenet_operator.clusters.local.machine import Volumes
from imagenet_operator.manifests import names, volumes
from imagenet_operator.reconcile.policies import data_wait
from imagenet_operator.reconcile.policies.job_status import EARLY_STOPPED, find, holds
from imagenet_operator.reconcile.types import Event
from imagenet_operator.reconcile.uploads import UPLOADED
from imagenet_spec import volume_files
from imagenet_spec.curves import Epoch
from imagenet_spec.events import Progress, from_line
from imagenet_spec.names import EVENTS_FILE, EVERY_ATTEMPT, RESULT_FILE, attempt_folder
from imagenet_spec.resource import ImageNetJob
from imagenet_spec.resource.status import Condition

_CHECKPOINT = re.compile(r"epoch-([0-9]{4,})-batch-([0-9]{8,})")
_LOG_BYTES = 4096
_LOG_LINES = 12

EXIT_CODES = {
    "Succeeded": exit_codes.SUCCESS,
    "Failed": exit_codes.FAILED,
    "Interrupted": exit_codes.INTERRUPTED,
}
"""The exit code of each outcome."""


@dataclass(frozen=True)
class Result:
    """The end of a run, with the folder of everything that the job's workers wrote.

    The dataset is None if its key is not known. The log is of the pod that failed first. The epoch
    is that of the model: the last one that was trained, or the best.
    """

    job: ImageNetJob
    seconds: float
    results: Path
    model: Path | None
    training: dict[str, Any]
    dataset: Path | None
    log: Path | None
    epoch: Epoch | None

    @property
    def succeeded(self) -> bool:
        return holds(self.job.status.conditions, "Succeeded")

    @property
    def failure(self) -> Condition | None:
        condition = find(self.job.status.conditions, "Failed")
        return condition if condition is not None and condition.status == "True" else None

    @property
    def outcome(self) -> str:
        if self.succeeded:
            return "Succeeded"
        return "Interrupted" if self.failure is None else "Failed"

    @property
    def is_reused(self) -> bool:
        ready = find(self.job.status.conditions, "DatasetReady")
        return ready is not None and ready.reason == "Reused"


def collect(job: ImageNetJob, folders: Volumes, seconds: float, log: Path | None) -> Result:
    """Read the result of a run from the volumes."""
    folder = folder_of(job, folders)
    model, training = _newest_result(job, folder)
    is_own = environments.command_of(job) is not None
    epochs = [] if is_own else EpochLog(folder).new(is_end=True)
    dataset = _dataset(job, folders)
    best = (training.get("best") or {}).get("epoch")
    trained = [item for item in epochs if item.loss is not None and best in (None, item.number)]
    return Result(
        job, seconds, folder, model, training, dataset, log, trained[-1] if trained else None
    )


def folder_of(job: ImageNetJob, folders: Volumes) -> Path:
    """Return the folder of everything that a job's workers write."""
    mount = volumes.output(job) or volumes.data(job)
    return folders.path(mount.claim) / names.output_folder(job.metadata.name, job.metadata.uid)


def interruption(end: Result) -> str:
    """Return what an interrupted run has kept and lost, and how to go on."""
    training, again = end.job.status.training, "run the same command again"
    if training is None:
        return f"interrupted before training; {again} to go on with the preparation"
    if environments.command_of(end.job) is not None:
        return (
            f"interrupted; {again} to start the next attempt of your program, which finds what it "
            f"has saved below {end.results}"
        )
    position = _newest_checkpoint(end.results)
    if position is None:
        return f"interrupted before the first checkpoint: no step is kept; {again} to train again"
    epochs, batches = position
    where = f"{epochs} finished epoch{'' if epochs == 1 else 's'}"
    if batches:
        where += f" and {batches} batch{'' if batches == 1 else 'es'}"
    epoch, batch = _last_reported_step(end.results / attempt_folder(training.attempt))
    later = f"later steps, up to batch {batch} of epoch {epoch + 1}, are lost"
    lost = later if (epoch, batch) > position else "no later step was reported"
    return f"interrupted; the latest checkpoint has {where}; {lost}; {again} to resume from it"


def _newest_checkpoint(folder: Path) -> tuple[int, int] | None:
    checkpoints = folder.glob(f"{EVERY_ATTEMPT}/checkpoints/*")
    found = (_CHECKPOINT.fullmatch(path.name) for path in checkpoints)
    return max(((int(item[1]), int(item[2])) for item in found if item is not None), default=None)


def with_checkpoint(end: Result) -> ImageNetJob:
    """Return an interrupted job with the newest checkpoint of its volume in the status."""
    training, position = end.job.status.training, _newest_checkpoint(end.results)
    if training is None or position is None:
        return end.job
    saved = training.model_copy(update={"checkpoint_epoch": position[0]})
    status = end.job.status.model_copy(update={"training": saved})
    return end.job.model_copy(update={"status": status})


def _last_reported_step(attempt: Path) -> tuple[int, int]:
    """Return the epoch, from 0, and the finished batches of it that an attempt reported last."""
    try:
        lines = volume_files.read_text(attempt / EVENTS_FILE).splitlines()
    except OSError:
        return 0, 0
    for line in reversed(lines):
        # The last line may be incomplete.
        with suppress(ValueError):
            if (found := from_line(line)) is not None and isinstance(found[1], Progress):
                return found[1].epoch, found[1].batch
    return 0, 0


def _newest_result(job: ImageNetJob, folder: Path) -> tuple[Path | None, dict[str, Any]]:
    """Return the folder and the result of the newest attempt that wrote one.

    The files of a user's own program mean nothing here, whatever their names are.
    """
    if environments.command_of(job) is not None:
        return None, {}
    newest = job.status.training.attempt if job.status.training is not None else -1
    for attempt in range(newest, -1, -1):
        path = folder / attempt_folder(attempt) / RESULT_FILE
        if path.is_file():
            document = json.loads(volume_files.read_bytes(path))
            # That of --test-io has no model.
            return path.parent if document.get("model") else None, document
    return None, {}


def _dataset(job: ImageNetJob, folders: Volumes) -> Path | None:
    claim = volumes.dataset_claim(job)
    if claim is None:
        return None
    root = folders.path(claim)
    sealed, status = job.spec.dataset.sealed_path, job.status.listed
    if sealed is not None:
        return root / sealed
    return None if status is None else root / names.dataset_folder(status.key)


def link_model(result: Result, link: Path, workdir: Path) -> None:
    """Link the newest model in the job's folder, for `imagenetctl predict`.

    Links inside the working directory are relative, so that it can be moved.

    Raises:
        LocalError: The link cannot be made.
    """
    if result.model is None:
        return
    temporary = link.with_name(f".{link.name}.tmp-{secrets.token_hex(4)}")
    try:
        try:
            model, folder = result.model, link.parent.resolve()
            if model.is_relative_to(workdir) and folder.is_relative_to(workdir):
                model = Path(os.path.relpath(model, folder))
            temporary.symlink_to(model)
            temporary.rename(link)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise LocalError(
            f"cannot link {link} to the model: {error.strerror}; remove what is there, or "
            f"name the model with imagenetctl predict --model {result.model}"
        ) from error


def as_text(result: Result, plot: Path | None = None) -> str:
    """Return the summary of a run that succeeded, with the file of its plot."""
    status, training = result.job.status, result.job.status.training
    rows: dict[str, str] = {}
    if validation := result.training.get("validation"):
        images = f"on {validation['images']:,} validation images"
        rows["accuracy"] = (
            f"top-1 {validation['top1']:.4f}, top-5 {validation['top5']:.4f} {images}"
        )
    losses = {
        "training": None if result.epoch is None else result.epoch.loss,
        "validation": (validation or {}).get("loss"),
    }
    known = [f"{loss:.4f} {name}" for name, loss in losses.items() if loss is not None]
    rows["loss"] = ", ".join(known)
    ended = find(status.conditions, "Succeeded")
    if ended is not None and ended.reason == EARLY_STOPPED:
        rows["stopped"] = ended.message
    if best := result.training.get("best"):
        rows["best"] = f"epoch {best['epoch']}, by validation {best['metric']}"
    if training is not None and training.images_per_second and result.training.get("reading"):
        rows["reading"] = f"{training.images_per_second:,.1f} images/s"
    wait = None if training is None else training.data_wait
    if wait is not None and data_wait.is_worth_an_event(wait):
        rows["waiting"] = wait.message
    if environments.command_of(result.job) is not None:
        rows["results"] = str(result.results)
    else:
        rows["model"] = str(result.model or "none")
    if (uploaded := find(status.conditions, UPLOADED)) is not None:
        rows["upload"] = uploaded.message
    if result.dataset is not None:
        key = status.listed.key[:12] if status.listed is not None else result.dataset.name
        reused = f" (dataset {key} reused)" if result.is_reused else ""
        rows["dataset"] = f"{result.dataset}{reused}"
    if status.dataset is not None and status.dataset.decision is not None:
        decision = status.dataset.decision
        rows["source"] = "; ".join(filter(None, (decision.said, *(decision.warnings or ()))))
        rows["codec"] = decision.codec or ""
    if status.dataset is not None and status.dataset.left_out:
        rows["left out"] = status.dataset.left_out
    if status.dataset is not None and status.dataset.findings:
        rows["findings"] = "; ".join(status.dataset.findings)
    rows["restarts"] = f"{status.restarts}"
    if status.disruptions:
        rows["restarts"] += f", and {status.disruptions} after interruptions"
    rows["plot"] = "" if plot is None else str(plot)
    if result.model is not None:
        rows["try it"] = f"imagenetctl predict IMAGE --model {result.model}"
    head = f"{result.job.metadata.name} succeeded in {result.seconds:.0f} s"
    return "\n".join([head, *(f"  {name:<10}{value}" for name, value in rows.items() if value)])


def is_failure(job: ImageNetJob, event: Event) -> bool:
    """Whether an event is the failure of its job, which a run prints as its end."""
    failed = find(job.status.conditions, "Failed")
    return failed is not None and failed.status == "True" and failed.reason == event.reason


def failure_text(result: Result) -> str:
    """Return why a job failed, and the last lines of the log that the failure does not repeat."""
    condition = result.failure
    assert condition is not None
    name = result.job.metadata.name
    lines = [f"{name} failed: {condition.reason}: {condition.message}"]
    if result.log is not None and result.log.is_file():
        last = [
            line
            for line in tail(result.log, _LOG_BYTES).splitlines()[-_LOG_LINES:]
            if not condition.message.endswith(line.partition(": error: ")[2] or "\n")
        ]
        head = f"the last lines of {result.log}:" if last else f"the log is {result.log}"
        lines += [head, *(f"  {line}" for line in last)]
    return "\n".join(lines)


def as_json(result: Result) -> dict[str, Any]:
    """Return the last JSON line of a run."""
    status, failure = result.job.status, result.failure
    decision = None if status.dataset is None else status.dataset.decision
    return {
        "type": "result",
        "outcome": result.outcome,
        "job": result.job.metadata.name,
        "uid": result.job.metadata.uid,
        "reason": failure.reason if failure else None,
        "message": failure.message if failure else None,
        "log": str(result.log) if failure and result.log else None,
        "seconds": round(result.seconds, 1),
        "attempt": status.training.attempt if status.training else None,
        "restarts": status.restarts,
        "disruptions": status.disruptions,
        "dataset": {
            "key": status.listed.key if status.listed else None,
            "folder": str(result.dataset) if result.dataset else None,
            "reused": result.is_reused,
            "decision": decision.to_manifest() if decision else None,
            "findings": list(status.dataset.findings or ()) if status.dataset else [],
        },
        "model": {"folder": str(result.model), **result.training.get("model", {})}
        if result.model
        else None,
        "validation": result.training.get("validation"),
        "loss": None if result.epoch is None else result.epoch.loss,
        "epochs": result.training.get("epochs"),
        "best": result.training.get("best"),
        "earlyStop": result.training.get("earlyStop"),
        "imagesPerSecond": status.training.images_per_second if status.training else None,
        "dataWait": status.training.data_wait.to_manifest()
        if status.training and status.training.data_wait
        else None,
    }
