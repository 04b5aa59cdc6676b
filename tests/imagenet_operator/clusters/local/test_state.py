"""What a working directory remembers of a job."""

import copy
import errno
import json
import os
import shutil
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from imagenet_operator.clusters.interface import LocalError
from imagenet_operator.clusters.local.state import JobFolder, Opened, is_finished
from imagenet_spec.resource import ImageNetJob
from support import job_table
from support.sentences import says

Manifest = dict[str, Any]
SUCCEEDED = {
    "conditions": [
        {
            "type": "Succeeded",
            "status": "True",
            "reason": "x",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
    ]
}
STARTED = {"startTime": "2026-01-01T00:00:00Z"}


def manifest(**run_policy: Any) -> Manifest:
    found = ImageNetJob.model_validate(job_table.manifest(run_policy=run_policy)).to_manifest()
    del found["metadata"]["uid"]
    return found


def run(workdir: Path, status: Manifest | None, wanted: Manifest | None = None) -> Opened:
    folder = JobFolder(workdir, "digits")
    with folder.locked():
        opened = folder.open(wanted or manifest())
        if status is not None:
            folder.save({**opened.job, "status": status})
    return opened


def test_a_new_job_gets_what_an_api_server_gives(tmp_path: Path) -> None:
    opened = run(tmp_path, None)

    metadata = opened.job["metadata"]
    assert uuid.UUID(metadata["uid"])
    assert metadata["creationTimestamp"].endswith("Z")
    assert metadata["generation"] == 1
    assert "status" not in opened.job
    assert (opened.run, opened.resumed) == (1, False)


def test_an_interrupted_job_goes_on(tmp_path: Path) -> None:
    first = run(tmp_path, STARTED)

    second = run(tmp_path, None)

    assert second.job["metadata"] == first.job["metadata"]
    assert second.job["status"] == STARTED
    assert (second.run, second.resumed) == (1, True)


def test_the_clocks_of_an_interrupted_job_stood_still_since_its_last_word(tmp_path: Path) -> None:
    since, last_word = "2026-01-01T10:00:00Z", datetime(2026, 1, 1, 10, 7, tzinfo=UTC).timestamp()
    clock = {"seconds": 30, "since": since}
    run(tmp_path, {**STARTED, "preparation": clock, "training": {"attempt": 0, "clock": clock}})
    folder = tmp_path / "jobs" / "digits"
    log = folder / "logs" / "digits-r0-worker-0.log"
    log.touch()
    os.utime(folder / "job.json", (last_word - 200, last_word - 200))
    os.utime(log, (last_word, last_word))

    for _ in range(2):
        status = run(tmp_path, None).job["status"]
        assert status["preparation"] == status["training"]["clock"] == {"seconds": 450}


def test_the_time_between_two_runs_is_a_suspension(tmp_path: Path) -> None:
    last_word = datetime(2026, 1, 1, 10, 7, tzinfo=UTC).timestamp()
    phases = {"stepping": 100.0, "unreported": 20.0}
    time = {"phases": phases, "phase": "training", "countedUntil": "2026-01-01T10:05:00Z"}
    run(tmp_path, {**STARTED, "time": time})
    for file in (tmp_path / "jobs" / "digits").glob("*.json"):
        os.utime(file, (last_word, last_word))

    found = run(tmp_path, None).job["status"]["time"]

    assert found["phases"] == {"stepping": 100.0, "unreported": 140.0}
    assert (found["phase"], found["countedUntil"]) == ("suspended", "2026-01-01T10:07:00Z")
    assert found["goodput"] == 0.4167


def test_a_finished_job_starts_anew(tmp_path: Path) -> None:
    first = run(tmp_path, SUCCEEDED)

    second = run(tmp_path, None)

    assert second.job["metadata"]["uid"] != first.job["metadata"]["uid"]
    assert "status" not in second.job
    assert (second.run, second.resumed) == (2, False)


MODEL = {"claimName": "data", "path": "jobs/digits-0123abcd/attempts/r0"}
UPLOADED = {"type": "ModelUploaded", "status": "True", "reason": "Uploaded"}
UPLOADED |= {"lastTransitionTime": "2026-01-02T03:04:05Z"}
NOT_UPLOADED = {**UPLOADED, "status": "False", "reason": "UploadLimitExceeded"}


def with_upload(bucket: str) -> Manifest:
    wanted = manifest()
    place = {"s3": {"bucket": bucket, "prefix": "digits"}}
    wanted["spec"]["training"]["output"] = {"upload": place}
    return wanted


@pytest.mark.parametrize(
    ("bucket", "uploaded", "resumed"),
    [
        ("models", [NOT_UPLOADED], True),
        ("others", [NOT_UPLOADED], True),
        ("models", [], True),
        ("models", [UPLOADED], False),
    ],
)
def test_a_job_goes_on_until_its_model_is_uploaded(
    bucket: str, uploaded: list[Manifest], resumed: bool, tmp_path: Path
) -> None:
    conditions = [*SUCCEEDED["conditions"], *uploaded]
    ended = {**SUCCEEDED, "conditions": conditions, "model": MODEL, "upload": {"failures": 1}}
    first = run(tmp_path, ended, with_upload("models"))

    second = run(tmp_path, None, with_upload(bucket))

    is_same = second.job["metadata"]["uid"] == first.job["metadata"]["uid"]
    assert (second.resumed, is_same) == (resumed, resumed)
    if resumed:
        assert second.job["status"] == {**SUCCEEDED, "model": MODEL}


def test_the_manifest_of_the_new_run_counts(tmp_path: Path) -> None:
    run(tmp_path, STARTED)

    opened = run(tmp_path, None, manifest(backoffLimit=9))

    assert opened.resumed
    assert opened.job["spec"]["runPolicy"]["backoffLimit"] == 9


@pytest.mark.parametrize("path", [("training", "epochs"), ("dataset", "source"), ("metadata",)])
def test_another_job_of_the_name_starts_anew(tmp_path: Path, path: tuple[str, ...]) -> None:
    run(tmp_path, STARTED)
    other = copy.deepcopy(manifest())
    if path == ("metadata",):
        other["metadata"]["namespace"] = "another"
    else:
        other["spec"][path[0]][path[1]] = {"changed": 1}

    assert not run(tmp_path, None, other).resumed


def test_a_job_whose_folder_was_removed_is_another(tmp_path: Path) -> None:
    first = run(tmp_path, STARTED).job["metadata"]["uid"]
    shutil.rmtree(tmp_path / "jobs" / "digits")

    second = run(tmp_path, STARTED)

    assert not second.resumed
    assert second.job["metadata"]["uid"] != first
    assert run(tmp_path, None).job["metadata"]["uid"] == second.job["metadata"]["uid"]


def test_logs_of_a_former_job_go_and_those_of_an_interrupted_one_stay(tmp_path: Path) -> None:
    run(tmp_path, STARTED)
    log = tmp_path / "jobs" / "digits" / "logs" / "pod.log"
    log.touch()
    run(tmp_path, SUCCEEDED)
    assert log.exists()

    run(tmp_path, None)

    assert not log.exists()


def test_a_cut_write_leaves_the_former_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(tmp_path, STARTED)

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", fail)
        with pytest.raises(LocalError, match=r"cannot write to .*No space left"):
            run(tmp_path, SUCCEEDED)

    assert run(tmp_path, None).resumed


def test_a_working_directory_that_cannot_be_looked_at_is_named(tmp_path: Path) -> None:
    workdir = tmp_path / ("x" * 300)

    with pytest.raises(LocalError, match=f"cannot write to .* {workdir}: File name too long"):
        JobFolder(workdir, "digits").check()


def damaged(*path: str | int, value: Any) -> str:
    """The state of a job that has begun, with another value somewhere."""
    metadata = {"uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z", "generation": 1}
    status = {**copy.deepcopy(SUCCEEDED), "training": {"attempt": 0}}
    job = {**manifest(), "metadata": {**manifest()["metadata"], **metadata}, "status": status}
    whole = {"version": 1, "run": 1, "identity": "i", "job": job}
    place: Any = whole
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return json.dumps(whole)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        json.dumps({"version": 99}),
        "[]",
        "null",
        json.dumps({"version": 1}),
        damaged("run", value="1"),
        damaged("identity", value=None),
        damaged("job", value=[]),
        damaged("job", "metadata", value=None),
        damaged("job", "metadata", "uid", value=7),
        damaged("job", "spec", value=[]),
        damaged("job", "status", value=None),
        damaged("job", "status", "conditions", value={}),
        damaged("job", "status", "conditions", value=["Succeeded"]),
        damaged("job", "status", "conditions", 0, "type", value=None),
        damaged("job", "status", "training", "clock", value=3),
        damaged("job", "status", "preparation", value=[]),
    ],
)
def test_a_state_that_cannot_be_used_says_what_to_do(tmp_path: Path, text: str) -> None:
    run(tmp_path, STARTED)
    (tmp_path / "jobs" / "digits" / "job.json").write_text(text)
    remedy = says("job.json", "remove the file", "start 'digits' from the beginning")
    with pytest.raises(LocalError, match=remedy):
        JobFolder(tmp_path, "digits").stored()

    with pytest.raises(LocalError, match=remedy):
        run(tmp_path, None)


def test_a_job_is_locked_while_it_is_open(tmp_path: Path) -> None:
    with (
        JobFolder(tmp_path, "digits").locked(),
        pytest.raises(LocalError, match="another imagenetctl is running 'digits'"),
        JobFolder(tmp_path, "digits").locked(),
    ):
        pass

    with JobFolder(tmp_path, "digits").locked(), JobFolder(tmp_path, "other").locked():
        pass


@pytest.mark.parametrize(
    ("kind", "status", "finished"),
    [("Succeeded", "True", True), ("Failed", "True", True), ("Failed", "False", False)],
)
def test_the_last_conditions_finish_a_job(kind: str, status: str, finished: bool) -> None:
    assert is_finished({"conditions": [{"type": kind, "status": status}]}) is finished
    assert not is_finished({})
