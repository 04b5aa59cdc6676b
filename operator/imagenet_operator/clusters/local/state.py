"""The persistent state of a job: WORKDIR/jobs/NAME with job.json, locks and logs.

`imagenetctl run` locks the folder of a job, reads whether the job is new, finished or interrupted,
and stores its spec and status there. Pods and Jobs end with imagenetctl. A resumed job keeps its
UID, so the decisions see an attempt whose pods have vanished, and start the next attempt from the
latest checkpoint.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import secrets
import shutil
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, StrictInt, ValidationError

from imagenet_operator.clusters.interface import LocalError
from imagenet_operator.reconcile import uploads
from imagenet_operator.reconcile.policies import deadlines, time_account
from imagenet_operator.reconcile.types import Event
from imagenet_spec.resource import ImageNetJob, Manifest
from imagenet_spec.resource.status import Clock
from imagenet_spec.resource.time_status import TimeStatus

_VERSION = 1

_ASSIGNED = ("uid", "creationTimestamp", "generation")
"""The metadata that the first run sets."""

EVENTS = "events.jsonl"
"""The events of the job, one a line, over all runs until another job takes its place."""

_DYING_SECONDS = 10.0
"""How long to wait for the end of the pods of a killed run."""


@dataclass(frozen=True)
class Opened:
    """The start of a run, with its number among the runs of the job, from 1."""

    job: Manifest
    run: int
    resumed: bool


class JobFolder:
    """The folder of one job in a working directory, with its locks.

    The run holds `lock`. Its pods inherit `pods.lock`, so that a run right after a kill -9 does not
    start while a process of the former run exists. A folder that cannot be used is a LocalError.
    """

    def __init__(self, workdir: Path, name: str) -> None:
        self.workdir = workdir
        self.path = workdir / "jobs" / name
        self.logs = self.path / "logs"
        self.scratch = self.path / "scratch"
        self._name = name
        self._run = 0
        self._pods_lock = -1

    def fileno(self) -> int:
        """The descriptor of the pods' lock, for them to inherit."""
        return self._pods_lock

    def check(self) -> None:
        """Check that the folder exists or can be created, without creating it."""
        with self._writing():
            nearest = next(place for place in (self.path, *self.path.parents) if place.exists())
        if nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK):
            return
        reason = "is not writable" if nearest.is_dir() else "is not a folder"
        raise LocalError(
            f"cannot write to the working directory {self.workdir}: {nearest} {reason}; "
            "name another one with --workdir"
        )

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the job's lock; raise LocalError if another run holds it."""
        with contextlib.ExitStack() as stack:
            own = stack.enter_context(self._lock_file("lock"))
            self._pods_lock = stack.enter_context(self._lock_file("pods.lock"))
            try:
                fcntl.flock(own, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise LocalError(
                    f"another imagenetctl is running {self._name!r} in {self.workdir}; "
                    "wait for it, stop it, or name another folder with --workdir"
                ) from error
            os.ftruncate(own, 0)
            os.pwrite(own, b"%d" % os.getpid(), 0)
            self._wait_for_former_pods()
            yield

    def owner(self) -> int | None:
        """Return the process of this user and machine that runs the job; None if there is none."""
        lock = self.path / "lock"
        try:
            process = int(lock.read_text())
            opened = Path(f"/proc/{process}/fd").iterdir()
            # The number may be that of another process by now.
            holds = any(item.exists() and item.samefile(lock) for item in opened)
        except (OSError, ValueError):
            return None
        return process if holds else None

    def record(self, event: Event) -> None:
        """Append an event of the job to its events."""
        document = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "type": event.type,
            "reason": event.reason,
            "message": event.message,
        }
        with self._writing(), (self.path / EVENTS).open("a", encoding="utf-8") as file:
            file.write(json.dumps(document) + "\n")

    def open(self, manifest: Manifest) -> Opened:
        """Start or resume the job, and record that.

        A job that has succeeded is resumed if the manifest asks for an upload of its model that has
        not succeeded.
        """
        with self._writing():
            former = self._read()
            identity = identity_of(manifest)
            status = {} if former is None else _without_failed_upload(former["job"])
            if (
                former is not None
                and former["identity"] == identity
                and (not is_finished(status) or _lacks_upload(manifest, status))
            ):
                self._run = former["run"]
                assigned = {key: former["job"]["metadata"][key] for key in _ASSIGNED}
                # The last run or one of its pods last wrote a file then.
                written = (self.path / "job.json", *self.logs.glob("*"))
                ended = datetime.fromtimestamp(max(item.stat().st_mtime for item in written), UTC)
                job = {**manifest, "status": _stilled(status, ended)}
                resumed = bool(job["status"])
            else:
                self._run = former["run"] + 1 if former is not None else 1
                # Results are stored by UID, so a UID is never reused: the results of a removed job
                # stay.
                assigned = {
                    "uid": str(uuid.uuid4()),
                    "creationTimestamp": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
                    "generation": 1,
                }
                job = {key: value for key, value in manifest.items() if key != "status"}
                resumed = False
                shutil.rmtree(self.logs, ignore_errors=True)
                (self.path / EVENTS).unlink(missing_ok=True)
            job["metadata"] = {**manifest["metadata"], **assigned}
            shutil.rmtree(self.scratch, ignore_errors=True)
            self.logs.mkdir(parents=True, exist_ok=True)
            self.scratch.mkdir(parents=True, exist_ok=True)
            self.save(job)
            return Opened(job, self._run, resumed)

    def stored(self) -> Manifest | None:
        """Return the job with its status after the last run; None if there was none."""
        document = self._read()
        return None if document is None else document["job"]

    def save(self, job: Manifest) -> None:
        """Write the job with its status, atomically."""
        document = {
            "version": _VERSION,
            "run": self._run,
            "identity": identity_of(job),
            "job": job,
        }
        temporary = self.path / f".job.json.tmp-{secrets.token_hex(4)}"
        with self._writing():
            with temporary.open("w", encoding="utf-8") as file:
                json.dump(document, file, indent=2)
                file.flush()
                os.fsync(file.fileno())
            temporary.rename(self.path / "job.json")

    def _read(self) -> Manifest | None:
        try:
            document: Any = json.loads((self.path / "job.json").read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise self._unreadable(str(error)) from error
        if reason := _damage(document):
            raise self._unreadable(reason)
        found: Manifest = document
        return found

    def _unreadable(self, reason: str) -> LocalError:
        return LocalError(
            f"cannot use {self.path / 'job.json'}: {reason}; "
            f"remove the file to start {self._name!r} from the beginning"
        )

    @contextlib.contextmanager
    def _lock_file(self, name: str) -> Iterator[int]:
        with self._writing():
            self.path.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.path / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Raise an OSError as a LocalError with a remedy."""
        try:
            yield
        except OSError as error:
            where = f" ({error.filename})" if error.filename else ""
            raise LocalError(
                f"cannot write to the working directory {self.workdir}: {error.strerror}{where}; "
                "free space there, or name another one with --workdir"
            ) from error

    def _wait_for_former_pods(self) -> None:
        deadline = time.monotonic() + _DYING_SECONDS
        while True:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(self._pods_lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            if time.monotonic() > deadline:
                raise LocalError(
                    f"processes of an earlier run of {self._name!r} in {self.workdir} still run; "
                    "end them, or name another folder with --workdir"
                )
            time.sleep(0.02)


def identity_of(manifest: Manifest) -> str:
    """Return a hash of the fields that identify a job: its names, dataset and training.

    `runPolicy` is left out: raising a limit after an interruption must not start another job. So is
    the place of an upload, which may be corrected after a failure.
    """
    metadata = manifest["metadata"]
    parts = {key: value for key, value in manifest["spec"].items() if key != "runPolicy"}
    if "upload" in parts["training"].get("output", {}):
        training = dict(parts["training"])
        output = training.pop("output")
        kept = {key: value for key, value in output.items() if key != "upload"}
        parts["training"] = {**training, **({"output": kept} if kept else {})}
    text = json.dumps([metadata.get("namespace"), metadata["name"], parts], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def is_finished(status: Manifest) -> bool:
    """Whether a job has succeeded or failed, by its status."""
    return any(
        condition["type"] in ("Succeeded", "Failed") and condition["status"] == "True"
        for condition in status.get("conditions", [])
    )


def _without_failed_upload(job: Manifest) -> Manifest:
    """Return the status of a job as if its model had not been uploaded, unless it was."""
    status = dict(job.get("status", {}))
    conditions = [
        item
        for item in status.get("conditions", [])
        if item["type"] != uploads.UPLOADED or item["status"] == "True"
    ]
    status.pop("upload", None)
    return {**status, "conditions": conditions} if conditions else status


def _lacks_upload(manifest: Manifest, status: Manifest) -> bool:
    return uploads.is_uploading(ImageNetJob.model_validate({**manifest, "status": status}))


def _stilled(status: Manifest, at: datetime) -> Manifest:
    """Stop the clocks of an interrupted run: the job has not run since, as its user wanted."""
    training = status.get("training", {})
    changed = {}
    if "preparation" in status:
        changed["preparation"] = _stopped(status["preparation"], at)
    if "clock" in training:
        changed["training"] = {**training, "clock": _stopped(training["clock"], at)}
    if "time" in status:
        time = time_account.paused(TimeStatus.model_validate(status["time"]), at)
        changed["time"] = time.model_dump(mode="json", by_alias=True, exclude_none=True)
    return status | changed


def _stopped(written: Manifest, at: datetime) -> Manifest:
    stopped = deadlines.stop_clock(Clock.model_validate(written), at)
    return stopped.model_dump(mode="json", by_alias=True, exclude_none=True)


class _Document(BaseModel):
    """The content of job.json, without its version."""

    run: StrictInt
    identity: str
    job: ImageNetJob


def _damage(document: Any) -> str | None:
    """Return why a document was not written by `JobFolder.save`; None if it was."""
    if not isinstance(document, dict):
        return "it is not a JSON object"
    if document.get("version") != _VERSION:
        return f"its version is {document.get('version')!r}, not {_VERSION}"
    try:
        _Document.model_validate(document)
    except ValidationError as error:
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    missing = [key for key in _ASSIGNED if key not in document["job"].get("metadata", {})]
    return f"job.metadata.{missing[0]}: is missing" if missing else None
